"""The part of the pytest plugin for ``--llm-faults``. It is imported when the first test with a cassette runs.

A test runs again with every fault in every reply of its cassette, and the outcomes are counted. A test *survived* if it
still passes. It *raised* if the client raised its own error, which the code under test could have handled. Everything
else is *broken*: a wrong answer that was accepted, or an unrelated error. A test that passes without having met the
fault, because another client sent the request, is not counted.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from _pytest.runner import runtestprotocol

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.testing import faults
from dragoman.testing.cassettes.exchange import Exchange
from dragoman.testing.cassettes.file import load_exchanges
from dragoman.testing.cassettes.replay import CassetteMissError
from dragoman.testing.event_bytes import split_events
from dragoman.testing.faults.plan import Corrupt, Cut, Plan, Rechunk, Stall
from dragoman.testing.faults.transport import Refusals, faulty_response
from dragoman.transport.retry import RetryPolicy

OUTCOMES = ("survived", "raised", "broken")
_CLIENTS = ("httpx", "httpx2")
_CLIENT_ERROR_PACKAGES = ("anthropic", "openai", "ollama", "httpx", "httpx2", "httpcore", "httpcore2")
"""Packages whose errors report a failed call."""
_PLANS_FOR_ANY_BODY = (Rechunk, Cut, Stall, Corrupt)
_PLANS_FOR_STREAMS = (
    faults.LineEnds, faults.Bom, faults.Comments, faults.Chain,
    faults.DropEvent, faults.DuplicateEvent, faults.SwapEvents,
)  # fmt: skip
"""They change events and lines, which a reply without a stream does not have."""
_REFUSAL_STATUSES = (429, 503)
KINDS = (
    *(plan.__name__ for plan in (*_PLANS_FOR_ANY_BODY, *_PLANS_FOR_STREAMS)),
    "Reset",
    *(f"Status{status}" for status in _REFUSAL_STATUSES),
)
"""The kinds of faults that `run` takes. A cassette may have no reply that some of them fit."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault in the first replay of one exchange, counted from 0."""

    exchange: int
    plan: Plan | Refusals

    @property
    def kind(self) -> str:
        if isinstance(self.plan, Refusals):
            return f"Status{self.plan.status}"
        return "Reset" if isinstance(self.plan, Cut) and self.plan.reset else type(self.plan).__name__


FAULT_KEY = pytest.StashKey[PlannedFault]()
_APPLIED_KEY = pytest.StashKey[bool]()
"""Whether a request of the test met the fault."""
_OUTCOME_KEY = pytest.StashKey[str]()


def run(
    item: pytest.Item, nextitem: pytest.Item | None, kinds: str, seed: int, *, cassette: Path, property_name: str
) -> None:
    """Run the whole protocol of one test: once as it is and, if it passes, once with each fault.

    The counts of the outcomes become a user property of the test's report, under ``property_name``.
    """
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if all(report.passed for report in reports):
        counts: dict[str, Counter[str]] = {}
        for fault in _planned_faults(cassette, kinds, seed):
            item.stash[FAULT_KEY], item.stash[_APPLIED_KEY] = fault, False
            item._initrequest()  # type: ignore[attr-defined]  # fresh fixtures, as pytest-rerunfailures gets them
            passed = all(report.passed for report in runtestprotocol(item, nextitem=nextitem, log=False))
            outcome = "survived" if passed else item.stash.get(_OUTCOME_KEY, "broken")
            item.stash[_OUTCOME_KEY] = "broken"
            if passed and not item.stash[_APPLIED_KEY]:
                continue
            counts.setdefault(fault.kind, Counter())[outcome] += 1
        if FAULT_KEY in item.stash:
            del item.stash[FAULT_KEY]
        _, call_report, *_ = reports  # those of setup and teardown are around it
        call_report.user_properties.append((property_name, json.dumps(counts)))
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _planned_faults(cassette: Path, kinds: str, seed: int) -> list[PlannedFault]:
    exchanges: list[Exchange] = []
    if cassette.exists():
        _, exchanges = load_exchanges(cassette.read_text(encoding="utf-8"))
    all_faults = [PlannedFault(n, plan) for n, each in enumerate(exchanges) for plan in _plans_for(each, seed)]
    if kinds == "all":
        return all_faults
    selected = {name.strip().lower() for name in kinds.split(",")}
    known = {kind.lower() for kind in KINDS}
    unknown = selected - known
    if unknown:
        raise ConfigurationError(
            f"no fault of kind {', '.join(sorted(unknown))} here: there are {', '.join(sorted(known))}"
        )
    return [fault for fault in all_faults if fault.kind.lower() in selected]


