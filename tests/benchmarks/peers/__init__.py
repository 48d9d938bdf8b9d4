"""Dragoman compared with other clients, each in an environment of its own: `python -m tests.benchmarks.peers`."""
