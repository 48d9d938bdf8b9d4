"""A clock that moves only when somebody sleeps."""

from dragoman.transport import Timing


class Clock:
    """In seconds; `sleep` moves it at once."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)

    @property
    def timing(self) -> Timing:
        return Timing(clock=self, sleep=self.sleep, sleep_async=self.sleep_async)
