"""Tracks whether a server that replicas share answers: all its users share the state, and each change is logged."""

import time

from dragoman_gateway.log import logger


class Outage:
    """``server`` is how the log names it, and ``consequence`` what follows while it is away. It is not asked again for
    ``pause`` seconds after a failure, so that one that is frozen does not hold up each request in turn."""

    def __init__(self, server: str, consequence: str, *, pause: float = 1.0) -> None:
        self._server = server
        self._consequence = consequence
        self.pause = pause
        self.retry_at = 0.0
        self._since: float | None = None
        self._answered_at: float | None = None

    @property
    def may_ask(self) -> bool:
        """Whether the server answered last time, or the pause after a failure is over."""
        return time.monotonic() >= self.retry_at

    @property
    def is_away(self) -> bool:
        """Whether the server did not answer the last time."""
        return self._since is not None

    def was_away(self, seconds: float) -> bool:
        """Whether the server did not answer at some moment of the last seconds."""
        return self.is_away or (self._answered_at is not None and time.monotonic() - self._answered_at < seconds)

    def fail(self, reason: object) -> None:
        """Note that the server did not answer. What fails unasked during the pause does not prolong it."""
        if self.may_ask:
            self.retry_at = time.monotonic() + self.pause
        if self._since is None:
            self._since = time.monotonic()
            logger.error("%s does not answer: %s (%s)", self._server, self._consequence, reason)

    def answer(self) -> None:
        """Note that the server answered."""
        if self._since is not None:
            self._answered_at = time.monotonic()
            logger.warning("%s answers again, after %.1f s", self._server, self._answered_at - self._since)
            self._since = None
