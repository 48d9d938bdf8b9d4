"""What leaves the process, kept as data: names, one per line, and a digest over all recorded exchanges.

`python -m tests.compatibility.frozen` writes the names, `python -m tests.compatibility.frozen.recordings` compares the
digests.
"""
