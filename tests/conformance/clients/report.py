"""The table of the clients: ``python -m tests.conformance.clients [client ...] [--losses]``."""

import argparse
import logging
from collections import Counter
from collections.abc import Sequence

from dragoman.adapter.losses import Severity
from tests.conformance.clients.projection import TARGETS, Outcome, project
from tests.conformance.clients.recorded import VARIABLE, client_requests, folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per client and wire. Returns 1 if a request is refused, or if something is lost without a name."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.clients", description=__doc__)
    parser.add_argument("client", nargs="*", help="clients, such as claude-code (default: all)")
    parser.add_argument("--losses", action="store_true", help="list the losses by client and provider")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if folder() is None:
        print(f"the recorded requests of clients are not here: set {VARIABLE} to the folder that holds them")
        return 0
    outcomes = [
        project(request, target)
        for request in client_requests()
        if not options.client or request.client in options.client
        for target in TARGETS
        if target != request.wire
    ]
    _print_table(outcomes)
    if options.losses:
        _print_losses(outcomes)
    wrong = [outcome for outcome in outcomes if outcome.refusal or outcome.faults or outcome.unnamed]
    for outcome in wrong:
        for problem in filter(None, (outcome.refusal, *outcome.faults, *outcome.unnamed)):
            print(f"{outcome.request} -> {outcome.target}: {problem[:200]}")
    return 1 if wrong else 0


def _print_table(outcomes: list[Outcome]) -> None:
    print(
        "| client | wire | requests | providers | refused | against the provider's rules | lost without a name "
        "| warnings | of the form only |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    for client, wire in dict.fromkeys((outcome.request.client, outcome.request.wire) for outcome in outcomes):
        own = [each for each in outcomes if (each.request.client, each.request.wire) == (client, wire)]
        losses = Counter(loss.severity for outcome in own for loss in outcome.losses)
        cells = (
            len({outcome.request.line for outcome in own}),
            len({outcome.target for outcome in own}),
            sum(bool(outcome.refusal) for outcome in own),
            sum(bool(outcome.faults) for outcome in own),
            sum(bool(outcome.unnamed) for outcome in own),
            losses[Severity.WARNING],
            losses[Severity.INFO],
        )
        print(f"| {client} | {wire} | {' | '.join(map(str, cells))} |")


def _print_losses(outcomes: list[Outcome]) -> None:
    found = Counter(
        (outcome.request.client, outcome.target, str(loss.severity), str(loss.kind), loss.reason[:120])
        for outcome in outcomes
        for loss in outcome.losses
    )
    for (client, target, severity, kind, reason), times in sorted(found.items()):
        print(f"{client} -> {target}: {times} x {severity} {kind}: {reason}")
