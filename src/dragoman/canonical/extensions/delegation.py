"""The delegation extension: the chain of subjects that act on each other's behalf.

Source: docs/reference/cmf.md#extensions.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, Field, model_validator

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.fields import Names
from dragoman.canonical.extensions.security import SubjectType
from dragoman.canonical.frozen import FrozenList
from dragoman.canonical.guard import Count, Text

Seconds = Annotated[float, Field(allow_inf_nan=False)]


class DelegationHop(FrozenModel):
    """One step: a subject acts towards ``audience`` with these scopes. ``strategy`` is how its token was obtained."""

    subject_id: Text
    """The subject that acts from here on."""
    subject_type: SubjectType
    """Whether the subject is a user, an agent, a service or the system."""
    audience: Text | None = None
    scopes_granted: Names = Field(default_factory=FrozenList)
    """The scopes that the subject may use in this step."""
    timestamp: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    """When the step was taken, with a time zone."""
    ttl_seconds: Count | None = None
    """How long the token of this step is valid, in seconds; None if that is not known."""
    strategy: Text | None = None
    from_cache: bool = False
    """Whether the token came from a cache and was not requested for this step."""


class DelegationExtension(FrozenModel):
    """A chain that only grows. ``depth`` is its length, the origin its first subject, the actor its last one.

    ``age_seconds`` is the time from the first hop to the last. Fields that are not given are computed from the chain.
    """

    chain: tuple[DelegationHop, ...] = ()
    """The hops in the order in which they were taken."""
    depth: Count = 0
    origin_subject_id: Text | None = None
    """The subject on whose behalf all the others act."""
    actor_subject_id: Text | None = None
    """The subject that acts now."""
    delegated: bool = False
    """Whether somebody acts on behalf of another; True once the chain has a hop."""
    age_seconds: Seconds = 0.0

    @model_validator(mode="after")
    def _fill_from_chain(self) -> Self:
        if self.chain:
            first, last = self.chain[0], self.chain[-1]
            derived = {
                "depth": len(self.chain),
                "origin_subject_id": first.subject_id,
                "actor_subject_id": last.subject_id,
                "delegated": True,
                "age_seconds": (last.timestamp - first.timestamp).total_seconds(),
            }
            self.__dict__.update({name: value for name, value in derived.items() if name not in self.model_fields_set})
        return self

    def with_new_hop(self, hop: DelegationHop) -> "DelegationExtension":
        """Return a new extension with one more hop."""
        origin: dict[str, Any] = {"origin_subject_id": self.origin_subject_id} if self.origin_subject_id else {}
        return DelegationExtension(chain=(*self.chain, hop), **origin)
