"""What leaves the process, written down as data: names, one a line, and a digest over all recorded exchanges.

`python -m tests.museum.frozen` writes the names, `python -m tests.museum.frozen.recordings` compares the digests.
"""
