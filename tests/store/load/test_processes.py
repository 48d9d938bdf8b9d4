"""Many programs, one store: nothing is lost, doubled or reordered, also if they are killed."""

from functools import partial
from pathlib import Path

import pytest

from dragoman.store import Store
from tests.packaging.systems import needs_fork
from tests.store.load import integrity
from tests.store.load.anomalies import StoredSession, TurnRecord, find_anomalies, read_journals, stored_sessions
from tests.store.load.writers import FORK_CONTEXT, append_turns, create_sessions, kill_at_random, run_all

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    needs_fork,
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("sessions", [1, 4], ids=["shared", "separate"])
def test_programs_append_concurrently(lasting_place: str, tmp_path: Path, sessions: int) -> None:
    """Four of them, fifty turns each, to one session or to one each; they never see a lock."""
    session_ids = create_sessions(lasting_place, sessions)

    def start(number: int) -> "FORK_CONTEXT.Process":  # type: ignore[name-defined]
        chosen = session_ids if sessions == 1 else [session_ids[number]]
        notes = tmp_path / f"{number}.log"
        return FORK_CONTEXT.Process(target=append_turns, args=(lasting_place, chosen, 50, notes, number, "normal"))

    assert run_all(4, start) == [0] * 4
    log = read_journals(tmp_path.glob("*.log"))
    assert (log.errors, len(log.acknowledged)) == ([], 200)
    with Store(lasting_place) as store:
        assert find_anomalies(log.notes, stored_sessions(store, session_ids)) == []
        assert integrity.faults(store) == []


@pytest.mark.exhaustive
def test_killed_programs_leave_whole_turns(lasting_place: str, tmp_path: Path) -> None:
    """Acknowledged turns are there; others are there as a whole or not at all."""
    session_ids = create_sessions(lasting_place, 3)

    def start(number: int, seconds: float) -> "FORK_CONTEXT.Process":  # type: ignore[name-defined]
        notes = tmp_path / f"{number}.log"
        return FORK_CONTEXT.Process(
            target=append_turns, args=(lasting_place, session_ids, None, notes, number, "normal", seconds)
        )

    assert kill_at_random(20, 3, start, seed=1) == 20
    log = read_journals(tmp_path.glob("*.log"))
    assert log.errors == []
    assert log.acknowledged
    with Store(lasting_place) as store:
        assert find_anomalies(log.notes, stored_sessions(store, session_ids)) == []
        assert integrity.faults(store) == []


def note(name: str, started: int, acknowledged: int | None, version: int | None) -> TurnRecord:
    return TurnRecord("s", tuple(f"{name}{number}" for number in range(4)), started, acknowledged, version)


A, B, C = note("a", 0, 9, 1), note("b", 10, 19, 2), note("c", 15, None, None)
whole = partial(StoredSession, calls={f"{name}1": f"{name}2" for name in "abc"})


@pytest.mark.parametrize(
    ("session", "notes", "fault"),
    [
        (whole(2, [*A.messages, *B.messages], mapped=2), [A, B], None),
        (whole(2, [*A.messages, *B.messages], mapped=2), [A, B, C], None),
        (whole(3, [*A.messages, *B.messages, *C.messages], mapped=3), [A, B, C], None),
        (whole(1, [*A.messages], mapped=1), [A, B], "lost: b0"),
        (whole(2, [*A.messages, *A.messages], mapped=2), [A], "doubled: a0"),
        (whole(2, [*A.messages, *B.messages[:2]], mapped=2), [A, B], "half: b0"),
        (whole(2, [*A.messages, *B.messages[1:]], mapped=2), [A, B], "half: b0"),
        (whole(3, [*A.messages, *B.messages, *C.messages[:3]], mapped=3), [A, B, C], "half: c0"),
        (whole(2, ["a0", "b0", *A.messages[1:], *B.messages[1:]], mapped=2), [A, B], "half: a0"),
        (whole(2, [*A.messages, *B.messages], mapped=1), [A, B], "half: 1 tool ids"),
        (StoredSession(1, [*A.messages], mapped=1), [A], "half: a0 without its call"),
        (whole(2, [*A.messages, *B.messages], mapped=2), [A], "strange: 4 messages"),
        (whole(2, [*B.messages, *A.messages], mapped=2), [A, B], "reordered: a0"),
        (whole(2, [*B.messages, *A.messages], mapped=2), [A, B], "misplaced: a0"),
        (whole(3, [*A.messages], mapped=1), [A], "misplaced: version 3"),
    ],
)
def test_the_history_checker_finds_faults(session: StoredSession, notes: list[TurnRecord], fault: str | None) -> None:
    """A checker that misses one would prove nothing."""
    found = find_anomalies(notes, {"s": session})
    assert bool(found) == (fault is not None)
    assert fault is None or any(each.startswith(fault) for each in found), found


def test_a_turn_of_a_missing_session_is_strange() -> None:
    """Sessions are never deleted there."""
    assert find_anomalies([A], {}) == ["strange: a turn of s, which is not there"]
