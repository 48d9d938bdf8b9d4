"""The report of a run: cost, time, errors and agreement per model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from dragoman.bulk.manifest.manifest import Manifest
from dragoman.bulk.manifest.records import State, answers, lost_requests, sum_known
from dragoman.bulk.output import AnswerColumns, join_rows
from dragoman.bulk.rows import Row, Source

_TITLES = ("model", "answers", "errors", "cost", "tokens in", "tokens out", "seconds", "slow", "agrees")


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """One model. Money is US dollars, tokens are of all answers; None is unknown. ``unpriced`` answers have no known
    cost, or only part of it. ``median_seconds`` and ``p95_seconds`` are times of an answer. ``agreement`` is the share
    of answers that equal another model's, of all that can be compared.
    """

    model: str
    """The model, as ``provider:name``."""
    answered: int
    """The rows that have an answer."""
    errors: int
    """The rows that ended with an error."""
    cost_usd: Decimal | None
    """The known cost of its answers and errors."""
    unpriced: int
    input_tokens: int
    """Tokens of the prompts, cached ones included."""
    output_tokens: int
    """Tokens of the replies."""
    median_seconds: float | None
    p95_seconds: float | None
    agreement: float | None


@dataclass(frozen=True, slots=True)
class LostRequests:
    """Requests that may have been billed without an answer, by reason. ``usd`` is an estimate, or the known cost if the
    provider billed a reply that was an error.
    """

    killed: int = 0
    """Requests in flight when a process was killed."""
    network: int = 0
    """Requests whose connection broke after they were sent."""
    failed: int = 0
    """Requests that the provider billed and answered with an error."""
    usd: Decimal | None = None


@dataclass(eq=False)
class BulkReport:
    """The result of a run. ``stopped`` says why rows are left, or None if none are. Iterating reads the rows from the
    manifest; `close` it, or use it as a context manager.
    """

    row_count: int
    """The number of rows of the source."""
    models: tuple[ModelSummary, ...]
    """One summary for each model, in the order in which they were given."""
    lost: LostRequests
    """The requests that may have been billed without an answer."""
    agreement: Mapping[tuple[str, str], float | None]
    """The share of equal answers for each pair of models; None if nothing can be compared."""
    stopped: str | None
    cost_usd: Decimal | None
    """The known cost of all answers and errors."""
    resumed: int
    """The answers and errors that earlier calls had left in the manifest, of all models."""
    _manifest: Manifest = field(repr=False)
    _source: Source = field(repr=False)
    _models: Mapping[str, int] = field(repr=False)
    _columns: AnswerColumns = field(repr=False, default_factory=AnswerColumns)

    @property
    def finished(self) -> bool:
        """Whether every row has an outcome: an answer or an error."""
        return all(line.answered + line.errors == self.row_count for line in self.models)

    @property
    def errors(self) -> int:
        """The number of rows and models that ended with an error."""
        return sum(line.errors for line in self.models)

    def __iter__(self) -> Iterator[Row]:
        """Return the rows with their answers, in order, with the columns of the output file."""
        return join_rows(self._source, self._manifest, self._models, self._columns)

    def table_rows(self) -> list[tuple[str, ...]]:
        """Return one row of text per model, after a row of titles."""
        rows: list[tuple[str, ...]] = [_TITLES]
        for line in self.models:
            cost = "unknown" if line.cost_usd is None else f"${line.cost_usd:.6f}" + ("+" if line.unpriced else "")
            rows.append(
                (
                    line.model,
                    f"{line.answered:,}",
                    f"{line.errors:,}",
                    cost if line.answered or line.errors else "",
                    f"{line.input_tokens:,}",
                    f"{line.output_tokens:,}",
                    "" if line.median_seconds is None else f"{line.median_seconds:.1f}",
                    "" if line.p95_seconds is None else f"{line.p95_seconds:.1f}",
                    "" if line.agreement is None else f"{line.agreement:.0%}",
                )
            )
        return rows

    def __str__(self) -> str:
        """Return the models as a text table."""
        cells = self.table_rows()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for name, *figures in cells:
            aligned = (f"  {cell:>{width}}" for cell, width in zip(figures, widths[1:], strict=True))
            lines.append(f"{name:<{widths[0]}}" + "".join(aligned).rstrip())
        return "\n".join(lines)

    def close(self) -> None:
        """Close the manifest. The rows cannot be read after it."""
        self._manifest.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def summarize(
    manifest: Manifest, models: Mapping[str, int]
) -> tuple[tuple[ModelSummary, ...], dict[tuple[str, str], float | None]]:
    """Return the summary of each model, and the share of equal answers for each pair of models."""
    pairs = {pair: _count_agreement(manifest, *map(models.__getitem__, pair)) for pair in combinations(models, 2)}
    lines = []
    for model, number in models.items():
        counts, _ = count_outcomes(manifest, model, number)
        model_pairs = [found for pair, found in pairs.items() if model in pair]
        lines.append(
            replace(
                counts,
                median_seconds=_seconds(manifest, number, counts.answered, 0.5),
                p95_seconds=_seconds(manifest, number, counts.answered, 0.95),
                agreement=_ratio(sum(same for same, _ in model_pairs), sum(both for _, both in model_pairs)),
            )
        )
    return tuple(lines), {pair: _ratio(*found) for pair, found in pairs.items()}


def count_outcomes(manifest: Manifest, model: str, model_no: int) -> tuple[ModelSummary, int]:
    """Return the counts of one model, without times and agreement, and how many outcomes its cost covers."""
    c = answers.c
    input_total = c.input_tokens + c.cached_input_tokens + c.cache_creation_input_tokens
    # Grouped by cost, because SQLite cannot add decimals exactly.
    sums = (sa.func.count(), sa.func.sum(input_total), sa.func.sum(c.output_tokens))
    query = sa.select(c.state, c.cost_status, c.cost_usd, *sums).where(manifest.of_model(model_no))
    grouped = query.group_by(c.state, c.cost_status, c.cost_usd)
    counts = {State.ANSWERED: 0, State.FAILED: 0}
    priced = unpriced = tokens_in = tokens_out = 0
    costs: list[Decimal] = []
    for state, status, cost, count, input_sum, output_sum in manifest.read(grouped):
        if state not in counts:
            continue
        counts[State(state)] += count
        unpriced += count if state == State.ANSWERED and status not in ("priced", "free") else 0
        if cost is not None:
            priced += count
            costs.append(cost * count)
        tokens_in += int(input_sum or 0)
        tokens_out += int(output_sum or 0)
    answered, errors, usd = counts[State.ANSWERED], counts[State.FAILED], sum_known(*costs)
    summary = ModelSummary(model, answered, errors, usd, unpriced, tokens_in, tokens_out, None, None, None)
    return summary, priced


def sum_batched(manifest: Manifest, model_no: int) -> Decimal | None:
    """Return the estimated cost of a model's rows in batches, with that of their answers which are not valid."""
    c = answers.c
    unfinished = c.state.in_((State.BATCHED.value, State.INVALID.value))
    query = sa.select(c.state, c.cost_usd, c.estimate_usd).where(manifest.of_model(model_no), unfinished)
    rows = manifest.read(query)
    return sum_known(*(row.cost_usd for row in rows), *(row.estimate_usd for row in rows if row.state == State.BATCHED))


