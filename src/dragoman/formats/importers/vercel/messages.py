"""``UIMessage``: what the SDK's user interfaces keep, and ``ModelMessage``: what `generateText` takes and returns.

One message of the assistant holds all steps of its turn, with the outputs of the tools. Each step becomes a message,
followed by its results. Of messages for models, results of tools are messages with the role tool.
"""

from dataclasses import dataclass, field
from typing import Any

from dragoman.canonical.blocks import Citation, ContentBlock, ToolResultBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.importers.blocks import model_fields_of, provider_block, text_blocks
from dragoman.formats.importers.pydantic_ai import tool_result_blocks
from dragoman.formats.importers.vercel import parts
from dragoman.formats.importers.vercel.parts import LIBRARY, PartMetadata
from dragoman.formats.reading.fields import Fields, typed_errors
from dragoman.formats.reading.turns import Turns, read_messages, read_time

FORMAT = "vercel-ui"
_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_PYDANTIC = "pydantic_ai"
_FAILED = ("output-error", "output-denied")
_MODEL_FORMAT = "vercel-model"


@typed_errors
def from_vercel_ui(document: Any) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a single message. Raises FormatError."""
    return read_messages(document, FORMAT, lambda message, turns: _MessageReader(message, turns).read())


@dataclass(slots=True)
class _Step:
    blocks: list[ContentBlock] = field(default_factory=list)
    results: list[ToolResultBlock] = field(default_factory=list)
    sources: list[Citation] = field(default_factory=list)
    model: dict[str, Any] = field(default_factory=dict)


class _MessageReader:
    def __init__(self, message: Fields, turns: Turns) -> None:
        self._message = message
        self._turns = turns
        self._is_pydantic = False
        self._steps: list[_Step] = [_Step()]
        self._has_marks = False
        self._usage: Usage | None = None
        self._model: dict[str, Any] = {}

    def read(self) -> None:
        message = self._message
        role = message.role(_ROLES)
        message.ignore("id")
        time = self._metadata()
        created = read_time(message.take("createdAt")) or time
        self._turns.start(role)
        listed = message.objects("parts")
        self._has_marks = any(part.look("type") == "step-start" for part in listed)
        for part in listed:
            self._part(part)
        steps = [step for step in self._steps if step.blocks or step.results or step.sources] or [_Step()]
        for step in steps:
            metadata = parts.name_model({**step.model, **self._model}) if role is Role.ASSISTANT else {}
            if step is steps[-1]:
                metadata["usage"] = self._usage
            blocks = parts.add_sources(step.blocks, step.sources)
            self._turns.add(role, blocks, message.path, metadata=metadata, created_at=created)
            for result in step.results:
                self._turns.add(Role.TOOL, [result], message.path, created_at=created)

    def _metadata(self) -> Any:
        """Read what programs usually store with a message: time, model and usage; and pydantic-ai's time."""
        metadata = self._message.object("metadata")
        if metadata is None:
            return None
        for name in ("totalUsage", "usage"):
            if isinstance(metadata.look(name), dict):
                usage = metadata.object(name)
                assert usage is not None
                self._usage = self._usage or parts.read_usage(usage)
        model = metadata.look("model")
        if isinstance(model, str):
            provider = model.partition(":")[0] if ":" in model else None
            self._model = {"model": metadata.text("model"), **({"provider": provider} if provider else {})}
        pydantic = metadata.object(_PYDANTIC)
        if pydantic is None:
            return read_time(metadata.take("createdAt"))
        self._is_pydantic = True
        return read_time(pydantic.take("timestamp"))

    def _part(self, part: Fields) -> None:
        kind = part.text("type") or ""
        if kind == "step-start":
            self._steps.append(_Step())
            return
        if kind.startswith("tool-") or kind == "dynamic-tool":
            self._tool(part, kind)
            return
        step = self._steps[-1]
        if step.results and not self._has_marks and kind in ("text", "reasoning"):
            step = _Step()  # some programs write no marks between the steps
            self._steps.append(step)
        if kind in ("source-url", "source-document"):
            step.sources.append(parts.read_source(part))
            return
        if kind == "custom" and (named := model_of_custom(part)) is not None:
            step.model.update(named)
            return
        part.ignore("state")
        if kind not in ("text", "reasoning", "file"):
            step.blocks.append(provider_block(LIBRARY, kind, part.whole()))
            return
        metadata = PartMetadata(part, "providerMetadata")
        if metadata.provider is not None:
            step.model.setdefault("provider", metadata.provider)
        if kind == "text":
            text = parts.read_text(part.text("text") or "", metadata, part)
            step.blocks += [text] if text is not None else []
        elif kind == "reasoning":
            part.ignore("id")
            step.blocks.append(parts.read_reasoning(part.text("text") or "", metadata))
        else:
            step.blocks += parts.read_file(part, "url")

    def _tool(self, part: Fields, kind: str) -> None:
        step = self._steps[-1]
        named = part.text("toolName")
        name = named or kind.removeprefix("tool-")
        if part.look("providerExecuted") is True:
            step.blocks.append(provider_block(LIBRARY, name, part.whole()))
            return
        part.ignore("providerExecuted", "preliminary", "title")
        metadata = PartMetadata(part, "callProviderMetadata", "resultProviderMetadata")
        if metadata.provider is not None:
            step.model.setdefault("provider", metadata.provider)
        for name_of_copy in ("outcome", "retry", "content"):
            metadata.take(name_of_copy)  # pydantic-ai's form of the output that the part has
        native_id, state = part.text("toolCallId"), part.text("state")
        arguments = part.take("input", "rawInput", "args")
        if isinstance(arguments, dict) and arguments.keys() == {"INVALID_JSON"}:
            arguments = arguments["INVALID_JSON"]
        step.blocks.append(self._turns.call(native_id, name, arguments))
        if state in _FAILED:
            content = text_blocks(part.text("errorText") or "The call was denied.")
            step.results.append(self._turns.result(native_id, name, content, is_error=True))
        elif state == "output-available" or "output" in part:
            output = part.take("output")
            content = tool_result_blocks(output, f"{part.path}.output") if self._is_pydantic else text_blocks(output)
            step.results.append(self._turns.result(native_id, name, content))


