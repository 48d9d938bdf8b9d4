"""Every declared word has a consumer: each capability and each field of a tool, flipped alone, changes something."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.adapter.facts.capabilities import (
    ABSENT,
    EMULATED,
    NATIVE,
    AdapterCapabilities,
    SchemaRule,
    ThinkingPolicy,
    TokenEstimate,
    ToolIdRule,
    ToolNameRule,
)
from dragoman.adapter.registry import adapter_class
from dragoman.canonical.blocks import (
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Channel, Message, MessageMetadata, Role
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.routing import Availability, Router, RouteRequest, Rule, When
from dragoman.routing.decision import find_refusals
from dragoman.session import Session, tool
from dragoman.testing import ScriptedProvider, scripted_reply
from dragoman.testing.doubles.scripted_adapter import ALL_CAPABILITIES

_PNG = MediaSource(kind="base64", data="iVBORw0KGgo=")
_MEDIA = (
    ImageBlock(source=_PNG, media_type="image/png"),
    ImageBlock(source=MediaSource(kind="url", data="https://a.example/b.png"), media_type="image/png"),
    AudioBlock(source=_PNG, media_type="audio/wav"),
    VideoBlock(source=_PNG, media_type="video/mp4"),
    DocumentBlock(source=_PNG, media_type="application/pdf"),
)
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}}}
_TOOL = ToolDefinition(name="look_up", input_schema=_SCHEMA)


def _assistant(*content: Any, channel: Channel | None = None, model: str = "other:m") -> Message:
    metadata = MessageMetadata(model=model, provider=model.partition(":")[0])
    return Message(role=Role.ASSISTANT, content=content, channel=channel, metadata=metadata)


_RICH = [
    Message.system("Be brief."),
    Message(role=Role.DEVELOPER, content=(TextBlock(text="Be kind."),)),
    Message(role=Role.USER, content=(TextBlock(text="Look."), *_MEDIA)),
    _assistant(ThinkingBlock(text="Hm.", signature="c2ln"), TextBlock(text="Well."), channel=Channel.FINAL),
    _assistant(ProviderBlock(provider="other", kind="search", data={"q": 1}), TextBlock(text="Later.")),
    _assistant(*(ToolUseBlock(id=f"tu_{n}", name="look_up", input={"n": n}) for n in (1, 2))),
    Message(role=Role.TOOL, content=(ToolResultBlock(tool_use_id="tu_1", content=(_MEDIA[0],)),)),
    Message.tool("tu_2", "Two."),
    Message.system("Go on."),
    Message(role=Role.USER, content=(TextBlock(text=""), TextBlock(text="And now?"))),
]
_PREFILLED = [*_RICH, _assistant(TextBlock(text="It is"))]
_PLAIN = [Message.user("Hi")]
_OWN_INSTRUCTION = Message.system("Be brief.").model_copy(
    update={"metadata": MessageMetadata(provider_raw={"by": "consulted"})}
)
_NEIGHBOURS = [
    *_PLAIN,
    *(_assistant(ToolUseBlock(id=f"tu_{n}", name="look_up", input={"n": n})) for n in (1, 2)),
    *(Message.tool(f"tu_{n}", "Found.") for n in (1, 2)),
]

_REQUESTS: tuple[tuple[list[Message], list[ToolDefinition], dict[str, Any]], ...] = (
    (_RICH, [], {}),
    (_RICH, [_TOOL], {"stream": True}),
    (_PREFILLED, [], {}),
    (_NEIGHBOURS, [], {}),
    ([_OWN_INSTRUCTION], [], {}),
    (_PLAIN, [_TOOL], {"tool_choice": "required", "parallel_tool_calls": True, "effort": "high"}),
    (_PLAIN, [_TOOL], {"tool_choice": "required"}),
    (_PLAIN, [_TOOL], {"output_schema": _SCHEMA}),
    (_PLAIN, [], {"output_schema": _SCHEMA}),
    (_PLAIN, [], {"stream": True, "temperature": 0.5, "thinking": False, "stop_sequences": ("a", "b")}),
    (_PLAIN, [], {"thinking": True, "effort": "low", "max_output_tokens": 5_000, "prompt_cache": "1h"}),
)

_FLIPS: dict[str, Any] = {
    "structured_output_by": "prompt",
    "output_schemas": SchemaRule(keywords=("type", "properties")),
    "tool_schemas": SchemaRule(keywords=("type", "properties")),
    "channels": (),
    "accepted_image_media_types": ("image/webp",),
    "accepted_media_types": {"audio": ("audio/mp3",)},
    "media_sources": {"image": ("base64",)},
    "media_roles": ("assistant",),
    "max_context_tokens": 20,
    "max_output_tokens": 7,
    "deprecated": True,
    "retires_on": date(2020, 1, 1),
    "tool_id_rule": ToolIdRule(alphabet="0123456789abcdef", max_length=32),
    "tool_name_rule": ToolNameRule(pattern="[a-z]+"),
    "thinking_policy": ThinkingPolicy(),
    "sampling": "never",
    "forced_tool_choice": "never",
    "max_stop_sequences": 1,
    "native_from": ("other",),
    "token_estimate": TokenEstimate(tokenizer="cl100k"),
    "wire": {"default_max_tokens": 3},
}
"""Another value for a field that is not one of native, emulated and absent."""

_READ_ELSEWHERE = {
    "supports_batch_api": "the batch API of an adapter",
    "deprecated": "`dragoman models` and the notice of a session",
    "retires_on": "`dragoman models` and the notice of a session",
    "evidence": "`dragoman models`, and the reader of a declaration",
}
"""Facts about a model, which no request depends on."""


def _outcomes(adapter: Adapter) -> list[Any]:
    """Return all that a caller sees: requests, losses, refusals, sizes."""
    found: list[Any] = []
    for messages, tools, options in _REQUESTS:
        context = RequestContext(model=str(adapter.model_id))
        try:
            wire = adapter.to_wire(messages, tools, AdapterOptions(**options, context=context))
        except DragomanError as error:
            found.append(type(error).__name__)
            continue
        found.append((wire.path, wire.body, dict(wire.headers), [loss.reason for loss in wire.losses]))
        found.append((adapter.estimate_input_tokens(messages, tools), adapter.output_limit(AdapterOptions())))
        facts = RouteRequest.of(messages[:-1], messages[-1:], tools, AdapterOptions(**options), estimated_tokens=30)
        refusals = find_refusals(
            str(adapter.model_id), facts, find=lambda _: adapter, availability=Availability(), at=datetime.now(UTC)
        )
        found.append([str(each) for each in refusals])
    return found


def _with(kind: type[Adapter], model: str, capabilities: AdapterCapabilities) -> Adapter:
    made: type[Adapter] = type(kind.__name__, (kind,), {"capabilities": property(lambda _: capabilities)})
    return made(model)


def _targets() -> Sequence[tuple[type[Adapter], str, AdapterCapabilities]]:
    scripted = type(ScriptedProvider(name="consulted").adapter)
    names = [("anthropic", "claude-sonnet-4-6"), ("openai-chat", "gpt-4.1"), ("google", "gemini-2.5-flash")]
    real = [(adapter_class(provider), model) for provider, model in names]
    return [
        (scripted, "model", ALL_CAPABILITIES),
        *((kind, model, kind(model).capabilities) for kind, model in real),
    ]


@pytest.mark.parametrize("field", sorted(set(AdapterCapabilities.model_fields) - _READ_ELSEWHERE.keys()))
def test_a_capability_that_is_flipped_alone_changes_something(field: str) -> None:
    """It changes a request, a loss, a refusal or a size, on one wire at least."""
    for kind, model, capabilities in _targets():
        value = getattr(capabilities, field)
        others = [_FLIPS[field]] if field in _FLIPS else [each for each in (NATIVE, EMULATED, ABSENT) if each != value]
        before = _outcomes(_with(kind, model, capabilities))
        if any(_outcomes(_with(kind, model, capabilities.model_copy(update={field: new}))) != before for new in others):
            return
    pytest.fail(f"nobody reads {field}")


_TOOL_FLIPS: dict[str, Any] = {
    "name": "look",
    "description": "Looks it up.",
    "input_schema": {"type": "object", "properties": {}},
    "strict": True,
    "defer_loading": True,
    "extra": {"anthropic": {"allowed_callers": ["direct"]}},
    "provider_raw": {"by": "anthropic", "residue": {"set": {"kept": 1}}},
}
_TOOL_READ_ELSEWHERE = {"side_effects", "requires_workspace"}


@pytest.mark.parametrize("field", sorted(set(ToolDefinition.model_fields) - _TOOL_READ_ELSEWHERE))
def test_a_field_of_a_tool_that_is_flipped_alone_changes_the_request(field: str) -> None:
    """The other two have tests of their own below."""
    adapter = adapter_class("anthropic")("claude-sonnet-4-6")
    flipped = _TOOL.model_copy(update={field: _TOOL_FLIPS[field]})
    before, after = (adapter.to_wire(_PLAIN, [each], AdapterOptions()) for each in (_TOOL, flipped))
    assert (before.body, before.losses) != (after.body, after.losses)


def test_a_tool_that_requires_a_workspace_is_refused_without_one(tmp_path: Any) -> None:
    """The program says so when it makes the session; the caller's own tools run elsewhere."""

    @tool(requires_workspace=True)
    def read(name: str) -> str:
        """Read a file."""
        return name

    with ScriptedProvider("Hello.") as provider:
        with pytest.raises(ConfigurationError, match="the tool read requires a workspace"):
            Session(provider.model, tools=[read])
        with Session(provider.model, tools=[read], workspace=tmp_path) as session:
            assert session.ask("Hi").text == "Hello."


