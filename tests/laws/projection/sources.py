"""Histories as one provider's models leave them: its ids, its thinking, its native blocks, and all possible faults.

A `Source` describes a provider's own messages. `histories_of` combines scenes of them: whole and broken turns, answers
that are missing, double or orphans, ids that repeat or look alike, media everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.ids import format_ulid
from dragoman.canonical.message import Channel, Message, MessageMetadata, MessageStatus, Role, StopReason

NOW = datetime(2026, 11, 1, tzinfo=UTC)


_PAGE = {"type": "page", "url": "https://example.org/rain"}
CITED = TextBlock(text="It rains.", citations=(Citation(kind="page", title="Rain", start=0, end=9, data=_PAGE),))
_SPAN = {"start": 0, "end": 9, "text": "It rains.", "sources": [], "type": "TEXT_CONTENT"}
_SOURCED = TextBlock(text="It rains.", citations=(Citation(kind="TEXT_CONTENT", start=0, end=9, data=_SPAN),))


@dataclass(frozen=True)
class Source:
    """A provider's own messages.

    ``ids`` are formats of its tool ids, filled with a number. ``thinking`` are blocks as its replies hold them,
    ``natives`` blocks that only it reads, ``cited`` texts with its sources. ``spoken`` are whole recorded messages to
    be mixed in.
    """

    provider: str
    model: str
    ids: tuple[str, ...] = ("call_{:024d}",)
    names: tuple[str, ...] = ("get_weather", "read_file", "Search-Web_2")
    thinking: tuple[ContentBlock, ...] = ()
    natives: tuple[ProviderBlock, ...] = ()
    cited: tuple[TextBlock, ...] = (CITED,)
    recorded: tuple[Message, ...] = ()

    @property
    def full_model(self) -> str:
        return f"{self.provider}:{self.model}"


_SIGNATURE = "RXVvQkNrZ0lDaEFDR0FJaVFB"  # base64, as signatures are


def _native(provider: str, kind: str, **data: object) -> ProviderBlock:
    return ProviderBlock(provider=provider, kind=kind, data={"type": kind, **data})


_SEARCH = {"type": "server_tool_use", "id": "srvtoolu_01A", "name": "web_search", "input": {"query": "rain"}}
_SIGNED = (ThinkingBlock(text="It may rain.", signature=_SIGNATURE), ThinkingBlock(text="", signature=_SIGNATURE))
_PLAIN = (ThinkingBlock(text="It may rain."), ThinkingBlock(text=" "))
_PATTERNS = ("functions.get_weather:{}", "functions.read_file:{}")

SOURCES = {
    source.provider: source
    for source in (
        Source(
            "anthropic",
            "claude-opus-5-5",
            ("toolu_{:022d}", "toolu_vrtx_{:019d}"),
            thinking=(*_SIGNED, RedactedThinkingBlock(data=_SIGNATURE)),
            natives=(ProviderBlock(provider="anthropic", kind="server_tool_use", data=_SEARCH),),
        ),
        Source(
            "openai",
            "gpt-6.1-sol",
            ("call_{:022d}",),
            thinking=(*_SIGNED, RedactedThinkingBlock(data=_SIGNATURE)),
            natives=(_native("openai", "web_search_call", id="ws_1", status="completed", action={"type": "search"}),),
        ),
        Source("openai-chat", "gpt-6-luna", ("call_{:024d}",)),
        Source("azure-openai", "gpt-4.1", ("call_{:024d}",)),
        Source("ollama", "qwen3:4b", ("call_{:08d}", ""), thinking=_PLAIN),
        Source("google", "gemini-3-flash-preview", ("", "{:08d}"), thinking=_SIGNED),
        Source("google-interactions", "gemini-3-flash-preview", ("{:08d}",), thinking=_SIGNED),
        Source("google-vertex", "gemini-2.5-flash", ("",), thinking=_PLAIN),
        Source("mistral", "mistral-large-latest", ("{:09d}",), thinking=_PLAIN),
        Source("cohere", "command-a-plus-05-2026", ("get_weather_{:012d}", "{}"), thinking=_PLAIN, cited=(_SOURCED,)),
        Source("bedrock", "us.anthropic.claude-sonnet-4-6", ("tooluse_{:022d}",), thinking=_SIGNED),
        Source("groq", "openai/gpt-oss-120b", ("fc_{:036d}", "call_{:022d}"), thinking=_PLAIN),
        Source("deepseek", "deepseek-v4-flash", ("call_00_{:020d}", "call_{:024d}"), thinking=_PLAIN),
        Source("xai", "grok-4.5", ("call_{:08d}",), thinking=_PLAIN),
        Source("huggingface", "moonshotai/Kimi-K2", (*_PATTERNS, "chatcmpl-tool-{:032d}"), thinking=_PLAIN),
        Source("ollama-openai", "qwen3:4b", ("call_{:08d}",), thinking=_PLAIN),
        Source("compatible", "any", (*_PATTERNS, "{}", "call_{}"), thinking=_PLAIN),
        Source("openrouter", "anthropic/claude-haiku-4.5", ("toolu_{:022d}", *_PATTERNS), thinking=(*_PLAIN, *_SIGNED)),
        Source("local", "smollm2-135m", ("call_{:08d}",)),
    )
}
"""By adapter. A number that repeats makes an id that repeats."""

ODD_IDS = ("f.x:0", "f:x.0", "x" * 300, "ünïcode", "fc|with pipes", "a b", "call_1~2", "")
"""Illegal, over-long and empty ids, and two that become equal if each illegal character is replaced by the same legal
one.
"""

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_TEXTS = ("Hello.", "", " ", "\n", "It is raining, says the tool.", "😀 a\u2028b", "\x00", '{"a": 1}')
texts = st.sampled_from(_TEXTS).map(lambda text: TextBlock(text=text))
images = st.sampled_from((
    ImageBlock(source=MediaSource(kind="base64", data=_PIXEL), media_type="image/png"),
    ImageBlock(source=MediaSource(kind="base64", data=_PIXEL), media_type="image/tiff"),
    ImageBlock(source=MediaSource(kind="base64", data=_PIXEL), media_type="image/jpeg", detail="low"),
    ImageBlock(source=MediaSource(kind="base64", data=_PIXEL)),
    ImageBlock(source=MediaSource(kind="url", data="https://example.org/a.png"), detail="high"),
    ImageBlock(source=MediaSource(kind="url", data="https://example.org/a"), media_type="image/png"),
    ImageBlock(source=MediaSource(kind="file_id", data="file_1", provider="openai"), media_type="image/png"),
    ImageBlock(source=MediaSource(kind="file_ref", data="docs/a.png")),
))  # fmt: skip
documents = st.sampled_from((
    DocumentBlock(source=MediaSource(kind="base64", data="JVBERi0xLjQ="), media_type="application/pdf", title="A.pdf"),
    DocumentBlock(source=MediaSource(kind="base64", data="JVBERi0xLjQ="), media_type="application/pdf"),
    DocumentBlock(source=MediaSource(kind="url", data="https://example.org/a.pdf"), context="An offer."),
    DocumentBlock(source=MediaSource(kind="text", data="Plain words."), media_type="text/plain", title="ä/ö: §"),
    DocumentBlock(source=MediaSource(kind="text", data="# Words"), media_type="text/markdown", context="Short."),
    DocumentBlock(source=MediaSource(kind="base64", data="YSxi"), media_type="text/csv", title="a b.csv"),
    DocumentBlock(source=MediaSource(kind="base64", data="JVBERi0xLjQ="), title="A.pdf", context="An offer."),
    DocumentBlock(source=MediaSource(kind="base64", data="UEsDBA=="), media_type="application/zip"),
    DocumentBlock(source=MediaSource(kind="file_id", data="file_2", provider="anthropic")),
))  # fmt: skip
sounds = st.sampled_from((
    AudioBlock(source=MediaSource(kind="base64", data="UklGRg=="), media_type="audio/wav", transcript="Hello."),
    AudioBlock(source=MediaSource(kind="base64", data="SUQz"), media_type="audio/mpeg"),
    AudioBlock(source=MediaSource(kind="base64", data="SUQz"), duration_ms=900),
))  # fmt: skip
films = st.sampled_from((
    VideoBlock(source=MediaSource(kind="base64", data="AAAA"), media_type="video/mp4", duration_ms=900),
    VideoBlock(source=MediaSource(kind="url", data="https://example.org/a.webm")),
))  # fmt: skip
_media = images | images | documents | documents | sounds | films
_channels = st.sampled_from((None, None, None, None, None, None, *Channel))
_inputs = st.sampled_from(({}, {"city": "Bern"}, {"a": {"b": [1, None, "ü"]}}))
_ends = st.sampled_from((
    (MessageStatus.COMPLETE, StopReason.END_TURN), (MessageStatus.COMPLETE, StopReason.MAX_TOKENS),
    (MessageStatus.COMPLETE, StopReason.REFUSAL), (MessageStatus.COMPLETE, StopReason.PAUSE),
    (MessageStatus.PARTIAL, None), (MessageStatus.CANCELLED, StopReason.CANCELLED),
    (MessageStatus.ERROR, StopReason.ERROR),
))  # fmt: skip


def _message(role: Role, content: Sequence[ContentBlock]) -> Message:
    return Message(role=role, content=tuple(content), created_at=NOW)


@st.composite
def _calls(draw: st.DrawFn, source: Source, *, repeat: bool) -> tuple[list[ToolUseBlock], dict[str, str]]:
    """Calls, and the ids that their issuer gave them. Canonical ids are new unless ``repeat``."""
    calls: list[ToolUseBlock] = []
    natives: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 3))):
        form = draw(st.sampled_from(source.ids))
        native = form.format(draw(st.integers(0, 4)))
        number = draw(st.integers(0, 3 if repeat else 1 << 40))
        made = f"tu_{format_ulid(number)}"
        # A history from elsewhere may have any ids, instead of ours.
        canonical = draw(st.sampled_from((made, native, *ODD_IDS))) if repeat else made
        broken = draw(st.none() | st.none() | st.just('{"city": "Be'))
        calls.append(
            ToolUseBlock(
                id=canonical,
                name=draw(st.sampled_from(source.names)),
                input={} if broken else draw(_inputs),
                raw_input=broken,
            )
        )
        if native and canonical == made:
            natives.setdefault(canonical, native)
    return calls, natives


@st.composite
def replies(draw: st.DrawFn, source: Source, *, calling: bool = False) -> Message:
    """A message of the provider's model: thinking, text, native blocks and calls, whole or broken off."""
    parts: list[ContentBlock] = []
    known: tuple[ContentBlock, ...] = (*source.natives, *source.cited)
    thinks: bool = draw(st.booleans())
    if source.thinking and thinks:
        parts += draw(st.lists(st.sampled_from(source.thinking), max_size=2))
    texts_to_say = texts | texts | st.sampled_from(known)
    parts += draw(st.lists(texts_to_say, max_size=2))
    natives: dict[str, str] = {}
    if calling:
        repeat: bool = draw(st.booleans())
        calls, natives = draw(_calls(source, repeat=repeat))
        parts += calls
        parts += draw(st.lists(texts, max_size=1))
    status, reason = draw(_ends)
    metadata = MessageMetadata(
        model=source.full_model,
        provider=source.provider,
        status=status,
        stop_reason=reason,
        provider_raw={"by": source.provider, "tool_ids": natives} if natives else {"by": source.provider},
    )
    channel = draw(_channels)
    return Message(role=Role.ASSISTANT, content=tuple(parts), channel=channel, metadata=metadata, created_at=NOW)


