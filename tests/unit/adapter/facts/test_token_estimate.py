"""Token estimates: local, never below 1, never smaller for more, and cheap."""

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import AdapterCapabilities, Message, TextBlock, ToolDefinition, get_adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import TokenEstimate
from dragoman.adapter.facts.media_size import ImageRule, Size, audio_seconds, image_size, pdf_pages
from dragoman.adapter.facts.token_estimate import (
    count_text,
    estimate_tokens,
    measure_request,
    rows,
    weights_for,
)
from dragoman.canonical.blocks import (
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptResultBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    ThinkingBlock,
    ToolUseBlock,
    VideoBlock,
)
from tests.tables import each_row

MODELS = ["anthropic:claude-opus-5-5", "openai:gpt-6.1-sol", "google:gemini-2.5-flash", "acme:unheard-of"]
TOOL = ToolDefinition(
    name="weather",
    description="The weather in a city.",
    input_schema={
        "type": "object",
        "properties": {"city": {"anyOf": [{"type": "string", "enum": ["Rome", "Oslo"]}, {"type": "null"}]}},
        "required": ["city"],
    },
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def encoded(data: bytes) -> MediaSource:
    return MediaSource(kind="base64", data=base64.b64encode(data).decode())


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
BLOCKS = [
    TextBlock(text="more"),
    ToolUseBlock(id="tu_1", name="weather", input={"city": "Rome"}),
    ImageBlock(source=encoded(PNG), media_type="image/png"),
    DocumentBlock(source=MediaSource(kind="url", data="https://example.com/a.pdf")),
    DocumentBlock(source=MediaSource(kind="text", data="Once upon a time."), title="Tale"),
    AudioBlock(source=MediaSource(kind="url", data="https://example.com/a.mp3")),
    VideoBlock(source=MediaSource(kind="url", data="https://example.com/a.mp4"), duration_ms=3000),
    ThinkingBlock(text="Hm.", signature="c2ln"),
    RedactedThinkingBlock(data="c2ln"),
    ResourceBlock(resource_request_id="1", uri="file:///a", resource_type="file", content="What it says."),
    ProviderBlock(provider="openai", kind="web_search_call", data={"id": "ws_1"}),
    ToolUseBlock(id="tu_2", name="weather", raw_input='{"city": "Ro'),
    DocumentBlock(source=encoded(b"%PDF /Type /Page "), media_type="application/pdf"),
    AudioBlock(source=encoded(bytes(32_000)), media_type="audio/mpeg"),
    PromptResultBlock(prompt_request_id="p", prompt_name="greet", messages=({"role": "user"},), content="Hello."),
    ResourceRefBlock(resource_request_id="1", uri="file:///a", resource_type="file"),
]


@pytest.mark.parametrize("model", MODELS)
@given(texts_before=st.lists(texts, max_size=5), more=texts)
def test_a_longer_history_is_never_estimated_lower(model: str, texts_before: list[str], more: str) -> None:
    """Another message, or a longer one, never lowers the estimate; an empty history counts 1."""
    history = [Message.user(text) for text in texts_before]
    before = estimate_tokens(model, history, [])
    assert before >= 1
    assert estimate_tokens(model, [*history, Message.user(more)], []) >= before
    if texts_before:
        assert estimate_tokens(model, [*history[:-1], Message.user(texts_before[-1] + more)], []) >= before


@each_row("model", MODELS)
@each_row("block", BLOCKS, ids=lambda block: block.type)
def test_every_kind_of_block_counts(model: str, block: TextBlock) -> None:
    """No kind of block makes a request smaller, in a message or in a tool's answer."""
    alone = Message.assistant([TextBlock(text="Well.")])
    assert estimate_tokens(model, [Message.assistant([*alone.content, block])], []) >= estimate_tokens(
        model, [alone], []
    )
    answer = [Message.tool("tu_1", "Well.")]
    assert estimate_tokens(model, [Message.tool("tu_1", [TextBlock(text="Well."), block])], []) >= estimate_tokens(
        model, answer, []
    )


@pytest.mark.parametrize("model", MODELS)
def test_tools_count(model: str) -> None:
    """Each tool counts, and so does the text that most providers add about tools in general."""
    question = [Message.user("Will it rain in Rome?")]
    none, one, two = (estimate_tokens(model, question, [TOOL] * count) for count in range(3))
    assert none < one < two


def test_native_tools_count() -> None:
    """Their schemas are unknown, so all count the same; a value that is not a schema counts nothing."""
    own = ToolDefinition(name="web_search", provider_raw={"by": "anthropic", "native": {"type": "web_search"}})
    odd = TOOL.model_copy(update={"input_schema": {"type": "object", "items": {"anyOf": [True]}, "default": 3}})
    bare, with_own, with_odd = (measure_request([], tools) for tools in ([], [own], [odd]))
    assert (bare.native_tools, with_own.native_tools, with_own.tools, with_own.nodes) == (0, 1, 0, 0)
    assert (with_odd.tools, with_odd.nodes, with_odd.schema_text.digits) == (1, 4, 1)


def test_an_adapter_estimates_by_its_model() -> None:
    """The text is the same; a newer tokenizer takes more tokens for it."""
    history = [Message.user("The quick brown fox jumps over the lazy dog. " * 50)]
    old, new = (get_adapter(f"anthropic:{name}") for name in ("claude-sonnet-4-5", "claude-opus-5-5"))
    assert 450 < old.estimate_input_tokens(history, []) < new.estimate_input_tokens(history, []) < 1000


def test_a_model_is_estimated_alike_wherever_it_is_served() -> None:
    """A tokenizer belongs to the model."""
    names = ["anthropic:claude-sonnet-4-5", "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0",
             "openrouter:anthropic/claude-sonnet-4.5"]  # fmt: skip
    assert weights_for(names[0]) == weights_for(names[1]) == weights_for(names[2])


def test_models_toml_overrides_the_tables() -> None:
    """The entries of an adapter's models.toml take precedence; the error of an invalid one names the model."""
    history = [Message.user("Hello")]
    plain = estimate_tokens("acme:x", history, [])
    assert estimate_tokens("acme:x", history, [], TokenEstimate(weights={"start": 1000.0})) > plain + 900
    assert estimate_tokens("acme:x", history, [], TokenEstimate(tokenizer="gpt-oss")) > plain
    mistakes: list[dict[str, Any]] = [
        {"tokenizer": "none"}, {"weights": {"wrods": 1.0}}, {"weights": {"words": -1.0}}, {"image": {"rule": "odd"}}
    ]  # fmt: skip
    for wrong in (TokenEstimate(**fields) for fields in mistakes):
        with pytest.raises(ConfigurationError, match="token_estimate of acme:x"):
            estimate_tokens("acme:x", history, [], wrong)
    assert AdapterCapabilities().token_estimate == TokenEstimate()


def test_every_tokenizer_has_weights() -> None:
    """Each tokenizer is based on an existing one."""
    names = {row["name"] for row in rows("tokenizer")}
    for row in rows("tokenizer"):
        assert weights_for("acme:x", TokenEstimate(tokenizer=row["name"])).tokens_of["words"] > 0
        assert row.get("like", "o200k") in names


def test_text_is_split_into_classes() -> None:
    """Words, runs and scripts are distinguished, and adjacent texts do not merge."""
    counts = count_text(["Hello, wonderfulWorld 123 4567!\n\n  {}", "Привет", "日本", "😀", "a", "b"])
    assert (counts.words, counts.pieces, counts.capitals) == (5, 3, 1)
    assert (counts.numbers, counts.digits, counts.lines, counts.indents) == (2, 7, 1, 1)
    assert (counts.marks, counts.mark_runs) == (4, 3)
    assert (counts.accented, counts.wide, counts.astral) == (6, 2, 1)


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 40) + bytes(10)
WEBP = b"RIFF\0\0\0\0WEBP"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, Size(640, 480)),
        (JPEG, Size(40, 30)),
        (b"GIF89a" + struct.pack("<HH", 7, 9) + b"\0\0", Size(7, 9)),
        (WEBP + b"VP8X" + bytes(8) + b"\x0f\0\0\x1f\0\0", Size(16, 32)),
        (WEBP + b"VP8L" + bytes(5) + (15 | 31 << 14).to_bytes(4, "little"), Size(16, 32)),
        (WEBP + b"VP8 " + bytes(10) + struct.pack("<HH", 16, 32), Size(16, 32)),
        (JPEG[:9], None),
        (PNG[:18], None),
        (b"", None),
        (b"text", None),
    ],
)
def test_the_size_of_an_image_is_read_from_its_header(data: bytes, size: Size | None) -> None:
    """Truncated data and data that is not an image have no size; that is not an error."""
    assert image_size(encoded(data).data) == size
    assert image_size("not base64!") is None


