"""The part of the pytest plugin for ``--llm-faults``. It is imported when the first test with a cassette runs.

A test runs again with every fault in every reply of its cassette, and the outcomes are counted. A test *survived* if it
still passes. It *raised* if the client raised its own error, which the code under test could have handled. Everything
else is *broken*: a wrong answer that was accepted, or an unrelated error.
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
"""The other plans change events and lines, which a reply without a stream does not have."""
_REFUSAL_STATUSES = (429, 503)


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
_outcome_key = pytest.StashKey[str]()


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
            item.stash[FAULT_KEY] = fault
            item._initrequest()  # type: ignore[attr-defined]  # fresh fixtures, as pytest-rerunfailures gets them
            passed = all(report.passed for report in runtestprotocol(item, nextitem=nextitem, log=False))
            outcome = "survived" if passed else item.stash.get(_outcome_key, "broken")
            item.stash[_outcome_key] = "broken"
            counts.setdefault(fault.kind, Counter())[outcome] += 1
        if FAULT_KEY in item.stash:
            del item.stash[FAULT_KEY]
        reports[1].user_properties.append((property_name, json.dumps(counts)))
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _planned_faults(cassette: Path, kinds: str, seed: int) -> list[PlannedFault]:
    exchanges = load_exchanges(cassette.read_text(encoding="utf-8"))[1] if cassette.exists() else []
    all_faults = [PlannedFault(n, plan) for n, each in enumerate(exchanges) for plan in _plans_for(each, seed)]
    if kinds == "all":
        return all_faults
    selected = {name.strip().lower() for name in kinds.split(",")}
    known = {fault.kind.lower() for fault in all_faults}
    if all_faults and (unknown := selected - known):
        raise ConfigurationError(
            f"no fault of kind {', '.join(sorted(unknown))} here: there are {', '.join(sorted(known))}"
        )
    return [fault for fault in all_faults if fault.kind.lower() in selected]


def _plans_for(exchange: Exchange, seed: int) -> Iterator[Plan | Refusals]:
    body = exchange.response.body
    for plan in faults.plans(exchange, seed) if body else ():
        if isinstance(plan, _PLANS_FOR_ANY_BODY) or len(split_events(body)) > 1:
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
    item.stash[_outcome_key] = "raised" if is_of_client and not is_miss else "broken"


@contextmanager
def apply_fault(fault: PlannedFault) -> Iterator[None]:
    """Apply the fault below every httpx and httpx2 client, without waits for retries or stalls."""
    from dragoman.testing.cassettes.recorder import last_played  # it needs vcrpy

    applied: list[PlannedFault] = []

    def is_due() -> bool:
        if applied or last_played.get() != fault.exchange:  # that which the cassette has just replayed
            return False
        applied.append(fault)
        return True

    with ExitStack() as stack:
        stack.enter_context(patch.object(time, "sleep", lambda seconds: None))
        stack.enter_context(patch.object(RetryPolicy, "backoff", lambda self, retry, roll: 0.0))
        if "anyio" in sys.modules:
            stack.enter_context(patch.object(sys.modules["anyio"], "sleep", _no_wait))
        for module in filter(None, map(sys.modules.get, _CLIENTS)):
            for patched in _patch_transports(module, fault, is_due):
                stack.enter_context(patched)
        yield


async def _no_wait(seconds: float) -> None:
    """Replaces the wait of an async client before a retry."""


def _patch_transports(module: ModuleType, fault: PlannedFault, is_due: Callable[[], bool]) -> Iterator[Any]:
    """Yield the patches that apply the fault below the clients of httpx or httpx2."""
    plain, awaited = module.HTTPTransport.handle_request, module.AsyncHTTPTransport.handle_async_request

    def handle_request(transport: Any, request: Any) -> Any:
        response = plain(transport, request)
        return faulty_response(response, fault.plan, response.read(), module) if is_due() else response

    async def handle_async_request(transport: Any, request: Any) -> Any:
        response = await awaited(transport, request)
        return faulty_response(response, fault.plan, await response.aread(), module) if is_due() else response

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
