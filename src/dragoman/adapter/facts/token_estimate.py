"""Estimates the tokens of a request without the provider's tokenizer (docs/reference/contract.md#estimates).

The measures are the same for all models; the weights are data. tokenizers.toml says which model has which tokenizer,
token_weights.toml has the weights of each tokenizer, fitted to the counts that providers reported for recorded
requests.

What is counted of a text is what tokenizers count: words, digits, marks, other scripts, in a few passes in C. Every
tokenizer of today is a byte-pair encoding after a similar splitting rule: a short word, with the blank in front of it,
is one token, a long one several; marks and digits go by themselves; other scripts than the Latin one take a token for
one to three characters. Counting these classes comes close without the vocabulary.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import add, attrgetter, is_, itemgetter, mul
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from dragoman.adapter import wirejson
from dragoman.adapter.context import GrowingMessages
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts import media_size
from dragoman.adapter.facts.capabilities import TokenEstimate
from dragoman.adapter.facts.media_size import ImageRule
from dragoman.adapter.package_data import read_toml
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    PromptResultBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ServerTool, ToolDefinition

_READ_HERE = ("base64", "text")
"""The kinds of sources whose bytes are in the message."""
_FALLBACK_SECONDS = 10.0
"""The assumed length of a recording whose length is unknown."""
_LETTERS_PER_PIECE = 6
"""Letters of a word after which another token is likely."""


class TextCounts(NamedTuple):
    """How often each class occurs. A text that grows at its end never counts less in any of them.

    ``pieces`` are full sixes of letters within words, ``capitals`` those inside a word, ``numbers`` stretches of
    digits, ``indents`` pairs of blanks; ``accented`` are letters of two UTF-8 bytes, which is also Greek, Cyrillic,
    Hebrew and Arabic; ``wide`` characters of three bytes, except punctuation; ``astral`` of four, such as emoji.
    """

    words: int = 0
    pieces: int = 0
    capitals: int = 0
    numbers: int = 0
    digits: int = 0
    marks: int = 0
    mark_runs: int = 0
    lines: int = 0
    indents: int = 0
    accented: int = 0
    wide: int = 0
    astral: int = 0


def count_text(texts: Iterable[str]) -> TextCounts:
    """Count all texts together; none is joined with the next."""
    # A message cannot hold a lone surrogate, and a count should not fail because of one.
    data = ("\x00" + "\x00".join(texts)).encode("utf-8", "replace")
    classes = data.translate(_CLASSES, _CONTINUATION_BYTES)
    words = classes.translate(_IS_LETTER)
    return TextCounts(
        words=words.count(b" a"),
        pieces=words.count(b"a" * _LETTERS_PER_PIECE),
        capitals=classes.count(b"aA"),
        numbers=classes.translate(_IS_DIGIT).count(b" 0"),
        digits=classes.count(b"0"),
        marks=classes.count(b"."),
        mark_runs=classes.translate(_IS_MARK).count(b" ."),
        lines=classes.translate(_IS_LINE).count(b" \n"),
        indents=classes.count(b"__"),
        accented=classes.count(b"e"),
        wide=classes.count(b"w"),
        astral=classes.count(b"^"),
    )


def _character_class(byte: int) -> str:
    """Return the class of a character by its first byte in UTF-8."""
    char = chr(byte)
    if byte < 0x80:
        if char.isalpha():
            return "A" if char.isupper() else "a"
        if char.isdigit():
            return "0"
        return {"\n": "\n", "\r": "\n", " ": "_", "\t": "_", "\x00": " "}.get(char, ".")
    if byte < 0xE0:
        return "e"
    if byte == 0xE2:  # U+2000 to U+2FFF: dashes, quotation marks, arrows, currencies
        return "."
    return "w" if byte < 0xF0 else "^"


def _class_table(classes: str, shown: str) -> bytes:
    """Return a table that shows these classes, and a blank for all others."""
    return bytes(ord(shown) if chr(byte) in classes else ord(" ") for byte in range(256))


_CLASSES = "".join(map(_character_class, range(256))).encode()
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
"""The bytes after the first byte of a character."""
_IS_LETTER, _IS_DIGIT, _IS_MARK, _IS_LINE = (
    _class_table("aAe", "a"),
    _class_table("0", "0"),
    _class_table(".", "."),
    _class_table("\n", "\n"),
)


@dataclass(frozen=True, slots=True)
class Weights:
    """Tokens for one of each, by the names in `TextCounts` and `RequestMeasures`; ``start`` counts once in a
    request."""

    tokens_of: Mapping[str, float]
    image: ImageRule

    def tokens(self, measures: "RequestMeasures") -> int:
        """Return the tokens of a request, at least 1."""
        total = self.tokens_of["start"] + sum(self.image.tokens(size, detail) for size, detail in measures.images)
        total = sum(map(mul, _parts_of_weights(self.tokens_of), _parts_of(measures)), total)
        counts = map(add, measures.text, measures.schema_text)
        return max(1, round(sum(map(mul, _text_of_weights(self.tokens_of), counts), total)))


_PARTS = (
    "messages", "systems", "calls", "results", "toolbox", "tools", "nodes", "native_tools", "thinking", "signature",
    "native", "pages", "audio", "video",
)  # fmt: skip
_parts_of, _parts_of_weights, _text_of_weights = (
    attrgetter(*_PARTS),
    itemgetter(*_PARTS),
    itemgetter(*TextCounts._fields),
)


def estimate_tokens(
    model: str, messages: Sequence[Message], tools: Sequence[ToolDefinition], overrides: TokenEstimate | None = None
) -> int:
    """Estimate the tokens of a request to a model (``provider:name``), at least 1. A longer request never counts less.

    Raises ConfigurationError if ``overrides`` names an unknown tokenizer or an unknown weight.
    """
    return weights_for(model, overrides or _NO_OVERRIDES).tokens(measure_request(messages, tools))


_NO_OVERRIDES = TokenEstimate()
_NO_TEXT = TextCounts()


def weights_for(model: str, overrides: TokenEstimate = _NO_OVERRIDES) -> Weights:
    """Return the weights of a model's tokens. Raises ConfigurationError as `estimate_tokens` does."""
    return _weights(model, overrides.tokenizer, tuple(overrides.weights.items()), tuple(overrides.image.items()))