@st.composite
def _answers(draw: st.DrawFn, calls: Sequence[ToolUseBlock]) -> list[Message]:
    """Results of some of the calls, of none, of some twice, and orphans."""
    known = st.sampled_from([call.id for call in calls]) if calls else st.just("tu_nobody")
    ids = draw(st.just([call.id for call in calls]) | st.lists(known | st.sampled_from(ODD_IDS), max_size=3))
    content = st.lists(texts | _media, max_size=2).map(tuple)
    results = [ToolResultBlock(tool_use_id=each, content=draw(content), is_error=draw(st.booleans())) for each in ids]
    if draw(st.booleans()):
        return [_message(Role.TOOL, results)] if results else []
    return [_message(Role.TOOL, [result]) for result in results]


@st.composite
def _tool_turns(draw: st.DrawFn, source: Source) -> list[Message]:
    turn = draw(replies(source, calling=True))
    return [turn, *draw(_answers(turn.tool_uses))]


@st.composite
def _recorded_turns(draw: st.DrawFn, source: Source) -> list[Message]:
    """A recorded message, with its calls answered or not."""
    turn = draw(st.sampled_from(source.recorded))
    return [turn, *draw(_answers(turn.tool_uses))] if turn.tool_uses else [turn]


def _scenes(source: Source) -> SearchStrategy[list[Message]]:
    user = st.lists(texts | _media, max_size=3).map(lambda parts: [_message(Role.USER, parts)])
    instructing = st.sampled_from((Role.SYSTEM, Role.DEVELOPER))
    instructed = st.tuples(instructing, st.lists(texts, max_size=2)).map(lambda pair: [_message(*pair)])
    scenes = user | replies(source).map(lambda reply: [reply]) | _tool_turns(source) | instructed
    return scenes | _recorded_turns(source) if source.recorded else scenes


@st.composite
def histories_of(draw: st.DrawFn, source: Source, max_scenes: int = 6) -> list[Message]:
    """A history with one provider's model, with any faults. It is never empty."""
    scenes = draw(st.lists(_scenes(source), min_size=1, max_size=max_scenes))
    messages = [message for scene in scenes for message in scene]
    return [message.model_copy(update={"id": f"{index:026d}"}) for index, message in enumerate(messages)]
