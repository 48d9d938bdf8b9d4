"""Hypothesis strategies for canonical data: blocks of every kind, messages, tools, histories, and replies.

::

    from hypothesis import given
    from dragoman.testing import strategies

    @given(history=strategies.histories())
    def test_my_summary_keeps_every_call(history): ...

`histories` may be malformed in every way, `conversations` are well-formed. `replies` are the contents of one reply, to
be encoded in a provider's wire. Needs hypothesis.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from dragoman.adapter.errors import MissingExtraError
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptRequestBlock,
    PromptResultBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    VideoBlock,
)
from dragoman.canonical.ids import format_ulid
from dragoman.canonical.message import Channel, Message, MessageMetadata, MessageStatus, Role, StopReason
from dragoman.canonical.message_fields import RoutingDecisionRecord, RoutingMode
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.testing.sample_reply import SampleCall, SampleReply

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "hypothesis":
        raise
    raise MissingExtraError('the strategies need Hypothesis: pip install "dragoman[testing]"') from None

PROVIDERS = ("anthropic", "openai", "ollama", "mistral")
MODELS = ("anthropic:claude-opus-5-5", "openai:gpt-6.1-sol", "ollama:qwen3", "mistral:medium", None)

TOOL_IDS = (
    "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5", "tu_01M7YJFK7P2ZFT4X2CGGZPP6M6", "toolu_01A09q90qw90lq917835lq9", "call_1",
    "call_1~2", "fc|with pipes", "D681PevKs", "x" * 300, "ünïcode", "",
)  # fmt: skip
"""A few ids, so that they collide: canonical, from providers, illegal, too long, and empty."""

texts = st.text(max_size=20) | st.sampled_from(["", " ", "\n", "Hello.", "a\u2028b", "😀", "\x00"])
names = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
optional_texts = st.none() | texts

json_values: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)

media_sources = st.builds(
    MediaSource,
    kind=st.sampled_from(["base64", "url", "text", "file_ref", "file_id"]),
    data=st.sampled_from(["aGVsbG8=", "https://example.org/a.png", "docs/a.pdf", "file_1"]),
    provider=st.none() | st.sampled_from(PROVIDERS),
)
citations = st.builds(
    Citation, kind=names, title=optional_texts, url=optional_texts, cited_text=optional_texts,
    start=st.none() | st.integers(0, 99), end=st.none() | st.integers(0, 99), data=st.none() | json_objects,
)  # fmt: skip

text_blocks = st.builds(TextBlock, text=texts, citations=st.lists(citations, max_size=1).map(tuple))
thinking_blocks = st.builds(ThinkingBlock, text=texts, signature=st.none() | names)
redacted_blocks = st.builds(RedactedThinkingBlock, data=texts)
images = st.builds(
    ImageBlock, source=media_sources, detail=st.none() | st.just("high"),
    media_type=st.none() | st.sampled_from(["image/png", "image/tiff"]),
)  # fmt: skip
audios = st.builds(AudioBlock, source=media_sources, transcript=optional_texts, duration_ms=st.none() | st.just(900))
videos = st.builds(VideoBlock, source=media_sources, media_type=st.none() | st.just("video/mp4"))
documents = st.builds(DocumentBlock, source=media_sources, title=optional_texts, context=optional_texts)
resources = st.builds(
    ResourceBlock, resource_request_id=names, uri=texts, resource_type=st.sampled_from(["file", "memory"]),
    content=optional_texts, annotations=json_objects,
)  # fmt: skip
resource_refs = st.builds(
    ResourceRefBlock, resource_request_id=names, uri=texts, resource_type=st.just("uri"), name=optional_texts
)
prompt_requests = st.builds(PromptRequestBlock, prompt_request_id=names, name=names, arguments=json_objects)
prompt_results = st.builds(
    PromptResultBlock, prompt_request_id=names, prompt_name=names, content=optional_texts, is_error=st.booleans(),
    messages=st.lists(json_objects, max_size=1).map(tuple),
)  # fmt: skip
provider_blocks = st.builds(ProviderBlock, provider=st.sampled_from(PROVIDERS), kind=names, data=json_objects)
unknown_blocks = json_objects.map(lambda fields: UnknownBlock(**{**fields, "type": "hologram"}))

tool_ids = st.sampled_from(TOOL_IDS)
tool_uses = st.builds(
    ToolUseBlock, id=tool_ids, name=names, input=json_objects, raw_input=st.none() | st.just('{"path": "no')
)

media = images | audios | videos | documents
flat_blocks: SearchStrategy[ContentBlock] = (
    text_blocks | thinking_blocks | redacted_blocks | media | resources | resource_refs | prompt_requests
    | prompt_results | provider_blocks | unknown_blocks | tool_uses
)  # fmt: skip
tool_results = st.builds(
    ToolResultBlock,
    tool_use_id=tool_ids,
    content=st.lists(text_blocks | images | flat_blocks, max_size=3).map(tuple),
    is_error=st.booleans(),
)
blocks = flat_blocks | tool_results

BLOCKS_BY_KIND: dict[str, SearchStrategy[Any]] = {
    "text": text_blocks, "tool_use": tool_uses, "tool_result": tool_results, "image": images, "audio": audios,
    "video": videos, "document": documents, "thinking": thinking_blocks, "redacted_thinking": redacted_blocks,
    "resource": resources, "resource_ref": resource_refs, "prompt_request": prompt_requests,
    "prompt_result": prompt_results, "provider": provider_blocks,
}  # fmt: skip

costs = st.none() | st.decimals(min_value=0, max_value=1000, places=6)
counts = st.integers(0, 10**9)
usages = st.builds(
    Usage, input_tokens=counts, output_tokens=counts, cached_input_tokens=counts, cache_creation_input_tokens=counts,
    reasoning_tokens=st.none() | counts, server_tools=st.dictionaries(names, counts, max_size=2), cost_usd=costs,
    cost_status=st.sampled_from(CostStatus), raw=st.none() | json_objects, latency_ms=st.none() | counts,
)  # fmt: skip
routings = st.builds(
    RoutingDecisionRecord, mode=st.sampled_from(RoutingMode), chosen_model=names, reason=texts,
    confidence=st.none() | st.floats(0, 1),
)  # fmt: skip
metadatas = st.builds(
    MessageMetadata, model=st.sampled_from(MODELS), provider=st.none() | st.sampled_from(PROVIDERS),
    routing=st.none() | routings, usage=st.none() | usages, status=st.sampled_from(MessageStatus),
    stop_reason=st.none() | st.sampled_from(StopReason), provider_raw=st.none() | json_objects,
    user_id=optional_texts, critical=st.just(False),
)  # fmt: skip
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - as hypothesis wants them
messages = st.builds(
    Message, session_id=texts, role=st.sampled_from(Role), content=st.lists(blocks, max_size=4).map(tuple),
    channel=st.none() | st.sampled_from(Channel), metadata=metadatas, created_at=moments,
)  # fmt: skip


def _message(role: Role, content: Iterable[ContentBlock], model: str | None = None) -> Message:
    """Return a message as its provider's adapter would create it. `histories` assigns the final id."""
    by = model.partition(":")[0] if model else None
    metadata = MessageMetadata(model=model, provider=by, provider_raw={"by": by} if by else None)
    return Message(role=role, content=tuple(content), metadata=metadata, created_at=datetime(2026, 11, 1, tzinfo=UTC))


