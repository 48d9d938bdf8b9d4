"""A report with figures that never change, for tests of the page and for its pictures."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from dragoman import Loss
from dragoman.answers import LossKind
from dragoman.messages import CostStatus, Usage
from dragoman.store import SessionRecord
from dragoman_gateway.endpoints.dashboard.report import Report, Running, Spend, Stored, failures_of
from dragoman_gateway.keys.amounts import parse_budget
from dragoman_gateway.keys.ledger import Statement
from dragoman_gateway.keys.ledger_entries import Amount
from dragoman_gateway.running.metrics import Metrics, RequestRecord

NOW = datetime(2026, 11, 20, 14, 5, tzinfo=UTC)
MODELS = ("anthropic:claude-sonnet-5-5", "groq:llama-3.3-70b-versatile", "openai:gpt-6.1-mini")
KEYS = {"key_3fq0c2": "laptop", "key_9ab7d1": "nightly-evals"}
_DAYS = 3


def ended(
    model: str, key: str, *, status: int = 200, cents: int = 1, losses: int = 0, seconds: float = 1.0
) -> RequestRecord:
    """Return a request that has ended."""
    record = RequestRecord("messages", "req_0")
    record.asked = model if status in (200, 529) else ""
    record.model, record.key_id, record.status, record.stream = model, key, status, True
    record.started_at -= seconds
    record.error = "OverloadedError" if status == 529 else ""
    record.losses = (Loss(LossKind.OPTION, "", -1, "the wire has no such option"),) * losses
    if status == 200:
        record.first_at = record.started_at + 0.3
        usd = Decimal(cents) / 100
        record.usages = (Usage(input_tokens=1200, output_tokens=90, cost_usd=usd, cost_status=CostStatus.PRICED),)
    return record


def sample_report(name: str = "") -> Report:
    """Return the report. ``name`` is put into everything that a client or an operator can write."""
    counted = [(day, model) for day in range(_DAYS) for model in range(len(MODELS)) for _ in range(4 + 3 * model + day)]
    days = iter([_DAYS, *(day for day, _ in counted)])
    metrics = Metrics(lambda: NOW - timedelta(days=next(days)))
    metrics.since = NOW - timedelta(days=_DAYS)
    keys = tuple(KEYS)
    for number, (_, model) in enumerate(counted):
        status = 529 if number % 17 == 5 else 200
        more = {"cents": 3 - model, "losses": number % 5 == 0, "seconds": 1 + number % 11}
        metrics.end(ended(MODELS[model] + name, keys[number % 2], status=status, **more))
    activity_spend = {
        f"key:{key}": Spend(Decimal(place + 1) * 7, 240_000 * (place + 1), 310, 0) for place, key in enumerate(keys)
    }
    sessions = [
        SessionRecord(
            id=f"ses_{number}{name}", model=MODELS[number % 3] + name, title=name or None, user_id=f"ann{name}",
            team_id="research", created_at=NOW, updated_at=NOW - timedelta(minutes=7 * number),
        )
        for number in range(6)
    ]  # fmt: skip
    return Report(
        now=NOW,
        since=metrics.since,
        days=7,
        total=metrics.total(),
        by_model=metrics.by("model"),
        by_key=metrics.by("key_id"),
        by_day=metrics.by("day"),
        running=[
            Running(f"req_01J{name}", keys[0], "messages", MODELS[0] + name, 12.4, True),
            Running("req_01K", keys[1], "chat", MODELS[2], 0.6, False),
        ],
        dropped={},
        workers={"4101": "9f2c41d07ab3", "4102": "9f2c41d07ab3"},
        spent={**activity_spend, f"team:research{name}": Spend(Decimal(21), 720_000, 620)},
        failures=failures_of(metrics),
        spent_by_day={f"2026-11-{day}": Spend(Decimal(day - 13), 90_000, 80) for day in range(18, 21)},
        budgets={
            f"key:{keys[0]}": Statement(
                Amount(Decimal(7), 240_000),
                Amount(Decimal("0.84"), 18_000),
                (
                    (parse_budget("20/month"), Amount(Decimal(7), 240_000, Decimal("0.31")), None),
                    (parse_budget("1000000 tokens/day"), Amount(Decimal(2), 71_000), None),
                ),
            ),
            f"team:research{name}": Statement(
                Amount(Decimal(21), 720_000),
                Amount(),
                ((parse_budget("50/month"), Amount(Decimal(21), 720_000), None),),
            ),
        },
        key_names={key: f"{known}{name}" for key, known in KEYS.items()},
        stored=Stored(
            {MODELS[0] + name: Spend(Decimal("17.25"), 610_000, 390), MODELS[1]: Spend(Decimal("0.75"), 42_000, 130),
             MODELS[2]: Spend(Decimal(3), 68_000, 100, 4)},
            {f"2026-11-{day}": Spend(Decimal(day - 11), 90_000 * (day - 12), 80) for day in range(14, 21)},
            sessions=sessions,
        ),
    )  # fmt: skip
