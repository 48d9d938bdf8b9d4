"""Compaction: a summary in place of the older part of a history."""
