"""The stored records of virtual keys, and of the allowances of users and teams."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dragoman.errors import ConfigurationError
from dragoman_gateway.keys.amounts import Concurrency, KeyLimit, PeriodBudget
from dragoman_gateway.wires.forwarded import forwarded_kinds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}")
_MAX_PATTERN = 256

ENDPOINTS = ("chat", "responses", "messages", "google", "ollama", "embeddings", *forwarded_kinds())
"""The endpoints that a key may be allowed: the wires, each with all its addresses, the embeddings of all wires, and the
kinds of addresses that can be forwarded."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a key, a user or a team may spend, how fast, and with how many requests at the same time."""

    budgets: tuple[PeriodBudget, ...] = ()
    limits: tuple[KeyLimit, ...] = ()
    concurrency: Concurrency | None = None

    def describe_limits(self) -> list[str]:
        """Return all limits but the budgets, as people write them."""
        return list(map(str, (*self.limits, *(() if self.concurrency is None else (self.concurrency,)))))

    def to_json(self) -> dict[str, Any]:
        fields = {
            "budgets": [budget.to_json() for budget in self.budgets],
            "limits": [limit.to_json() for limit in self.limits],
            "concurrency": None if self.concurrency is None else self.concurrency.to_json(),
        }
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Allowance":
        return cls(
            tuple(map(PeriodBudget.from_json, fields.get("budgets", ()))),
            tuple(map(KeyLimit.from_json, fields.get("limits", ()))),
            Concurrency.from_json(fields["concurrency"]) if "concurrency" in fields else None,
        )


NO_ALLOWANCE = Allowance()


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualKey:
    """``models`` are globs over ``provider:model`` and the names that clients use; no glob allows all models. ``roles``
    and ``permissions`` are those of the subject that plugins see. ``endpoints`` are some of `ENDPOINTS`; none allows
    all. An ``admin`` key can see what others spent, and cannot call models.

    The digests are those of its secret, and of the secret before the last rotation, which works until ``old_until``.
    """

    id: str
    digest: str = field(repr=False)
    old_digest: str | None = field(default=None, repr=False)
    old_until: datetime | None = None
    name: str | None = None
    user: str | None = None
    team: str | None = None
    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    allowance: Allowance = NO_ALLOWANCE
    admin: bool = False
    created_at: datetime = _EPOCH
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_active(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def check(self) -> None:
        """Raise ConfigurationError for a name, a pattern or an endpoint that no key can have."""
        for kind, name in (("key", self.name), ("user", self.user), ("team", self.team)):
            if name is not None:
                check_name(kind, name)
        if not all(0 < len(pattern) <= _MAX_PATTERN for pattern in self.models):
            raise ConfigurationError(
                f"a pattern of models must have 1 to {_MAX_PATTERN} characters, such as anthropic:*"
            )
        for endpoint in self.endpoints:
            if endpoint not in ENDPOINTS:
                raise ConfigurationError(
                    f"the endpoints of a key must be some of {', '.join(ENDPOINTS)}, not {endpoint!r:.40}"
                )

    def to_row(self) -> dict[str, Any]:
        others: dict[str, Any] = {  # those that have no column of their own
            "roles": self.roles,
            "permissions": self.permissions,
            "models": self.models,
            "endpoints": self.endpoints,
            **self.allowance.to_json(),
            "admin": self.admin,
        }
        return {
            "id": self.id,
            "name": self.name,
            "digest": self.digest,
            "old_digest": self.old_digest,
            "old_until": to_microseconds(self.old_until),
            "user_id": self.user,
            "team_id": self.team,
            "fields_json": json.dumps({name: value for name, value in others.items() if value}, sort_keys=True),
            "created_at": to_microseconds(self.created_at),
            "expires_at": to_microseconds(self.expires_at),
            "revoked_at": to_microseconds(self.revoked_at),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "VirtualKey":
        fields = json.loads(row["fields_json"])
        created_at = from_microseconds(row["created_at"])
        assert created_at is not None
        return cls(
            id=row["id"],
            digest=row["digest"],
            old_digest=row["old_digest"],
            old_until=from_microseconds(row["old_until"]),
            name=row["name"],
            user=row["user_id"],
            team=row["team_id"],
            roles=tuple(fields.get("roles", ())),
            permissions=tuple(fields.get("permissions", ())),
            models=tuple(fields.get("models", ())),
            endpoints=tuple(fields.get("endpoints", ())),
            allowance=Allowance.from_json(fields),
            admin=bool(fields.get("admin")),
            created_at=created_at,
            expires_at=from_microseconds(row["expires_at"]),
            revoked_at=from_microseconds(row["revoked_at"]),
        )


def check_name(kind: str, name: str) -> None:
    """Raise ConfigurationError for the name of a key, a user or a team that has characters that a scope cannot have,
    and for the address of a user or a team."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"the name of a {kind} must have 1 to 100 letters, digits and any of _ . @ + -, not {name!r:.60}"
        )
    if "@" in name and kind != "key":
        raise ConfigurationError(
            f"{name!r} is an address, which every message would carry: name the {kind} by an id that identifies nobody"
        )


def to_microseconds(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(at: int | None) -> datetime | None:
    return None if at is None else _EPOCH + timedelta(microseconds=at)
