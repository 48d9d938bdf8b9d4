"""Answers in a client's own wire: whole replies, streams, errors, ids, and state of other providers."""
