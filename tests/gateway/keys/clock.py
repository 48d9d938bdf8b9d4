"""A clock that moves only when a test moves it."""

from datetime import UTC, datetime, timedelta


class Clock:
    """``now()`` is a time of day, and ``seconds()`` counts."""

    def __init__(self, now: datetime = datetime(2026, 11, 22, 12, tzinfo=UTC)) -> None:
        self.at = now
        self.elapsed = 1_000.0

    def now(self) -> datetime:
        return self.at

    def seconds(self) -> float:
        return self.elapsed

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.elapsed += seconds
