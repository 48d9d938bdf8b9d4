"""Media as base64: Google reads both alphabets, everyone else the standard one, so that blocks hold that."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_URL_SAFE = str.maketrans("-_", "+/")
_STANDARD = str.maketrans("+/", "-_")
_UNPADDED = re.compile(r"[A-Za-z0-9+/]*")


def standard(text: str) -> str:
    """The data in the standard alphabet, padded."""
    plain = text.translate(_URL_SAFE)
    missing = -len(plain) % 4
    return plain + "=" * missing if missing in (1, 2) and _UNPADDED.fullmatch(plain) else plain


def standardised(part: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A camelCase part with all its inline data in the standard alphabet, and how the data was spelled before."""
    found: set[str] = set()
    return _mapped(part, lambda text: _noting(text, found)), sorted(found)


def as_it_was(part: dict[str, Any], spelling: Iterable[str]) -> dict[str, Any]:
    """The way back."""

    def back(text: str) -> str:
        text = text.translate(_STANDARD) if "urlsafe" in spelling else text
        return text.rstrip("=") if "unpadded" in spelling else text

    return _mapped(part, back) if spelling else part


def _noting(text: str, found: set[str]) -> str:
    if "-" in text or "_" in text:
        found.add("urlsafe")
    plain = standard(text)
    if len(plain) != len(text):
        found.add("unpadded")
    return plain


def _mapped(part: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The part with each ``inlineData`` in it changed: its own, and those beside a tool's answer."""
    changed = dict(part)
    data = part.get("inlineData")
    if isinstance(data, dict) and isinstance(data.get("data"), str):
        changed["inlineData"] = {**data, "data": change(data["data"])}
    answer = part.get("functionResponse")
    if isinstance(answer, dict) and isinstance(answer.get("parts"), list):
        inner = [_mapped(each, change) if isinstance(each, dict) else each for each in answer["parts"]]
        changed["functionResponse"] = {**answer, "parts": inner}
    return changed
