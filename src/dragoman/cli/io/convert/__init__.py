"""Conversations between files: what `dragoman convert` reads and writes."""
