"""What our adapters declare of a model, in the words of the second data set."""

from collections.abc import Iterator
from typing import Any

from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.registry import get_adapter

PDF = "application/pdf"


def differences(model: str, theirs: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each fact that both know and that differs, with our value and theirs."""
    ours = _facts(get_adapter(model).capabilities)
    for fact in ("retires_on", *(fact for fact in theirs if fact != "retires_on")):
        value = theirs.get(fact)
        is_declared = ours[fact] is not None or fact == "retires_on"
        if is_declared and ours[fact] != value:
            yield fact, ours[fact], value


def _facts(found: AdapterCapabilities) -> dict[str, Any]:
    """None is a fact that our table does not declare."""
    efforts = found.wire.get("efforts")
    documents = found.accepted_media_types.get("document", (PDF,))
    sources = found.media_sources.get("document", ("base64",))
    facts = {
        "window": found.max_context_tokens,
        "output": found.max_output_tokens,
        "retires_on": None if found.retires_on is None else str(found.retires_on),
        "images": bool(found.supports_images),
        "pdf": bool(found.supports_documents) and PDF in documents and sources != ("text",),
        "audio": bool(found.supports_audio),
        "video": bool(found.supports_video),
        "tools": bool(found.supports_tools),
        "thinking": bool(found.supports_thinking),
        "caching": bool(found.supports_prompt_caching),
        "schema": bool(found.supports_structured_output) and found.structured_output_by == "native",
        "always_thinks": bool(found.supports_thinking) and not found.thinking_off,
        "forced_tool_choice": found.forced_tool_choice != "never",
    }
    for level in ("minimal", "xhigh", "max"):
        facts[f"effort {level}"] = None if not efforts else level in efforts
    return facts
