"""The handle of a submitted batch: all that a later process needs to fetch it."""

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel


class BatchEntry(FrozenModel):
    """One request. ``wire_id`` is its id at the provider; the other fields say how to read its answer."""

    custom_id: str
    wire_id: str
    session_id: str
    tool_names: dict[str, str] = Field(default_factory=dict)
    """Maps the names that the provider was given to the tools' own names, if they differ."""
    answers_by_tool: bool = False
    """Whether the answer arrives as the input of a tool."""


class BatchHandle(FrozenModel):
    """Serialize with ``model_dump_json``, read with ``model_validate_json``. It holds no key and no prompt."""

    version: Literal[1] = 1
    model: str
    """provider:model"""
    batch_id: str
    submitted_at_ms: int
    """Milliseconds since 1970, UTC. Answers carry this time and its prices, whenever they are fetched."""
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