@st.composite
def tool_turns(draw: st.DrawFn) -> list[Message]:
    """Return an assistant's turn with calls, and results for some of them, for none, or twice."""
    blocks_before = draw(st.lists(text_blocks | thinking_blocks | redacted_blocks | provider_blocks, max_size=2))
    calls = draw(st.lists(tool_uses, min_size=1, max_size=3))
    answered = draw(st.lists(st.sampled_from([call.id for call in calls]) | tool_ids, max_size=4))
    content = st.lists(text_blocks | images, max_size=2).map(tuple)
    results = [ToolResultBlock(tool_use_id=answer, content=draw(content)) for answer in answered]
    turn = _message(Role.ASSISTANT, [*blocks_before, *calls], draw(st.sampled_from(MODELS)))
    if draw(st.booleans()):
        return [turn, _message(Role.TOOL, results)]
    return [turn, *(_message(Role.TOOL, [result]) for result in results)]


def _turns_of(role: Role, allowed: SearchStrategy[ContentBlock]) -> SearchStrategy[list[Message]]:
    content = st.lists(allowed, max_size=3)
    return st.builds(lambda c, model: [_message(role, c, model)], content, st.sampled_from(MODELS))


_history_parts = (
    _turns_of(Role.USER, text_blocks | media)
    | _turns_of(Role.ASSISTANT, text_blocks | thinking_blocks | redacted_blocks | provider_blocks)
    | tool_turns()
    | st.tuples(tool_turns(), tool_turns()).map(lambda two: [two[0][0], *two[1], *two[0][1:]])
    | _turns_of(Role.SYSTEM, text_blocks)
    | _turns_of(Role.DEVELOPER, text_blocks)
    | st.sampled_from(Role).flatmap(lambda role: _turns_of(role, blocks))
)


@st.composite
def histories(draw: st.DrawFn, max_scenes: int = 5) -> list[Message]:
    """Any history: foreign, empty, duplicate and too long ids, orphan results, calls with no or two results, media,
    thinking, native and unknown blocks, empty messages, misplaced blocks."""
    parts = draw(st.lists(_history_parts, max_size=max_scenes))
    turns = [message for part in parts for message in part]
    return [message.model_copy(update={"id": f"{index:026d}"}) for index, message in enumerate(turns)]


_NOW = datetime(2026, 11, 1, tzinfo=UTC)
_PIXEL = MediaSource(kind="base64", data="iVBORw0KGgo=")
_words = st.sampled_from(("Hello.", "It rains.", "ü 😀")).map(lambda text: TextBlock(text=text))
_pictures = st.just(ImageBlock(source=_PIXEL, media_type="image/png"))
_thoughts = st.just(ThinkingBlock(text="Hm.", signature="c2ln"))


