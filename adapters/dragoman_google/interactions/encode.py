"""Canonical to wire: the body of a request for an interaction."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dragoman.adapter import demands, schemas, structured
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import restore
from dragoman.adapter.turns import MADE, Turn
from dragoman.canonical.blocks import DocumentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_google.contents import CONTINUE, LACKING, notes_of
from dragoman_google.interactions import contents
from dragoman_google.parts import Note

MERGED = frozenset({"generation_config"})
LEVELS = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
_SETTINGS = ("temperature", "top_p", "seed", "max_output_tokens")
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def goes_on_from_store(extra: Mapping[str, Any]) -> bool:
    """Whether Google keeps the turns before, so that calls may be out of sight."""
    return bool(extra.get("previous_interaction_id"))


def body(request: Outgoing, definitions: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The whole body."""
    listed = [turn for turn in request.turns if turn.role is not Role.SYSTEM]
    instruction = _instruction(request)
    agent = "agent" in request.options.extra.get(request.provider, {})
    encoded: dict[str, Any] = {} if agent else {"model": request.adapter.model}
    if instruction:
        encoded["system_instruction"] = instruction
    encoded["input"] = _input(request, listed)
    if usable := schemas.fit_tools(request, request.usable(definitions)):
        encoded["tools"] = [tool(each, _own(each, request.provider)) for each in usable]
    return encoded | parameters(request, tools=bool(usable))


def _instruction(request: Outgoing) -> str:
    """All of the instruction as one text."""
    told = [
        (turn, index, block.text)
        for turn in request.turns
        if turn.role is Role.SYSTEM
        for index, block in enumerate(turn.blocks)
        if isinstance(block, TextBlock)
    ]
    for turn, index, _ in told:
        request.lose_details(turn, index, "citations")
        if len(told) > 1:
            request.lose_block(turn, index, LossKind.FLATTENED, "the instructions are sent as one text", Severity.INFO)
    return "\n\n".join(text for _, _, text in told)


def parameters(request: Outgoing, *, tools: bool) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    options = request.options
    encoded: dict[str, Any] = {"stream": True} if options.stream else {}
    config: dict[str, Any] = {name: value for name in _SETTINGS if (value := getattr(options, name)) is not None}
    if stop := demands.stop_sequences(request):
        config["stop_sequences"] = stop
    config |= _thinking(request)
    choice = demands.tool_choice(request, tools=tools, reasons=False)
    if isinstance(choice, NamedTool):
        config["tool_choice"] = {"allowed_tools": {"mode": "any", "tools": [choice.name]}}
    elif choice is not None:
        config["tool_choice"] = _CHOICES[choice]
    if config:
        encoded["generation_config"] = config
    if structured.is_written(request, tools=tools):
        schema = schemas.fit_output(request)
        encoded["response_format"] = {"type": "text", "mime_type": "application/json", "schema": schema}
    for name in ("top_k", "thinking_budget"):
        if getattr(options, name) is not None:
            request.lose_option(name, "the Interactions API has none")
    if options.parallel_tool_calls is False:
        request.lose_option("parallel_tool_calls", "Google has no such switch")
    demands.lose_cache_hint(request)
    return encoded


def _thinking(request: Outgoing) -> dict[str, Any]:
    options = request.options
    if options.thinking is False or options.effort == "none":
        request.lose_option("thinking", "it cannot be switched off here; the least level is asked for")
        return {"thinking_level": "minimal"}
    config: dict[str, Any] = {"thinking_summaries": "auto"} if options.thinking else {}
    if options.effort in LEVELS:
        config["thinking_level"] = LEVELS[options.effort]
    elif options.effort is not None:
        request.lose_option("effort", f"{options.effort!r} is no level of Google's")
    return config


def tool(definition: ToolDefinition, own: Note) -> dict[str, Any]:
    """A function, flat; a tool that Google runs itself goes back as it was read."""
    if "native" in own:
        return dict(own["native"])
    encoded: dict[str, Any] = {"type": "function", "name": definition.name}
    if definition.description:
        encoded["description"] = definition.description
    encoded["parameters"] = definition.input_schema
    return restore(encoded, own.get("residue"))


def _own(definition: ToolDefinition, provider: str) -> Note:
    raw = definition.provider_raw or {}
    return raw if raw.get("by") == provider else {}


def _input(request: Outgoing, turns: Sequence[Turn]) -> Any:
    """The steps; one that was read as a text or as bare contents stays so while nothing else is said."""
    if not turns:
        request.lose(LossKind.EMPTY_MESSAGE, "nothing is left to send: a user's turn is added", Severity.INFO)
        return CONTINUE
    steps: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for turn in turns:
        own = notes_of(turn, request.provider)
        if turn.role is Role.ASSISTANT:
            names |= {block.id: block.name for block in turn.blocks if isinstance(block, ToolUseBlock)}
            steps += _said(request, turn, own)
        elif turn.role is Role.TOOL:
            _answer(request, turn, own, names, steps)
        else:
            _ask(request, turn, own, steps)
    if not steps:
        return CONTINUE
    form = notes_of(turns[0], request.provider).get("form")
    if form is None or len(turns) > 1:
        return steps
    listed = steps[0]["content"]
    return {"text": lambda: listed[0]["text"], "content": lambda: listed[0], "contents": lambda: listed}[form]()


