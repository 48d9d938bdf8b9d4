"""Conversations that grow, on every wire: a sample of what `python -m tests.conformance.prefixes` counts."""

from functools import cache

import pytest

from tests.conformance.growth import GOING_ON, breach
from tests.conformance.handover import TARGETS, History
from tests.conformance.prefixes import Row, conversations, grow
from tests.exchanges import load_or_skip

_SOURCES = ("anthropic", "openai-responses", "openai-chat", "google", "bedrock")
_GENERATED = 3
_ONE_IN = 25


@cache
def _sample(source: str) -> tuple[History, ...]:
    told, made = conversations(source, _GENERATED)
    return (*told[::_ONE_IN], *made)


@pytest.mark.exchanges
@pytest.mark.parametrize("target", list(TARGETS))
def test_conversations_only_grow(target: str) -> None:
    """Recorded and generated ones: each request begins with the one before it, and depends on the history alone."""
    row = Row(target)
    for source in _SOURCES:
        load_or_skip(source)
        for history in _sample(source):
            grow(history, target, row)
    assert row.steps > row.conversations // 2
    assert not row.shown


def test_what_may_differ_is_told_from_what_may_not() -> None:
    """The measure itself: items grow at their end, a stand-in gives way, and nothing else changes."""

    def asked(*items: object, system: str | None = None) -> tuple[dict[str, object], list[object]]:
        return {"system": system, "toolConfig": None}, list(items)

    hi = {"role": "user", "content": "Hi"}
    more = {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Bye"}]}
    stand_in = {"role": "user", "content": GOING_ON}
    assert breach(asked(hi), asked(hi, hi)) is None
    assert breach(asked(hi), asked(more)) is None
    assert breach(asked(hi, stand_in), asked(hi, more)) is None
    assert breach(asked(more), asked(hi)) is not None
    assert breach(asked(hi, hi), asked(hi)) is not None
    assert breach(asked(hi), asked(hi, system="Be brief.")) is not None
