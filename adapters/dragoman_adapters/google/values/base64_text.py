"""Media as base64. Google reads both alphabets; blocks hold the standard one, which everyone reads."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_TO_STANDARD = str.maketrans("-_", "+/")
_TO_URL_SAFE = str.maketrans("+/", "-_")
_UNPADDED = re.compile(r"[A-Za-z0-9+/]*")


def to_standard_base64(text: str) -> str:
    """Return the data in the standard alphabet, padded."""
    plain = text.translate(_TO_STANDARD)
    missing = -len(plain) % 4  # no base64 lacks three
    return plain + "=" * missing if missing in (1, 2) and _UNPADDED.fullmatch(plain) else plain


def to_standard_part(part: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a camelCase part with its inline data in the standard alphabet, padded, and how it was spelled before:
    ``urlsafe``, ``unpadded``, or both. All data of one part counts as spelled alike."""
    found: set[str] = set()

    def standardize(text: str) -> str:
        if "-" in text or "_" in text:
            found.add("urlsafe")
        plain = to_standard_base64(text)
        if len(plain) != len(text):
            found.add("unpadded")
        return plain

    return _map_inline_data(part, standardize), sorted(found)


def restore_base64(part: dict[str, Any], spelling: Iterable[str]) -> dict[str, Any]:
    """Return the part with its data spelled as `to_standard_part` found it."""

    def restore(text: str) -> str:
        text = text.translate(_TO_URL_SAFE) if "urlsafe" in spelling else text
        return text.rstrip("=") if "unpadded" in spelling else text

    return _map_inline_data(part, restore) if spelling else part


def _map_inline_data(part: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Return the part with each ``inlineData`` changed: its own, and those in a tool's result."""
    changed = dict(part)
    data = part.get("inlineData")
    if isinstance(data, dict) and isinstance(data.get("data"), str):
        changed["inlineData"] = {**data, "data": change(data["data"])}
    answer = part.get("functionResponse")
    if isinstance(answer, dict) and isinstance(answer.get("parts"), list):
        inner = [_map_inline_data(each, change) if isinstance(each, dict) else each for each in answer["parts"]]
        changed["functionResponse"] = {**answer, "parts": inner}
    return changed
