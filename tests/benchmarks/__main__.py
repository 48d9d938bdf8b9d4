"""Prints the table: `python -m tests.benchmarks [import] [first] [call] [delta] [history] [cost] [policy]`."""

import sys

from tests.benchmarks import policy, rows
from tests.benchmarks.timing import Row, mock_provider


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
    print("| what | peer, us of CPU | ours, us of CPU | ratio | goal |")
    print("| --- | --- | --- | --- | --- |")
    for row in found:
        peer = f"{row.peer} {row.peer_us:,.1f}"
        print(f"| {row.what} | {peer} | {row.ours_us:,.1f} | {row.ratio:.2f}x | {row.goal} |")


if __name__ == "__main__":
    main(sys.argv[1:])
