"""What outside code may rely on, written down for each version: one line a name, with its signature.

`python -m tests.compatibility.api` writes this version's list; `--since 0.1.0` and `--against REF` tell what changed.
"""