@st.composite
def conversations(draw: st.DrawFn, model: str = "elsewhere:model", max_turns: int = 2) -> list[Message]:
    """Return a well-formed conversation: text, images, calls and their results.

    ``model`` wrote the replies. A conversation of an unknown model is foreign to every adapter.
    """
    numbers = iter(range(100))
    history: list[Message] = []

    def add_message(role: Role, content: Sequence[ContentBlock], by: str | None = None) -> None:
        metadata = MessageMetadata(model=by, provider=by and by.partition(":")[0])
        properties = {"id": f"{len(history):026d}", "metadata": metadata, "created_at": _NOW}
        history.append(Message(role=role, content=tuple(content), **properties))

    if draw(st.booleans()):
        add_message(Role.SYSTEM, [draw(_words)])
    for _ in range(draw(st.integers(1, max_turns))):
        add_message(Role.USER, draw(st.lists(_words | _pictures, min_size=1, max_size=2)))
        if draw(st.booleans()):
            calls = [ToolUseBlock(id=f"tu_{format_ulid(next(numbers))}", name="look", input={"at": "Bern"})]
            leading: SearchStrategy[list[ContentBlock]] = st.lists(_words | _thoughts, max_size=1)
            add_message(Role.ASSISTANT, [*draw(leading), *calls, *draw(st.lists(_words, max_size=1))], model)
            for call in calls:
                answer = ToolResultBlock(tool_use_id=call.id, content=(draw(_words),), is_error=draw(st.booleans()))
                add_message(Role.TOOL, [answer])
        add_message(Role.ASSISTANT, draw(st.lists(_words, min_size=1, max_size=2)), model)
    add_message(Role.USER, [draw(_words)])
    return history


_LEAVES = st.sampled_from((
    {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "number"}, {"type": "boolean"},
    {"type": "string", "enum": ["a", "b"]}, {"type": ["string", "null"]},
))  # fmt: skip


@st.composite
def _objects(draw: st.DrawFn, inner: SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(names, inner, max_size=3))
    required = sorted(draw(st.sets(st.sampled_from(sorted(properties))))) if properties else []
    return {"type": "object", "properties": properties, "required": required}


schemas: SearchStrategy[Any] = st.recursive(
    _LEAVES, lambda inner: _objects(inner) | inner.map(lambda item: {"type": "array", "items": item}), max_leaves=4
)
"""JSON Schemas of the subset that tools may use."""


@st.composite
def tools(draw: st.DrawFn) -> ToolDefinition:
    """Return a tool that can be registered."""
    return ToolDefinition(
        name=draw(names),
        description=draw(st.sampled_from(("", "Looks it up.", "ü 😀"))),
        input_schema=draw(_objects(schemas)),
        side_effects=draw(st.sampled_from(SideEffects)),
    )


TROUBLESOME_TEXTS = (
    "Hello", " world", ".", "\n\n", " é", " 你好", " 😀", "\u2028", "\u0085", "\u2029", ' "quoted"', " \\back", "\t",
    " data: x", " event: y", "\r\n", " {", " }", " [DONE]", " 42", "\ufeff", "\x1e", " null",
)  # fmt: skip
"""Texts that have broken streams: characters of several bytes, line separators, text that looks like framing."""

_speech = st.lists(st.sampled_from(TROUBLESOME_TEXTS), min_size=1, max_size=5).map(lambda words: ("So", *words, " end"))
_arguments = st.fixed_dictionaries({
    "path": st.sampled_from(TROUBLESOME_TEXTS),
    "n": st.sampled_from((0, -1, 12345, 1.5, 2**53 + 1)),
    "deep": st.sampled_from(({}, [None], {"a": {"b": "é"}})),
})  # fmt: skip


@st.composite
def _calls(draw: st.DrawFn, index: int) -> SampleCall:
    arguments = draw(_arguments)
    arguments_text = json.dumps(arguments, ensure_ascii=draw(st.booleans()))
    places = sorted(draw(st.sets(st.integers(1, len(arguments_text) - 1), max_size=2)))
    pieces = tuple(arguments_text[start:end] for start, end in pairwise([0, *places, len(arguments_text)]))
    return SampleCall(f"id{index}", draw(st.sampled_from(("rm", "get_weather", "search"))), arguments, pieces)


@st.composite
def replies(draw: st.DrawFn) -> SampleReply:
    """Return the content of one reply: thinking, text and calls in pieces, the counts, and whether it is truncated."""
    number = draw(st.integers(0, 2))
    text = draw(_speech) if not number or draw(st.booleans()) else ()
    return SampleReply(
        thinking=draw(st.just(()) | _speech),
        text=text,
        calls=tuple(draw(_calls(index)) for index in range(number)),
        truncated=not number and draw(st.booleans()),
        input_tokens=draw(st.integers(1, 5000)),
        cached_tokens=draw(st.sampled_from((0, 0, 1024))),
        output_tokens=draw(st.integers(1, 900)),
    )