def _seconds(manifest: Manifest, model_no: int, count: int, share: float) -> float | None:
    condition = sa.and_(manifest.of_model(model_no), answers.c.state == State.ANSWERED.value, answers.c.ms.is_not(None))
    offset = min(int(count * share), max(count - 1, 0))
    rows = manifest.read(sa.select(answers.c.ms).where(condition).order_by(answers.c.ms).offset(offset).limit(1))
    return rows[0].ms / 1000 if rows else None


def _count_agreement(manifest: Manifest, one: int, other: int) -> tuple[int, int]:
    """Return the number of rows on which two models agree, and of those that both have answered."""
    left, right = answers.alias("mine"), answers.alias("its")
    both = sa.and_(
        left.c.run_no == manifest.run_no,
        right.c.run_no == manifest.run_no,
        left.c.model_no == one,
        right.c.model_no == other,
        left.c.row_no == right.c.row_no,
        left.c.state == State.ANSWERED.value,
        right.c.state == State.ANSWERED.value,
    )
    query = sa.select(sa.func.count(), sa.func.count().filter(left.c.alike == right.c.alike)).where(both)
    ((rows, same),) = manifest.read(query)
    return same, rows


def sum_lost(manifest: Manifest) -> LostRequests:
    c = lost_requests.c
    query = (
        sa.select(c.why, c.estimate_usd, sa.func.count())
        .where(c.run_no == manifest.run_no)
        .group_by(c.why, c.estimate_usd)
    )
    counts: dict[str, int] = {}
    costs: list[Decimal] = []
    for why, usd, count in manifest.read(query):
        counts[why] = counts.get(why, 0) + count
        if usd is not None:
            costs.append(usd * count)
    return LostRequests(**counts, usd=sum_known(*costs))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
