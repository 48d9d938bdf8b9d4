"""The values of a JSON text are counted without parsing it, whatever stands in its strings."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman_gateway.bodies import values
from dragoman_gateway.errors import BodyTooLargeError

TEXTS = st.text(st.sampled_from('\\"{[,]}:é\n'), max_size=12)
JSON: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.integers(), lambda each: st.lists(each, max_size=4) | st.dictionaries(TEXTS, each, max_size=4)
)


def count(value: Any) -> int:
    """Return the places at which a value may begin: behind each bracket and each comma."""
    inner = [] if isinstance(value, (str, int)) else list(value.values() if isinstance(value, dict) else value)
    own = 0 if isinstance(value, (str, int)) else 1 + max(0, len(inner) - 1)
    return own + sum(map(count, inner))


@pytest.fixture(params=[1, 3, 50, 2**20])
def _pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_PIECE", request.param)


@pytest.mark.usefixtures("_pieces")
@given(JSON, st.booleans())
def test_the_count_is_exact_for_any_pieces(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert values.count_values(text) == count(value)
    values.check_values([text, text], 2 * count(value))
    if (least := 2 * count(value) - 1) >= 0 and 2 * len(text) > least:
        with pytest.raises(BodyTooLargeError):
            values.check_values([text, text], least)


def test_a_text_that_breaks_off_counts_up_to_there() -> None:
    for text, expected in ((b'[1,2,"', 3), (b'[1,"\\', 2), (b'[1,"\\"', 2), (b'["a","\\\\",1', 3), (b"", 0)):
        assert values.count_values(text) == expected, text
