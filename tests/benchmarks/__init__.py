"""Speed, measured: `python -m tests.benchmarks` prints ratios against a peer in the same run.

Times depend on the machine, ratios much less so, and neither is tested: `test_work` counts calls and modules instead.
Rounds are interleaved, medians are shown, and every client's answer is checked before it is timed. CPU time is that of
the client's own process.
"""
