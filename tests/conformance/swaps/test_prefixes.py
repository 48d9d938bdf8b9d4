"""Growing conversations on every wire: a sample of what `python -m tests.conformance.swaps.prefix_ledger` counts."""

from functools import cache

import pytest

from tests.conformance.swaps.histories import TARGETS, History
from tests.conformance.swaps.prefix_law import CONTINUE_TEXT, prefix_fault
from tests.conformance.swaps.prefix_ledger import PrefixRow, check_growth, conversations
from tests.exchanges import load_or_skip

_SOURCES = ("anthropic", "openai-responses", "openai-chat", "google", "bedrock")
_GENERATED = 3
_ONE_IN = 50


@cache
def _sample(source: str) -> tuple[History, ...]:
    recorded_ones, generated_ones = conversations(source, _GENERATED)
    return (*recorded_ones[::_ONE_IN], *generated_ones)


@pytest.mark.exchanges
@pytest.mark.parametrize("target", list(TARGETS))
def test_requests_only_grow(target: str) -> None:
    """Recorded and generated conversations: each request starts with the one before it, and depends on the history
    only.
    """
    row = PrefixRow(target)
    for source in _SOURCES:
        load_or_skip(source)
        for history in _sample(source):
            check_growth(history, target, row)
    assert row.steps > row.conversations // 2
    assert not row.shown


def test_allowed_differences_are_told_from_others() -> None:
    """The check itself: items may grow at their end, placeholders may be replaced, nothing else may change."""

    def request_parts(*items: object, system: str | None = None) -> tuple[dict[str, object], list[object]]:
        return {"system": system, "toolConfig": None}, list(items)

    hi = {"role": "user", "content": "Hi"}
    more = {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Bye"}]}
    stand_in = {"role": "user", "content": CONTINUE_TEXT}
    assert prefix_fault(request_parts(hi), request_parts(hi, hi)) is None
    assert prefix_fault(request_parts(hi), request_parts(more)) is None
    assert prefix_fault(request_parts(hi, stand_in), request_parts(hi, more)) is None
    assert prefix_fault(request_parts(more), request_parts(hi)) is not None
    assert prefix_fault(request_parts(hi, hi), request_parts(hi)) is not None
    assert prefix_fault(request_parts(hi), request_parts(hi, system="Be brief.")) is not None