def _plans_for(exchange: Exchange, seed: int) -> Iterator[Plan | Refusals]:
    body = exchange.response.body
    if body:
        is_stream = len(split_events(body)) > 1
        for plan in faults.plans(exchange, seed):
            if is_stream or isinstance(plan, _PLANS_FOR_ANY_BODY):
                yield plan
    for status in _REFUSAL_STATUSES:
        yield faults.status_then_success(
            status, {"retry-after-ms": "1", "content-type": "application/json"}, body=b"{}"
        )


def record_error(item: pytest.Item, error: BaseException) -> None:
    """Record the kind of error that ended a test with a fault, for `run`. The plugin calls it."""
    package = type(error).__module__.partition(".")[0]
    is_of_client = isinstance(error, DragomanError) or package in _CLIENT_ERROR_PACKAGES
    is_miss = isinstance(error, CassetteMissError)
    item.stash[_OUTCOME_KEY] = "raised" if is_of_client and not is_miss else "broken"


@contextmanager
def apply_fault(item: pytest.Item) -> Iterator[None]:
    """Apply the test's fault, if it runs with one, below every httpx and httpx2 client, without waits for retries or
    stalls.

    Enter it after the cassette: vcrpy patches the same methods, and the fault changes what they replay.
    """
    fault = item.stash.get(FAULT_KEY, None)
    if fault is None:
        yield
        return
    from dragoman.testing.cassettes.recorder import last_played  # it needs vcrpy

    def take_fault() -> bool:
        """Return whether the reply that the cassette has just replayed gets the fault, which is so only once."""
        if item.stash[_APPLIED_KEY] or last_played.get() != fault.exchange:
            return False
        item.stash[_APPLIED_KEY] = True
        return True

    with ExitStack() as stack:
        stack.enter_context(patch.object(time, "sleep", lambda seconds: None))
        stack.enter_context(patch.object(RetryPolicy, "backoff", lambda self, retry, roll: 0.0))
        if "anyio" in sys.modules:
            stack.enter_context(patch.object(sys.modules["anyio"], "sleep", _no_wait))
        for name in _CLIENTS:
            if name in sys.modules:
                for patched in _patch_transports(sys.modules[name], fault, take_fault):
                    stack.enter_context(patched)
        yield


async def _no_wait(seconds: float) -> None:
    """Replaces the wait of an async client before a retry."""


def _patch_transports(module: ModuleType, fault: PlannedFault, take_fault: Callable[[], bool]) -> Iterator[Any]:
    """Yield the patches that apply the fault below the clients of httpx or httpx2."""
    plain, awaited = module.HTTPTransport.handle_request, module.AsyncHTTPTransport.handle_async_request

    def handle_request(transport: Any, request: Any) -> Any:
        response = plain(transport, request)
        if not take_fault():
            return response
        return faulty_response(response, fault.plan, response.read(), module)

    async def handle_async_request(transport: Any, request: Any) -> Any:
        response = await awaited(transport, request)
        if not take_fault():
            return response
        return faulty_response(response, fault.plan, await response.aread(), module)

    yield patch.object(module.HTTPTransport, "handle_request", handle_request)
    yield patch.object(module.AsyncHTTPTransport, "handle_async_request", handle_async_request)


def format_table(found: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    """Yield the counts by test and kind as lines."""
    for test, kinds in found.items():
        yield test
        yield "  " + f"{'':16}" + "".join(f"{name:>10}" for name in OUTCOMES)
        total: Counter[str] = Counter()
        for kind, counts in sorted(kinds.items()):
            total.update(counts)
            yield "  " + f"{kind:16}" + "".join(f"{counts.get(name, 0):>10}" for name in OUTCOMES)
        yield "  " + f"{'total':16}" + "".join(f"{total[name]:>10}" for name in OUTCOMES)
