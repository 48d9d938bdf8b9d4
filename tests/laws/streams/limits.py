"""What the slowest and the largest corrupt stream of each adapter take: `python -m tests.laws --limits`.

CPU time depends on the machine, so it is printed here and asserted nowhere.
"""

import random
import time
import tracemalloc
from collections.abc import Callable, Iterator

from dragoman.testing.faults.plan import Mutate
from dragoman.testing.stream_laws import StreamSubject

MILLISECONDS, MEBIBYTES = 50, 64
"""What one corrupt stream may take."""


def table(streams: dict[str, tuple[StreamSubject, ...]], mutations: int, seed: int) -> Iterator[str]:
    """A line for each adapter, then one for all. Memory is measured on every tenth stream, as that is slow."""
    yield f"{'adapter':<20}{'corrupt':>8}{'slowest ms':>12}{'largest MiB':>13}"
    tried, slowest, largest = 0, 0.0, 0.0
    for provider, subjects in streams.items():
        trials = list(_trials(subjects, mutations, seed))
        milliseconds = max(map(_milliseconds, trials))
        mebibytes = max(map(_mebibytes, trials[::10]))
        yield f"{provider:<20}{len(trials):>8}{milliseconds:>12.2f}{mebibytes:>13.2f}"
        tried, slowest, largest = tried + len(trials), max(slowest, milliseconds), max(largest, mebibytes)
    verdict = "within" if slowest < MILLISECONDS and largest < MEBIBYTES else "BEYOND"
    yield f"{'all':<20}{tried:>8}{slowest:>12.2f}{largest:>13.2f}"
    yield f"{verdict} {MILLISECONDS} ms and {MEBIBYTES} MiB each, seed {seed}"


def _trials(subjects: tuple[StreamSubject, ...], mutations: int, seed: int) -> Iterator[Callable[[], object]]:
    """The same corrupt streams as those of the laws."""
    for subject in subjects:
        picker = random.Random(f"{seed}/{subject.name}")
        subject.play([subject.body])  # caches that are made once
        for _ in range(-(-mutations // len(subjects))):
            body = b"".join(Mutate(picker.randrange(2**48)).apply(subject.body))
            yield lambda subject=subject, body=body: subject.play([body])  # type: ignore[misc]


def _milliseconds(trial: Callable[[], object]) -> float:
    """The best of three: the garbage collector may run in any one of them."""
    spent = []
    for _ in range(3):
        started = time.process_time()
        trial()
        spent.append(1000 * (time.process_time() - started))
    return min(spent)


def _mebibytes(trial: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        trial()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
