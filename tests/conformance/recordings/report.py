"""The adapters over all recordings: ``python -m tests.conformance.recordings.report [provider ...] [--show N]``."""

import argparse
from collections import Counter
from collections.abc import Sequence

from tests.conformance.adapters import missing_adapter
from tests.conformance.outcomes import Aspect, Outcome
from tests.conformance.recordings.compare import ProviderOutcomes, compare_provider
from tests.conformance.recordings.known_differences import explanation
from tests.conformance.scope import ADAPTERS


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one table per provider, then each difference with the exchange's id and the reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.recordings.report", description=__doc__)
    parser.add_argument("provider", nargs="*", help=f"recorded providers: {', '.join(ADAPTERS)}")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="examples of each difference (default 5)")
    options = parser.parse_args(arguments)
    for provider in options.provider or ADAPTERS:
        if missing := missing_adapter(provider):
            print(f"\n{provider}: {missing}")
        else:
            show(compare_provider(provider), options.show)


def show(verdict: ProviderOutcomes, examples: int) -> None:
    print(f"\n{verdict.provider} by the adapter {ADAPTERS[verdict.provider]!r}")
    print(f"  {'':10}{'count':>7}{'equal':>7}{'differ':>7}{'equal':>9}  apart: suspect and fixture")
    for aspect in Aspect:
        every = [outcome for outcome in verdict.outcomes if outcome.aspect is aspect]
        genuine = [outcome for outcome in every if outcome.exchange.is_genuine]
        apart = [outcome for outcome in every if not outcome.exchange.is_genuine]
        if not every:
            continue
        equal, equal_apart = _equal(genuine), _equal(apart)
        share = f"{equal / len(genuine):8.2%}" if genuine else ""
        counts = f"{len(genuine):>7}{equal:>7}{len(genuine) - equal:>7}"
        print(f"  {aspect:10}{counts} {share}  {equal_apart} of {len(apart)} equal")
    for reason, count in verdict.skipped.most_common():
        print(f"  out of scope: {count} {reason}")
    normalised = Counter(name for outcome in verdict.outcomes for name in outcome.normalised)
    for name, count in normalised.most_common():
        print(f"  normalised in {count} requests: {name}")
    _differences(verdict.outcomes, examples)


def _equal(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.equal for outcome in outcomes)


def _differences(outcomes: Sequence[Outcome], examples: int) -> None:
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for outcome in outcomes:
        for difference in outcome.differences:
            why = explanation(outcome, difference) or ""
            apart = "" if outcome.exchange.is_genuine else f" ({outcome.exchange.provenance})"
            line = f"{outcome.exchange.id}{apart} {difference.detail}"
            grouped.setdefault((outcome.aspect, difference.what, why), []).append(line)
    for (aspect, what, why), found in sorted(grouped.items(), key=lambda item: (item[0][0], -len(item[1]))):
        print(f"  {aspect}: {what} x{len(found)}" + (f" [explained: {why}]" if why else " [UNEXPLAINED]"))
        for line in found[:examples]:
            print(f"      {line}")


if __name__ == "__main__":
    main()