@typed_errors
def from_vercel_model(document: Any) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a single message. Raises FormatError."""
    return read_messages(document, _MODEL_FORMAT, lambda message, turns: _ModelMessageReader(message, turns).read())


class _ModelMessageReader:
    def __init__(self, message: Fields, turns: Turns) -> None:
        self._message = message
        self._turns = turns
        self._model: dict[str, Any] = {}
        self._server_calls: set[str] = set()

    def read(self) -> None:
        message = self._message
        role = message.role({**_ROLES, "tool": Role.TOOL})
        message.ignore("id")
        content = message.look("content")
        self._turns.start(role, has_results=role is Role.TOOL)
        if isinstance(content, str):
            blocks: list[ContentBlock] = text_blocks(message.text("content"))
        else:
            blocks = [block for part in message.objects("content") for block in self._part(part)]
        metadata = parts.name_model(self._model) if role is Role.ASSISTANT else None
        self._turns.add(role, blocks, message.path, metadata=metadata)

    def _part(self, part: Fields) -> list[ContentBlock]:
        kind = part.text("type") or ""
        if kind == "custom":  # of version 7, with what a provider's stream began with: only its model matters
            named = model_of_custom(part)
            if named is None:
                return [provider_block(LIBRARY, "custom", part.whole())]
            self._model.update(named)
            return []
        metadata = PartMetadata(part, "providerOptions", "providerMetadata")
        if metadata.provider is not None:
            self._model.setdefault("provider", metadata.provider)
        match kind:
            case "text":
                block = parts.read_text(part.text("text") or "", metadata, part)
                return [block] if block is not None else []
            case "reasoning":
                return [parts.read_reasoning(part.text("text") or "", metadata)]
            case "image" | "file":
                return list(parts.read_file(part, "image", "data"))
            case "tool-call":
                return [self._call(part)]
            case "tool-result":
                return [self._result(part)]
            case _:
                return [provider_block(LIBRARY, kind, part.whole())]

    def _call(self, part: Fields) -> ContentBlock:
        native_id = part.text("toolCallId")
        name = part.required_text("toolName")
        if part.flag("providerExecuted"):
            self._server_calls.add(native_id or name)
            return provider_block(LIBRARY, name, part.whole())
        return self._turns.call(native_id, name, part.take("input", "args"))

    def _result(self, part: Fields) -> ContentBlock:
        native_id, name = part.text("toolCallId"), part.text("toolName")
        if part.flag("providerExecuted") or (native_id or name) in self._server_calls:
            return provider_block(LIBRARY, f"{name}_result", part.whole())
        output = part.look("output")
        if isinstance(output, dict) and "type" in output:
            inner = part.object("output")
            assert inner is not None
            content, failed = parts.read_output(inner)
        else:
            content, failed = text_blocks(part.take("output", "result")), part.flag("isError")
        return self._turns.result(native_id, name, content, is_error=failed)


def model_of_custom(part: Fields) -> dict[str, Any] | None:
    """Return provider and model of a ``message_start`` part; None for other custom parts."""
    kind = part.look("kind")
    if not isinstance(kind, str) or not kind.endswith(".message_start"):
        return None
    provider = kind.partition(".")[0]
    metadata = part.look("providerOptions") or part.look("providerMetadata")
    inner = metadata.get(provider) if isinstance(metadata, dict) else None
    name = inner.get("model") if isinstance(inner, dict) else None
    part.whole()
    return model_fields_of(LIBRARY, provider, name if isinstance(name, str) else None)