@pytest.mark.parametrize(("effects", "expected"), [("write", "south:careful"), ("read", "west:quick")])
def test_side_effects_choose_the_route(effects: str, expected: str) -> None:
    """A turn that offers a tool with one of the effects matches."""
    for name in ("south", "west"):
        ScriptedProvider(name=name)
    risky = When(side_effects=frozenset({SideEffects.WRITE, SideEffects.EXECUTE}))
    router = Router(rules=[Rule(model="south:careful", when=risky)], global_default="west:quick")
    tools = [_TOOL.model_copy(update={"side_effects": SideEffects(effects)})]
    assert router.choose(RouteRequest.of([], _PLAIN, tools)).model == expected


@pytest.mark.parametrize("field", ["supports_streaming", "supports_streaming_tool_calls"])
def test_a_model_that_cannot_stream_is_asked_for_a_whole_reply(field: str) -> None:
    """Its reply is handed on as the events of a stream."""

    @tool(side_effects="none")
    def add(a: int) -> int:
        """Add."""
        return a + 1

    capabilities = ALL_CAPABILITIES.model_copy(update={field: ABSENT})
    script = (scripted_reply("Adding.", calls={"add": {"a": 1}}), "It is 2.")
    with (
        ScriptedProvider(*script, name="whole", capabilities=capabilities) as provider,
        Session(provider.model, tools=[add]) as session,
        session.stream("Add") as stream,
    ):
        kinds = [event.type for event in stream]
        assert stream.reply.text == "It is 2."
    assert [kinds.count(kind) for kind in ("text_delta", "tool_use_start", "tool_use_end")] == [2, 1, 1]
    assert not any(request.options.stream for request in provider.requests)


def test_parallel_calls_go_one_after_another_to_a_model_without_them() -> None:
    """Each call has its result behind it, and each call that moved is a loss."""
    (kind, model, capabilities), *_ = _targets()
    adapter = _with(kind, model, capabilities.model_copy(update={"supports_parallel_tool_calls": ABSENT}))
    wire = adapter.to_wire(_RICH, [_TOOL], AdapterOptions())
    messages, _, _ = adapter.from_wire_request(wire.body, RequestContext(model=str(adapter.model_id)))
    calls = [message for message in messages if message.tool_uses or message.tool_results]
    assert [message.role for message in calls] == [Role.ASSISTANT, Role.TOOL] * 2
    pairs = zip(calls[::2], calls[1::2], strict=True)
    assert all(call.tool_uses[0].id == answer.tool_results[0].tool_use_id for call, answer in pairs)
    assert [loss.block_index for loss in wire.losses if "one tool at a time" in loss.reason] == [1]
