"""What is read from the recorded exchanges, and made from them for every target, does not change."""

import json
from dataclasses import replace

import pytest

from tests.compatibility.frozen.exchange_parts import RECORDED, parts
from tests.compatibility.frozen.recordings import (
    COMMAND,
    EVERY,
    PROVIDERS,
    SAMPLE,
    WHOLE,
    cells,
    differences,
    digests,
    read,
    select_exchanges,
)
from tests.exchanges import RecordedExchange, load_or_skip

pytestmark = pytest.mark.exchanges

ADVICE = f"""If the cell {RECORDED} differs, the digests belong to other recordings. Otherwise find the exchanges that
differ: `{COMMAND} --help` says how.
If you intend the change, list the differences in the commit message, and accept them:
    {COMMAND} --write"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_cells_have_not_changed(provider: str, exhaustive: bool) -> None:
    """Replies, streams, errors, requests, their projections to every target and their other formats."""
    load_or_skip(provider)
    section = WHOLE if exhaustive else SAMPLE
    found = differences(read(section, [provider]), cells(provider, digests(provider, EVERY[section])))
    assert found == [], "\n".join(["cells differ:", *found, ADVICE])


@pytest.fixture
def exchange() -> RecordedExchange:
    """A reply with text in a conversation."""
    load_or_skip("anthropic")
    return next(
        each for each in select_exchanges("anthropic") if each.status == 200 and not each.streamed and each.request
    )


@pytest.mark.parametrize(
    ("changed", "cell"),
    [({"status": 429}, "errors"), ({"response": {"type": "message"}}, "errors"), ({"request": {}}, "requests")],
)
def test_a_change_shows_in_its_cell(exchange: RecordedExchange, changed: dict[str, object], cell: str) -> None:
    """The digests depend on the content of the exchange."""
    before, now = list(parts(exchange)), list(parts(replace(exchange, **changed)))  # type: ignore[arg-type]
    assert [part for name, part in now if name == cell] != [part for name, part in before if name == cell]


def test_parts_are_deterministic(exchange: RecordedExchange) -> None:
    """No part depends on what was read before it."""
    assert list(parts(exchange)) == list(parts(exchange))


def test_the_kept_digests_cover_all_providers() -> None:
    """A new provider needs its digests."""
    for section in EVERY:
        assert {name.partition(":")[0] for name in read(section)} == set(PROVIDERS)


def test_differences_name_the_cell() -> None:
    before, now = {"a: x": "1 aa", "a: y": "1 bb"}, {"a: x": "1 cc", "a: z": "2 dd"}
    assert differences(before, now) == ["a: x: 1 aa -> 1 cc", "a: y: 1 bb -> nothing", "a: z: nothing -> 2 dd"]
    assert differences(before, json.loads(json.dumps(before))) == []
