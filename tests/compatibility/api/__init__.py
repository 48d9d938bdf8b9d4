"""The names and signatures that outside code may rely on, kept for each version: one line per name.

`python -m tests.compatibility.api` writes this version's list; `--since 0.1.0` and `--against REF` show what changed.
"""
