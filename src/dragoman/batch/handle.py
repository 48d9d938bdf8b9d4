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
    """The hook at which the plugin ran."""
    plugin: str
    """The name of the plugin."""
    code: str
    """The plugin's word for programs."""
    reason: str
    """The plugin's sentence for people."""
    description: str = ""
    """More for people; empty without."""

    @classmethod
    def of(cls, error: PolicyDeniedError) -> Self:
        """Keep the fields of an error, so that a handle can be stored."""
        return cls(**{name: str(getattr(error, name)) for name in cls.model_fields})

    def to_error(self) -> PolicyDeniedError:
        """Return the error again, for the answer of the request."""
        return PolicyDeniedError(self.hook, self.plugin, self.code, self.reason, self.description)


class BatchEntry(FrozenModel):
    """One request. ``wire_id`` is its id at the provider; the other fields say how to read its answer."""

    custom_id: str
    """The caller's id of the request, unique in a batch."""
    wire_id: str
    session_id: str
    """The session that the answer belongs to; with a store, a new one for each request."""
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
    """The requests, in the order in which they were given."""
    plugins: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The plugins of the policy under which it was submitted. Its answers are given out under these only."""

    @property
    def provider(self) -> str:
        """The name of the provider."""
        return self.model.partition(":")[0]

    @property
    def custom_ids(self) -> tuple[str, ...]:
        """The callers' ids of all requests, in order."""
        return tuple(entry.custom_id for entry in self.entries)

    @property
    def request_count(self) -> int:
        """The number of requests, denied ones included."""
        return len(self.entries)

    @property
    def submitted_at(self) -> datetime:
        """When the batch was submitted, in UTC."""
        return datetime.fromtimestamp(self.submitted_at_ms / 1000, UTC)
