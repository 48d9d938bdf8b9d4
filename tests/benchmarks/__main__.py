"""Prints the table: `python -m tests.benchmarks [import] [first] [call] [delta] [history] [cost] [policy]`."""

import sys

from tests.benchmarks import policy, rows
from tests.benchmarks.timing import Row, mock_provider, print_rows


def main(names: list[str]) -> None:
    wanted = set(names) or {"import", "first", "call", "delta", "history", "cost", "policy"}
    found: list[Row] = []
    if "import" in wanted:
        found += rows.importing()
    with mock_provider() as base_url:
        if "first" in wanted:
            found += rows.first_answer(base_url)
        if "call" in wanted:
            found += rows.one_call(base_url)
        if "delta" in wanted:
            found += rows.one_delta(base_url)
    if "history" in wanted:
        found += rows.long_history()
    if "cost" in wanted:
        found += rows.pricing()
    if "policy" in wanted:
        found += policy.policy()
    print_rows(found)


if __name__ == "__main__":
    main(sys.argv[1:])
