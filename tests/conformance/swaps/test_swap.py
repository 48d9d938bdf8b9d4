"""Histories handed to every other model: each gives a request that its provider accepts, with its losses named."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import islice

import pytest

from tests.conformance.adapters import missing_adapter
from tests.conformance.scope import ADAPTERS
from tests.conformance.swaps.histories import (
    TARGETS,
    History,
    faults,
    generated_histories,
    recorded_histories,
    recorded_messages,
)
from tests.exchanges import exchanges_folder, load_or_skip

SOURCES = (*ADAPTERS, "local")
_SHARE, _SAMPLE = 2, 120
"""One of this many recorded histories is sent to a target, exhaustively and by default."""
_GENERATED = 20
"""For each pair of a source and a target; `python -m tests.conformance.swaps.matrix` tries thousands."""


@pytest.mark.exchanges
@pytest.mark.parametrize("source", list(ADAPTERS))
def test_every_recorded_conversation_fits_every_other_wire(source: str, exhaustive: bool) -> None:
    """The projected request passes the other wire's rules and its SDK's types, and what it lacks is a named loss.

    Every prefix of a history is a history: also one that stops between a call and its result. Here each goes to every
    other target; `python -m tests.conformance.swaps.matrix` hands all of them to all.
    """
    load_or_skip(source)
    histories = _recorded_histories(source)
    assert histories
    share = _SHARE if exhaustive else _SAMPLE
    first = list(ADAPTERS).index(source)
    _assert_accepted(source, lambda index: histories[(first + index) % share :: share])


@pytest.mark.parametrize("source", SOURCES)
def test_faulty_sessions_fit_every_other_wire(source: str, exhaustive: bool) -> None:
    """Broken turns, orphans, double and look-alike ids, media everywhere: the request is still accepted."""
    histories = _generated_histories(source)[: None if exhaustive else 3]
    _assert_accepted(source, lambda _: histories)


@cache
def _recorded_histories(source: str) -> tuple[History, ...]:
    return tuple(recorded_histories(source, prefixes=True))


@cache
def _generated_histories(source: str) -> tuple[History, ...]:
    mixed = recorded_messages(source) if (exchanges_folder() / f"{source}.jsonl.gz").is_file() else ()
    return tuple(generated_histories(source, _GENERATED, mixed=mixed))


def _assert_accepted(source: str, histories_for: Callable[[int], tuple[History, ...]]) -> None:
    """Hand each target the histories for its number, and report the faults of all."""
    missing = {provider: missing_adapter(provider) for provider in (*ADAPTERS, source) if provider in ADAPTERS}
    if missing.get(source):
        pytest.skip(missing[source])
    found = [
        (target, history.name, fault)
        for index, target in enumerate(TARGETS)
        if not missing.get(target)
        for history in histories_for(index)
        for fault in islice(faults(history, target), 3)
    ]
    kinds = Counter(fault.partition(":")[0] for *_, fault in found)
    lines = [f"{name} for {target}: {fault}" for target, name, fault in found[:15]]
    assert not found, "\n".join([f"{len(found)} faults: {kinds.most_common(8)}", *lines])
