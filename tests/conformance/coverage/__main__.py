"""Prints the matrix: `python -m tests.conformance.coverage [provider ...]`."""

import sys
from collections import Counter

from tests.conformance.coverage.probe import Way, coverage
from tests.conformance.coverage.reasons import REASONS
from tests.conformance.coverage.sdk import VOCABULARIES


def main(providers: list[str]) -> None:
    for provider in providers or VOCABULARIES:
        rows = list(coverage(provider, VOCABULARIES[provider]()))
        ways: Counter[Way] = Counter(way for *_, way in rows)
        print(f"\n{provider}: {ways['typed']} typed, {ways['extra']} extra, {ways['absent']} absent of {len(rows)}")
        for group in ("parameter", "part", "tool"):
            for wanted in ("typed", "extra", "absent"):
                names = [name for kind, name, way in rows if (kind, way) == (group, wanted)]
                if wanted == "absent":
                    names = [f"{name} ({REASONS.get(provider, {}).get(name, 'no reason')})" for name in names]
                if names:
                    print(f"  {group}, {wanted}: {', '.join(names)}")


if __name__ == "__main__":
    main(sys.argv[1:])
