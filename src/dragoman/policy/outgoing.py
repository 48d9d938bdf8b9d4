"""A request where it leaves, as the decision sees it (`dragoman.attempt.decision`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """A request as it would leave. ``labels`` are those of all its content."""

    adapter: Adapter
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    options: AdapterOptions
    labels: frozenset[str]
