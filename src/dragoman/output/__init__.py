"""Typed answers: a Python type as a schema, the check of an answer, and partial values while it streams."""
