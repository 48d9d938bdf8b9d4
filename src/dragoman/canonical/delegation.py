"""On whose behalf something is asked: the chain of delegations (CMF A4.3, DelegationExtension)."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from dragoman.canonical.blocks import Frozen
from dragoman.canonical.extension_fields import Names
from dragoman.canonical.frozen import FrozenList
from dragoman.canonical.guard import Count, Text
from dragoman.canonical.security import SubjectType

Seconds = Annotated[float, Field(allow_inf_nan=False)]


class DelegationHop(Frozen):
    """One step: a subject acts towards ``audience`` with these scopes. ``strategy`` is how its token was obtained."""

    subject_id: Text
    subject_type: SubjectType
    audience: Text | None = None
    scopes_granted: Names = Field(default_factory=FrozenList)
    timestamp: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    ttl_seconds: Count | None = None
    strategy: Text | None = None
    from_cache: bool = False


class DelegationExtension(Frozen):
    """The chain, which only grows. ``depth`` is its length, the origin its first subject, the actor its last one.

    ``age_seconds`` is the time from the first hop to the last.
    """

    chain: tuple[DelegationHop, ...] = ()
    depth: Count = 0
    origin_subject_id: Text | None = None
    actor_subject_id: Text | None = None
    delegated: bool = False
    age_seconds: Seconds = 0.0

    def with_new_hop(self, hop: DelegationHop) -> "DelegationExtension":
        """A new extension with one hop more; this one stays as it is."""
        chain = (*self.chain, hop)
        return DelegationExtension(
            chain=chain,
            depth=len(chain),
            origin_subject_id=self.origin_subject_id or chain[0].subject_id,
            actor_subject_id=hop.subject_id,
            delegated=True,
            age_seconds=(hop.timestamp - chain[0].timestamp).total_seconds(),
        )