@lru_cache(maxsize=512)
def _weights(
    model: str, tokenizer: str | None, weights: tuple[tuple[str, float], ...], image: tuple[tuple[str, Any], ...]
) -> Weights:
    name = tokenizer or str(row_for(model, "tokenizer")["name"])
    table = read_toml(__package__, "token_weights.toml").get(name)
    if table is None:
        raise ConfigurationError(f"token_estimate of {model}: there is no tokenizer {name!r}")
    if wrong := [key for key, value in weights if key not in table or value < 0]:
        raise ConfigurationError(f"token_estimate of {model}: {wrong[0]!r:.40} is not a weight, or is less than 0")
    rule = {key: value for key, value in row_for(model, "image").items() if key != "match"}
    try:
        return Weights({**table, **dict(weights)}, ImageRule.model_validate({**rule, **dict(image)}))
    except ValidationError as error:
        raise ConfigurationError(f"token_estimate of {model}: {error.errors(include_input=False)[0]['msg']}") from None


def row_for(model: str, kind: Literal["tokenizer", "image"]) -> Mapping[str, Any]:
    """Return the first row of tokenizers.toml that matches; the last one matches everything."""
    name = model.lower()
    return next(row for row in rows(kind) if any(fnmatchcase(name, pattern) for pattern in row["match"]))


def rows(kind: Literal["tokenizer", "image"]) -> Sequence[Mapping[str, Any]]:
    """Return the rows of tokenizers.toml."""
    found: list[dict[str, Any]] = read_toml(__package__, "tokenizers.toml")[kind]
    return found


