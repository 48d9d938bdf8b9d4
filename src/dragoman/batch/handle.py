"""The handle of a submitted batch: all that a later process needs to fetch it."""

from datetime import UTC, datetime
from typing import Literal, Self

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.policy.errors import PolicyDeniedError

NOT_SUBMITTED = ""
"""The id of a batch that was not submitted, because each of its requests was denied."""


class BatchDenial(FrozenModel):
    """Why the client's policy denied a request; the fields are those of a PolicyDeniedError."""

    hook: str
    plugin: str
    code: str
    reason: str
    description: str = ""

    @classmethod
    def of(cls, error: PolicyDeniedError) -> Self:
        return cls(**{name: str(getattr(error, name)) for name in cls.model_fields})

    def to_error(self) -> PolicyDeniedError:
        return PolicyDeniedError(self.hook, self.plugin, self.code, self.reason, self.description)


class BatchEntry(FrozenModel):
    """One request. ``wire_id`` is its id at the provider; the other fields say how to read its answer."""

    custom_id: str
    wire_id: str
    session_id: str
    tool_names: dict[str, str] = Field(default_factory=dict)
    """Maps the names that the provider was given to the tools' own names, if they differ."""
    answers_by_tool: bool = False
    """Whether the answer arrives as the input of a tool."""
    labels: tuple[str, ...] = ()
    """The security labels of the prompt, for the policy that judges the answer."""
    denial: BatchDenial | None = None
    """Why the request was not sent; None if it was."""
    turn_id: str | None = None
    """The id of its turn in the events of the client."""


class BatchHandle(FrozenModel):
    """Serialize with ``model_dump_json``, read with ``model_validate_json``. It holds no key and no prompt."""

    version: Literal[1] = 1
    model: str
    """provider:model"""
    batch_id: str
    """The provider's id, or `NOT_SUBMITTED`."""
    submitted_at_ms: int
    """Milliseconds since 1970, UTC. Answers carry this time and its prices, whenever they are fetched."""
    entries: tuple[BatchEntry, ...]
    plugins: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The plugins of the policy under which it was submitted. Its answers are given out under these only."""

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