def _ask(request: Outgoing, turn: Turn, own: Note, steps: list[dict[str, Any]]) -> None:
    said = [each for index in range(len(turn.blocks)) for each in _content(request, turn, index, own)]
    if own.get("joined") and steps and steps[-1]["type"] == "user_input":
        steps[-1]["content"] += said
    elif said or own:
        steps.append(restore({"type": "user_input", "content": said}, own.get("beside")))
    elif not steps or _is_output(steps[-1]):
        reason = "the user's message is empty: a word is put in its place"
        request.lose(LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
        steps.append({"type": "user_input", "content": [{"type": "text", "text": CONTINUE}]})


def _answer(request: Outgoing, turn: Turn, own: Note, names: Mapping[str, str], steps: list[dict[str, Any]]) -> None:
    for index, block in enumerate(turn.blocks):
        if not isinstance(block, ToolResultBlock):
            continue
        if not own:
            request.lose_details(turn, index, *LACKING)
        native = contents.answer(block, names.get(block.tool_use_id, "unknown"), request.tool_id(block.tool_use_id))
        native = request.restored(turn, index, native) if own else native
        if not own.get("inside"):
            steps.append(native)
        elif own.get("joined") and steps and steps[-1]["type"] == "user_input":
            steps[-1]["content"].append(native)
        else:
            steps.append(restore({"type": "user_input", "content": [native]}, own.get("beside")))


def _said(request: Outgoing, turn: Turn, own: Note) -> list[dict[str, Any]]:
    """What the model said: contents side by side are one step, unless they were read as several."""
    found: list[dict[str, Any]] = []
    layout = _layout(turn, own)
    for index, block in enumerate(turn.blocks):
        request.lose_details(turn, index, "arguments")
        wire_id = request.tool_id(block.id) if isinstance(block, ToolUseBlock) else None
        alone = contents.step(block, wire_id)
        if alone is None and layout is not None and block.type == "provider" and layout.get(index) == "step":
            alone = contents.content(block)
        if alone is not None:
            found.append(request.restored(turn, index, alone) if own else alone)
            continue
        starts = layout.get(index) == "first" if layout is not None else not (found and _is_output(found[-1]))
        if starts:
            found.append({"type": "model_output", "content": []})
        found[-1]["content"] += _content(request, turn, index, own)
    if layout is not None:
        return _with_beside(found, own)
    for index in turn.words_behind_calls():
        request.lose_block(turn, index, LossKind.FLATTENED, "words behind a call go before it", Severity.INFO)
    # Between a call and its answer stands nothing, so that all calls come last.
    return sorted(
        (step for step in found if step.get("content") != []), key=lambda step: bool(step["type"] == "function_call")
    )


def _is_output(step: Mapping[str, Any]) -> bool:
    return bool(step["type"] == "model_output")


def _layout(turn: Turn, own: Note) -> dict[int, str] | None:
    """Which blocks begin a step or are one by themselves; None where the turn is not as it was read."""
    if "steps" not in own or turn.origins != tuple(range(len(turn.message.content))):
        return None
    found: dict[int, str] = {}
    position = 0
    for step in own["steps"]:
        count = step.get("contents", 1)
        if count:
            found[position] = "first" if "contents" in step else "step"
        position += count
    return found


def _with_beside(steps: list[dict[str, Any]], own: Note) -> list[dict[str, Any]]:
    """The steps with those that held no content, and with what stood beside the contents."""
    told = iter(steps)
    return [
        restore(
            {"type": "model_output", "content": []} if step.get("contents") == 0 else next(told), step.get("beside")
        )
        for step in own["steps"]
    ]


def _content(request: Outgoing, turn: Turn, index: int, own: Note) -> Iterator[dict[str, Any]]:
    block = turn.blocks[index]
    if own and turn.origins[index] != MADE:
        encoded = request.restored(turn, index, contents.content(block))
        if "annotations" not in encoded:
            request.lose_details(turn, index, "citations")
        yield encoded
        return
    request.lose_details(turn, index, *LACKING, "resolution")
    if isinstance(block, TextBlock) and not block.text:
        request.lose_block(turn, index, LossKind.EMPTY_TEXT, "an empty text is not sent", Severity.INFO)
        return
    if isinstance(block, DocumentBlock):
        if said := "\n".join(filter(None, (block.title, block.context))):
            request.lose_block(turn, index, LossKind.FLATTENED, "title and note go in front as text", Severity.INFO)
            yield {"type": "text", "text": said}
        if block.source.kind == "text":
            # Plain text is none of the types that a document may have.
            yield {"type": "text", "text": block.source.data}
            return
    yield contents.content(block)
