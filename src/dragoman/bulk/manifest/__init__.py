"""The manifest of a run: its tables and records, how they are read, and how writes are grouped."""
