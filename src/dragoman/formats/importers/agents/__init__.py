"""Conversations of agents: their logs, their messages to each other, and their traces."""

from dragoman.formats.importers.agents.a2a import from_a2a
from dragoman.formats.importers.agents.chatgpt import from_chatgpt
from dragoman.formats.importers.agents.claude_code import from_claude_code
from dragoman.formats.importers.agents.codex import from_codex
from dragoman.formats.importers.agents.openinference import from_openinference
from dragoman.formats.importers.agents.otel import from_otel

__all__ = ["from_a2a", "from_chatgpt", "from_claude_code", "from_codex", "from_openinference", "from_otel"]
