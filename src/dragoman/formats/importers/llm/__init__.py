"""The SQLite log of simonw/llm, and its JSON."""
