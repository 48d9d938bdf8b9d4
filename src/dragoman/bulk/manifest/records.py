"""The tables of a manifest, and the records of one row and one model in them.

Times are microseconds since 1970, UTC; money is US dollars.
"""

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from hashlib import blake2b
from typing import Literal

import sqlalchemy as sa

from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.sql import MAX_ID, ExactDecimal

VERSION = 1
"""The version of these tables. A newer one is refused. Every key begins with the run, so that one database can hold
many."""

_BUCKETS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens")

metadata = sa.MetaData()

runs = sa.Table(
    "bulk_runs",
    metadata,
    sa.Column("run_no", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("name", sa.String(MAX_ID), nullable=False, unique=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("asked", sa.Text, nullable=False),
    sa.Column("models", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
)
"""``asked`` is the run's configuration; ``models`` is a list, and a model's number is its index."""


def _row_columns() -> tuple[sa.Column[int], ...]:
    names = (("run_no", sa.Integer), ("model_no", sa.Integer), ("row_no", sa.BigInteger))
    return tuple(sa.Column(name, kind, nullable=False, autoincrement=False) for name, kind in names)


answers = sa.Table(
    "bulk_answers",
    metadata,
    *_row_columns(),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("digest", sa.String(16), nullable=False),
    sa.Column("sent_at", sa.BigInteger, nullable=False),
    sa.Column("estimate_usd", ExactDecimal),
    sa.Column("answer", sa.Text),
    sa.Column("alike", sa.String(16)),
    sa.Column("error", sa.Text),
    sa.Column("error_class", sa.String(80)),
    sa.Column("retryable", sa.Boolean),
    sa.Column("cost_usd", ExactDecimal),
    sa.Column("cost_status", sa.String(10)),
    *(sa.Column(name, sa.BigInteger) for name in _BUCKETS),
    sa.Column("ms", sa.BigInteger),
    sa.Column("tries", sa.Integer),
    sa.Column("labels", sa.Text),
    sa.PrimaryKeyConstraint("run_no", "model_no", "row_no", name="bulk_answers_in_order"),
    sa.Index("bulk_answers_by_state", "run_no", "model_no", "state"),
)
"""One row per row and model, written before its request is sent. ``labels`` are the security labels of the row and its
answer, as a list; null if an older version wrote the row."""

lost_requests = sa.Table(
    "bulk_lost",
    metadata,
    *_row_columns(),
    sa.Column("sent_at", sa.BigInteger, nullable=False),
    sa.Column("why", sa.String(10), nullable=False),
    sa.Column("estimate_usd", ExactDecimal),
    sa.PrimaryKeyConstraint("run_no", "model_no", "row_no", "sent_at", name="bulk_lost_in_order"),
)
"""Requests that may have been billed without an answer. Their rows were, or will be, sent again."""

batches = sa.Table(
    "bulk_batches",
    metadata,
    sa.Column("run_no", sa.Integer, nullable=False),
    sa.Column("model_no", sa.Integer, nullable=False),
    sa.Column("batch_no", sa.Integer, nullable=False),
    sa.Column("handle", sa.Text, nullable=False),
    sa.Column("fetched", sa.Boolean, nullable=False),
    sa.PrimaryKeyConstraint("run_no", "model_no", "batch_no", name="bulk_batches_in_order"),
)


LossReason = Literal["killed", "network", "failed"]
"""Why money was, or may have been, spent without an answer: the process ended, the connection failed, or the provider
billed a reply that was an error and was requested again.
"""


class State(StrEnum):
    IN_FLIGHT = "in_flight"
    BATCHED = "batched"
    """It is part of a batch that was submitted to the provider."""
    INVALID = "invalid"
    """It was part of a batch, its answer is not valid, and it is asked again in another one."""
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RowUsage:
    """What the replies for a row used and cost; None is unknown."""

    cost_usd: Decimal | None = None
    cost_status: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    @classmethod
    def of(cls, usage: Usage | None) -> "RowUsage":
        if usage is None:
            return cls(cost_status=CostStatus.UNPRICED.value)
        counts = {name: getattr(usage, name) for name in _BUCKETS}
        return cls(usage.cost_usd, usage.cost_status.value, **counts)

    @property
    def tokens(self) -> int | None:
        known = [count for name in _BUCKETS if (count := getattr(self, name)) is not None]
        return sum(known) if known else None

    @classmethod
    def total(cls, usages: Iterable["RowUsage"]) -> "RowUsage":
        """Return the sum of what is known. Some unknown cost makes it partial."""
        known = [each for each in usages if each.cost_status is not None]
        if len(known) == 1:
            return known[0]
        statuses = {each.cost_status for each in known}
        status = (
            next(iter(statuses)) if len(statuses) == 1 else _PARTIAL if statuses - _EXACT else CostStatus.PRICED.value
        )
        counts: dict[str, int | None] = {}
        for name in _BUCKETS:
            given = [count for each in known if (count := getattr(each, name)) is not None]
            counts[name] = sum(given) if given else None
        return cls(sum_known(*(each.cost_usd for each in known)), status if known else None, **counts)


NOTHING_PAID = RowUsage()


@dataclass(frozen=True, slots=True)
class RowRecord:
    """A row of one model as the manifest has it: from the claim before its request is sent to its outcome."""

    model_no: int
    row_no: int
    digest: str
    """That of its prompt."""
    estimate_usd: Decimal | None
    """The estimated cost of the request; None is unknown."""
    sent_at: int
    paid: RowUsage = NOTHING_PAID
    """What all its replies so far cost."""
    tries: int = 0
    """How many requests have ended."""
    labels: frozenset[str] = frozenset()
    """The security labels of the row, and then of its answer."""
    state: State = State.IN_FLIGHT
    answer: str | None = None
    """The answer. If it is not valid, and asked again, it is the message as JSON, and ``error`` asks again."""
    alike: str | None = None
    """The `answer_key`."""
    error: str | None = None
    error_class: str | None = None
    retryable: bool | None = None
    ms: int | None = None
    """The time of the request that decided the outcome."""

    def answered(self, reply: Message, ms: int | None, tries: int, paid: RowUsage) -> "RowRecord":
        """Return the row with its answer."""
        return replace(
            self,
            state=State.ANSWERED,
            answer=reply.text,
            alike=answer_key(reply.text),
            retryable=False,
            ms=ms,
            tries=tries,
            paid=paid,
            labels=reply.metadata.labels or self.labels,
        )

    def invalid(self, reply: str | None, correction: str | None, tries: int, paid: RowUsage) -> "RowRecord":
        """Return the row with an answer that is not valid, until it is asked again; ``reply`` is it as JSON."""
        return replace(
            self, state=State.INVALID, answer=reply, error=correction, retryable=False, tries=tries, paid=paid
        )

    def failed(
        self, error: DragomanError, ms: int | None, tries: int, usages: Sequence[RowUsage], text: str | None = None
    ) -> "RowRecord":
        """Return the row with its error. ``text`` stands in place of the error's own. ``usages`` are those of replies
        that the row does not get."""
        return replace(
            self,
            state=State.FAILED,
            error=text or str(error) or type(error).__name__,
            error_class=error.error_class if isinstance(error, ProviderError) else type(error).__name__,
            retryable=isinstance(error, ProviderError) and error.retryable,
            ms=ms,
            tries=tries,
            paid=RowUsage.total(usages) if usages else RowUsage.of(None),
        )


@dataclass(frozen=True, slots=True)
class LostRequest:
    """A request that was, or may have been, billed without an answer. ``estimate_usd`` is the row's, or the cost if
    that is known.
    """

    model_no: int
    row_no: int
    sent_at: int
    why: LossReason
    estimate_usd: Decimal | None

    @classmethod
    def of(cls, row: RowRecord, why: LossReason, usd: Decimal | None) -> "LostRequest":
        return cls(row.model_no, row.row_no, row.sent_at, why, usd)


_STRIPPED = string.whitespace + string.punctuation
_EXACT = {CostStatus.PRICED.value, CostStatus.FREE.value}
_PARTIAL = CostStatus.PARTIAL.value


def answer_key(answer: str) -> str:
    """Return a short key. Answers that differ only in case, spaces or surrounding punctuation share it."""
    normalized = " ".join(answer.casefold().split()).strip(_STRIPPED)
    return blake2b(normalized.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def sum_known(*amounts: Decimal | None) -> Decimal | None:
    """Return the sum of the known amounts; None if none is known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if known else None
