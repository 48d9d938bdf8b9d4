"""Prints what does not come back: `python -m tests.conformance.unions [provider ...]`."""

import sys
from collections import Counter

from tests.conformance.unions.return_trip import EXCEPTIONS, outcomes
from tests.conformance.unions.wires import UNIONS


def main(providers: list[str]) -> int:
    lost = 0
    for provider in providers or UNIONS:
        if not UNIONS[provider].is_installed:
            print(f"{provider}: {UNIONS[provider].package} is not installed")
            continue
        found = list(outcomes(provider))
        failed: Counter[tuple[str, str]] = Counter((each.member.key, each.problem) for each in found if each.problem)
        reasons = EXCEPTIONS.get(provider, {})
        unexplained = {key for key, _ in failed} - reasons.keys()
        lost += len(unexplained)
        names = {each.member.key for each in found}
        print(
            f"{provider}: {len(names)} members in {len(found)} values, {len(reasons)} exceptions,"
            f" {len(unexplained)} lost"
        )
        for (key, problem), times in sorted(failed.items()):
            print(f"  {key} ({times}): {reasons.get(key) or f'NO REASON: {problem}'}")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
