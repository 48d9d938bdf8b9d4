"""Matches model names to models, with rules as data, case-insensitively.

A rule holds lists of texts by kind. A name matches the rule if any of these texts matches. ``dated`` is a name followed
by a date (``-20260101``, ``@20260101`` or ``-2026-01-01``); ``all`` is a list of rules that must all match.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

_DATE = re.compile(r"[-@]\d{8}|-\d{4}-\d{2}-\d{2}")
_DATE_AT_END = re.compile(rf"({_DATE.pattern})$")
_COMPACT_DATE = re.compile(r"-(20\d{2})(\d{2})(\d{2})(?=[-:]|$)")


def _has_date(name: str, stem: str) -> bool:
    return name.startswith(stem) and _DATE.fullmatch(name, len(stem)) is not None


def _regex(name: str, pattern: str) -> bool:
    return re.search(pattern, name) is not None


RULE_KINDS: Mapping[str, Callable[[str, str], bool]] = {
    "equals": str.__eq__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
    "dated": _has_date,
    "regex": _regex,
}


def read_rule(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Validate a rule and return it in lower case. Raises ValueError if it can never match."""
    rule: dict[str, Any] = {}
    for kind, texts in raw.items():
        if kind == "all":
            rule[kind] = [read_rule(part) for part in texts]
        elif kind not in RULE_KINDS:
            raise ValueError(f"match: {kind!r} is not one of {', '.join(RULE_KINDS)} or all")
        else:
            rule[kind] = list(texts) if kind == "regex" else [text.lower() for text in texts]
    if not any(rule.values()):
        raise ValueError("match: nothing to match")
    return rule


def matches(rule: Mapping[str, Any], name: str) -> bool:
    """Return True if the rule matches this name, which is in lower case."""
    for kind, texts in rule.items():
        if kind == "all":
            if all(matches(part, name) for part in texts):
                return True
        elif any(RULE_KINDS[kind](name, text) for text in texts):
            return True
    return False


def without_date(name: str) -> str:
    """Return the name without a date at its end: a snapshot of a model has the model's prices."""
    found = _DATE_AT_END.search(name)
    return name if found is None else name[: found.start()]


def with_dashed_date(name: str) -> str:
    """Expand a compact date at the end of a name (``-20251211``) to ``-2025-12-11``; routers shorten it."""

    def add_dashes(found: re.Match[str]) -> str:
        year, month, day = found.groups()
        try:
            date(int(year), int(month), int(day))
        except ValueError:
            return found[0]
        return f"-{year}-{month}-{day}"

    return _COMPACT_DATE.sub(add_dashes, name)