def measure_request(messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> "RequestMeasures":
    """Measure a request. This takes a few microseconds for each message that is not measured yet."""
    content = measure_messages(messages)
    return content.with_tools(tools) if tools else content


def measure_messages(messages: Sequence[Message]) -> "RequestMeasures":
    """Return the measures of messages, which are not changed later. Of a conversation that grows, only what is new is
    measured."""
    if not isinstance(messages, GrowingMessages) or (kept := messages.measures()) is None:
        found = RequestMeasures()
        found.add_messages(messages)
        return found
    known, measures = kept.last or ([], RequestMeasures())
    if known is messages:
        return measures
    # Equal messages have equal measures.
    if known is not messages.continues and known != messages[: len(known)]:
        known, measures = [], RequestMeasures()
    if new := messages[len(known) :]:
        measures = replace(measures, images=list(measures.images), texts=[])
        measures.add_messages(new)
    kept.last = messages, measures
    return measures


@dataclass(slots=True)
class RequestMeasures:
    """The measured parts of a request. ``nodes`` are the keywords of the tools' schemas."""

    text: TextCounts = _NO_TEXT
    schema_text: TextCounts = _NO_TEXT
    messages: int = 0
    systems: int = 0
    calls: int = 0
    results: int = 0
    toolbox: int = 0
    """1 if there are tools: most models then get a prompt on how to call them."""
    tools: int = 0
    nodes: int = 0
    native_tools: int = 0
    thinking: int = 0
    signature: int = 0
    native: int = 0
    """The length of native blocks in characters; ``thinking`` and ``signature`` are in characters, too."""
    pages: int = 0
    audio: float = 0.0
    video: float = 0.0
    """The length of videos in seconds; ``audio`` is in seconds, too."""
    remote: int = 0
    """Documents, recordings and videos whose bytes only the provider reads, and whose length is unknown."""
    images: list[tuple[media_size.Size | None, str | None]] = field(default_factory=list)
    """The size and the detail of each image."""
    texts: list[str] = field(default_factory=list)
    """The texts that are not counted yet."""
    _known_tools: tuple[tuple[ToolDefinition, ...], "RequestMeasures"] | None = field(default=None, compare=False)
    """The tools that were measured last, and the measures of a request that has only these."""

    def add_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.messages += 1
            self.systems += message.role is Role.SYSTEM or message.role is Role.DEVELOPER
            for block in message.content:
                if type(block) is TextBlock:  # most blocks are texts
                    self.texts.append(block.text)
                else:
                    self.add(block)
        counts = count_text(self.texts)
        self.text = TextCounts(*map(add, self.text, counts)) if any(self.text) else counts
        self.texts = []

    def with_tools(self, tools: Sequence[ToolDefinition]) -> "RequestMeasures":
        """Return the measures of a request with these tools, which are often those of the request before."""
        known = self._known_tools
        if known is None or len(known[0]) != len(tools) or not all(map(is_, known[0], tools)):
            measured = RequestMeasures(toolbox=1)
            for tool in tools:
                measured.add_tool(tool)
            measured.schema_text = count_text(measured.texts)
            known = self._known_tools = tuple(tools), measured
        found = known[1]
        return replace(
            self,
            schema_text=found.schema_text,
            toolbox=found.toolbox,
            tools=found.tools,
            nodes=found.nodes,
            native_tools=found.native_tools,
        )

    def add(self, block: ContentBlock) -> None:  # noqa: C901, PLR0912  # one case for each kind of block
        match block:
            case TextBlock(text=text):
                self.texts.append(text)
            case ToolUseBlock(name=name, raw_input=raw):
                self.calls += 1
                self.texts += (name, wirejson.dumps_text(block.input) if raw is None else raw)
            case ToolResultBlock(content=parts):
                self.results += 1
                for part in parts:
                    self.add(part)
            case ThinkingBlock(text=text, signature=signature):
                self.thinking += len(text)
                self.signature += len(signature or "")
            case RedactedThinkingBlock(data=data):
                self.signature += len(data)
            case ImageBlock(source=source, detail=detail):
                self.images.append((media_size.image_size(source.data) if source.kind == "base64" else None, detail))
            case DocumentBlock(source=source):
                self.remote += source.kind not in _READ_HERE
                self.texts += filter(None, (block.title, block.context))
                if source.kind == "text":
                    self.texts.append(source.data)
                else:
                    self.pages += media_size.pdf_pages(source.data) if source.kind == "base64" else 1
            case AudioBlock(source=source, duration_ms=length):
                self.remote += length is None and source.kind not in _READ_HERE
                if length is not None:
                    self.audio += length / 1000
                else:
                    is_here = source.kind == "base64"
                    self.audio += media_size.audio_seconds(source.data) if is_here else _FALLBACK_SECONDS
            case VideoBlock(source=source, duration_ms=length):
                self.remote += length is None and source.kind not in _READ_HERE
                self.video += _FALLBACK_SECONDS if length is None else length / 1000
            case ResourceBlock(content=text):
                self.texts += filter(None, (block.name, block.uri, block.description, text))
            case PromptResultBlock(content=text):
                self.texts += filter(None, (text, *map(wirejson.dumps_text, block.messages)))
            case ProviderBlock(data=data):
                self.native += len(wirejson.dumps(data))
            case _:
                self.texts.append(wirejson.dumps_text(block.model_dump(mode="json")))

    def add_tool(self, tool: ToolDefinition) -> None:
        """Measure the texts of a tool and the size of its schema, which providers write in their own forms."""
        is_native = isinstance(tool, ServerTool) and "properties" not in tool.input_schema
        if is_native or "native" in (tool.provider_raw or {}):
            self.native_tools += 1
            return
        self.tools += 1
        self.texts += (tool.name, tool.description)
        self._walk(tool.input_schema)

    def _walk(self, schema: Any) -> None:
        if not isinstance(schema, Mapping):
            return
        for key, value in schema.items():
            self.nodes += 1
            if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, Mapping):
                self.texts += value
                for inner in value.values():
                    self._walk(inner)
            elif isinstance(value, Mapping):
                self._walk(value)
            elif key in _LISTS and isinstance(value, Sequence) and not isinstance(value, str):
                for inner in value:
                    self._walk(inner)
            elif key in _WORDS:
                values = value if isinstance(value, (list, tuple)) else (value,)
                self.texts += [each if isinstance(each, str) else wirejson.dumps_text(each) for each in values]


_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_WORDS = frozenset({"description", "enum", "const", "pattern", "default", "examples", "required"})
