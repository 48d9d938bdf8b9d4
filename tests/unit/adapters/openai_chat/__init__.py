"""The adapter for Chat Completions, and the dialects that it can be configured for."""