def test_documents_and_recordings_have_a_length() -> None:
    """Documents and recordings have a length: pages as listed, or guessed by the size; seconds by the rate that a WAV
    states.
    """
    assert pdf_pages(encoded(b"%PDF /Type /Page /Type /Pages /Type/Page ").data) == 2
    assert pdf_pages(encoded(bytes(130_000)).data) == 3
    wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0" + struct.pack("<II", 8000, 16000) + bytes(32_000 - 32)
    assert audio_seconds(encoded(wav).data) == pytest.approx(2, abs=0.01)
    assert audio_seconds(encoded(bytes(32_000)).data) == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize(
    ("rule", "size", "tokens"),
    [
        (ImageRule(rule="flat", fixed=258), Size(9, 9), 258),
        (ImageRule(rule="area", fixed=0, longest=1568, shortest=1568, most=1600), Size(750, 100), 100),
        (ImageRule(rule="area", fixed=0, longest=1568, shortest=1568, most=1600), Size(9000, 9000), 1600),
        (ImageRule(), Size(1024, 1024), 85 + 4 * 170),
        (ImageRule(), Size(2048, 4096), 85 + 6 * 170),
        (ImageRule(rule="patches", fixed=0, each=1, side=32, most=1536, longest=9999, shortest=9999), Size(1024, 1024),
         1024),
        (ImageRule(), None, 85 + 4 * 170),
    ],
)  # fmt: skip
def test_images_count_as_providers_document(rule: ImageRule, size: Size | None, tokens: float) -> None:
    """The examples on their pages; an unknown size counts as a medium one."""
    assert rule.tokens(size, None) == tokens
    assert ImageRule(low=85).tokens(size, "low") == 85


def test_an_image_of_many_patches_is_scaled_down() -> None:
    """It has about the maximum number of patches, and its size is never negative."""
    rule = ImageRule(rule="patches", fixed=0, each=1, side=32, most=1536, longest=99_999, shortest=99_999)
    assert 1400 < rule.tokens(Size(1800, 2400), None) <= 1536
    assert rule.tokens(Size(0, 0), None) >= 1
