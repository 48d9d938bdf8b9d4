"""Speed, measured: `python -m tests.benchmarks` prints ratios against a peer in the same run.

Nothing here is a test: times depend on the machine, ratios much less so. Rounds are interleaved, medians are shown,
and every client's answer is checked before it is timed. CPU is that of the client's own process.
"""
