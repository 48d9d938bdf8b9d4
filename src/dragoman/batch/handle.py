"""What is kept of a batch that was handed in: enough for any later process to fetch it."""

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel


class BatchEntry(FrozenModel):
    """One request. ``wire_id`` is its id at the provider; the others say how its answer is to be read."""

    custom_id: str
    wire_id: str
    session_id: str
    tool_names: dict[str, str] = Field(default_factory=dict)
    """The tools' own names, by those that they were offered under, where that is not the same."""
    answers_by_tool: bool = False
    """Whether the answer comes as the input of a tool."""


class BatchHandle(FrozenModel):
    """JSON by ``model_dump_json`` and back by ``model_validate_json``. It holds no key, and nothing that was said."""

    version: Literal[1] = 1
    model: str
    """provider:model"""
    batch_id: str
    submitted_at_ms: int
    """Milliseconds since 1970, UTC. Answers bear this time and are priced at it, whenever they are fetched."""
    entries: tuple[BatchEntry, ...]

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]

    @property
    def custom_ids(self) -> tuple[str, ...]:
        return tuple(entry.custom_id for entry in self.entries)

    @property
    def request_count(self) -> int:
        return len(self.entries)

    @property
    def submitted_at(self) -> datetime:
        return datetime.fromtimestamp(self.submitted_at_ms / 1000, UTC)
