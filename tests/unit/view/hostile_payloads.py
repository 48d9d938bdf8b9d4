"""Texts that would do harm if a page took them for HTML, and histories with them in every field."""

from typing import Any

from dragoman import Message

PAYLOADS = (
    "<script>document.title='hacked'</script>",
    '"><img src=x onerror="document.title=\'hacked\'">',
    "' autofocus onfocus='alert(1)",
    "</pre></details></article></main></body><h1>gone",
    "</title></style></textarea><svg onload=alert(1)>",
    "<!-- --!> <![CDATA[ ]]> <?php",
    "{{ 7 * 7 }}{% raw %}{# no #}",
    "&lt;b&gt;&#60;i&#62;&amp;quot;",
    "javascript:alert(1)//https://example.org/<a href=//example.org>",
    "</script><script>alert(1)</script>",
    "\u202eltr\u2066 \u0000\u0008\ufeff${alert(1)}",
)
CLOSED_FIELDS = frozenset(
    {"type", "role", "channel", "status", "stop_reason", "created_at", "resource_type", "cost_status", "mode",
     "cost_usd", "pricing_mode", "schema_version"}
)  # fmt: skip
"""Fields whose values are words of a closed set, times or numbers."""


def plant(value: Any, text: str, name: str = "") -> Any:
    """The value with the text in every field that holds one, and under every free key."""
    if isinstance(value, dict):
        if value.get("kind") == "base64" and "data" in value:
            return value | {"data": text, "provider": text}
        fixed_keys = (
            {"kind"} if "data" in value and value.get("kind") in ("url", "text", "file_ref", "file_id") else set()
        )
        has_free_keys = name in ("input", "arguments", "annotations")
        return {
            text if has_free_keys else key: inner if key in fixed_keys else plant(inner, text, key)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [plant(inner, text, name) for inner in value]
    if isinstance(value, str) and name not in CLOSED_FIELDS:
        return text
    return value


def dump_history(history: list[Message]) -> list[dict[str, Any]]:
    return [message.model_dump(mode="json", exclude_none=True) for message in history]
