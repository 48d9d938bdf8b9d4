"""Every recorded request of every client, for providers of other wires."""

from collections import Counter

from tests.conformance.clients.projection import TARGETS, project
from tests.conformance.clients.recorded import client_requests


def test_no_request_is_refused_and_nothing_is_lost_without_a_name() -> None:
    """The provider's own rules accept each body. What it lacks of the client's body is named by a loss."""
    wrong, seen = [], Counter[str]()
    for request in client_requests():
        for target in TARGETS:
            if target == request.wire:
                continue
            outcome = project(request, target)
            seen[request.client] += 1
            problems = [outcome.refusal] * bool(outcome.refusal) + outcome.faults + outcome.unnamed
            wrong += [f"{request} -> {target}: {problem}" for problem in problems]
    assert not wrong, "\n".join(wrong[:20])
    assert seen.total() > 1000, "too few requests were read"
    assert len(seen) > 10, "the requests of some clients are missing"
