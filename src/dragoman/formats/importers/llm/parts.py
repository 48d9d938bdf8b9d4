"""What all files of simonw/llm share: counts of tokens, thinking and models."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.losses import Severity
from dragoman.canonical.blocks import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from dragoman.canonical.usage import Usage
from dragoman.formats.document import parse_or_none
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import build_usage, count_of, to_text
from dragoman.formats.native import read_reply
from dragoman.formats.reading.losses import is_empty, source_losses

LIBRARY = "llm"
_PROVIDERS = ("anthropic", "openai", "gemini")


def read_usage(input_tokens: Any, output_tokens: Any, details: Any, **fields: Any) -> Usage | None:
    """Return the usage of a response. The details are those of the provider: Anthropic counts cached tokens apart."""
    counts = [
        count if isinstance(count, int) and 0 <= count < 2**63 else None for count in (input_tokens, output_tokens)
    ]
    if counts == [None, None]:
        return None
    if isinstance(details, str):
        details = parse_or_none(details, format_name=LIBRARY)
    outer = details if isinstance(details, Mapping) else {}
    inputs = _object(outer, "input_tokens_details", "prompt_tokens_details")
    outputs = _object(outer, "output_tokens_details", "completion_tokens_details")
    apart = (count_of(outer, "cache_read_input_tokens") or 0) + (count_of(outer, "cache_creation_input_tokens") or 0)
    raw = dict(outer) or None
    return build_usage(
        (counts[0] or 0) + apart,
        counts[1],
        cached=count_of(outer, "cache_read_input_tokens", "cachedContentTokenCount")
        or count_of(inputs, "cached_tokens"),
        written=count_of(outer, "cache_creation_input_tokens") or count_of(inputs, "cache_write_tokens"),
        reasoning_tokens=count_of(outputs, "reasoning_tokens", "thinking_tokens")
        or count_of(outer, "thoughtsTokenCount"),
        cache_creation_1h_input_tokens=count_of(_object(outer, "cache_creation"), "ephemeral_1h_input_tokens"),
        audio_input_tokens=count_of(inputs, "audio_tokens"),
        audio_output_tokens=count_of(outputs, "audio_tokens"),
        raw=raw,
        **fields,
    )


_KNOWN_METADATA = frozenset(
    {
        "id",
        "type",
        "data",
        "signature",
        "encrypted_content",
        "thoughtSignature",
        "thought_signature",
        "summary",
        "content",
    }
)
"""Where a signature is, and the copies of a part's text."""


def read_reasoning(text: str, metadata: Any, path: str, *, is_redacted: bool = False) -> list[ContentBlock]:
    """Return a part with reasoning, signed by the provider that its metadata name."""
    for provider, inner in metadata.items() if isinstance(metadata, Mapping) else ():
        if not isinstance(inner, Mapping):
            source_losses().add_field(path, to_text(provider), LIBRARY)
            continue
        for name, value in inner.items():
            if name not in _KNOWN_METADATA and not is_empty(value):
                source_losses().add_field(f"{path}.{provider}", name, LIBRARY)
    inner = next((value for value in metadata.values() if isinstance(value, Mapping)), {}) if isinstance(
        metadata, Mapping) else {}  # fmt: skip
    sealed = inner.get("data")
    if inner.get("type") == "redacted_thinking" and isinstance(sealed, str):
        return [RedactedThinkingBlock(data=sealed)]
    found = (inner.get(name) for name in ("signature", "encrypted_content", "thoughtSignature", "thought_signature"))
    signature = next((each for each in found if isinstance(each, str) and each), None)
    if is_redacted and signature is not None:
        return [*([ThinkingBlock(text=text)] if text else []), ThinkingBlock(signature=signature)]
    return [ThinkingBlock(text=text, signature=signature)] if text or signature else []


def read_native_reply(native: Any, path: str) -> list[ContentBlock]:
    """Return what Anthropic's own reply says, which some logs store next to its text, without its calls.

    It has the signatures, citations and native blocks that the log has no columns for. Empty for other replies.
    """
    if isinstance(native, str):
        native = parse_or_none(native, format_name=LIBRARY)
    if not isinstance(native, Mapping) or native.get("type") != "message" or native.get("role") != "assistant":
        return []
    try:
        reply = read_reply("anthropic", dict(native), path)
    except FormatError:
        reason = "the provider's own reply is stored in a short form: only the columns of the log are read"
        source_losses().add(path, reason, severity=Severity.INFO)
        return []
    return [block for block in reply.content if block.type != "tool_use"]


def full_model(name: Any, metadata: Any = None) -> str | None:
    """Return our name of a model: llm's plugins put the provider before a slash, and OpenAI's models have none."""
    text = to_text(name)
    provider, slash, model = text.partition("/")
    if slash and provider in _PROVIDERS:
        return f"{'google' if provider == 'gemini' else provider}:{model}"
    if isinstance(metadata, Mapping) and "openai" in metadata and text:
        return f"openai:{text}"
    return text or None


def _object(outer: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return next((value for name in names if isinstance(value := outer.get(name), Mapping)), {})
