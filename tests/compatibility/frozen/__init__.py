"""What leaves the process, written down as data: names, one a line, and a digest over all recorded exchanges.

`python -m tests.compatibility.frozen` writes the names, `python -m tests.compatibility.frozen.recordings` compares
the digests.
"""
