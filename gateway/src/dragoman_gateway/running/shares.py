"""Limits what each caller has under way in this process, so that one key or address leaves room for the others."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.types import Scope

from dragoman.errors import LimitReachedError
from dragoman_gateway.access import Caller
from dragoman_gateway.errors import UnavailableError
from dragoman_gateway.settings import GatewaySettings

Result = TypeVar("Result")

_LARGE = 256 * 1024
"""Bytes of a body. Work on a smaller one takes less time than two changes of the thread are worth."""
_SMALL = 16 * 1024
"""Bytes of a body that are not counted, and that no work is delayed for: the number of requests bounds them."""
_THREADS = 2
_REST = 4
"""How many times as long as its work a caller waits for the next one while others ask."""
_AGAIN = 1
"""Seconds until there may be room. It is not known when a request ends."""


@dataclass(slots=True)
class _Held:
    """What the requests of one caller, or of all, hold."""

    requests: int = 0
    bytes: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a thread works on a body."""


class Shares:
    """Counts requests and the bytes of their bodies, and processes large bodies outside the event loop: one of each
    caller at a time."""

    def __init__(self) -> None:
        self._all = _Held()
        self._callers: dict[str, _Held] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="gateway-body")

    def enter(self, caller: str, settings: GatewaySettings) -> "Share":
        """Begin a request of a caller. Raises UnavailableError if the process has no room, and LimitReachedError if the
        caller has no more of it."""
        held = self._callers.get(caller) or _Held()
        if self._all.requests >= settings.max_requests:
            raise UnavailableError("the gateway is answering as many requests as it may: try again", retry_after=_AGAIN)
        if held.requests >= max(1, int(settings.max_requests * settings.share)):
            raise _refuse_share(f"as many requests under way as it may ({held.requests}): try again when one has ended")
        self._callers[caller] = held
        self._all.requests += 1
        held.requests += 1
        return Share(self, caller, held, settings)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class Share:
    """What one request holds, until `close`."""

    _shares: Shares
    _caller: str
    _held: _Held
    settings: GatewaySettings
    _size: int = 0
    _left: bool = False

    def hold(self, size: int) -> None:
        """Count the bytes of the body: so many in all. Raises as `Shares.enter` does."""
        more, settings = max(0, size - _SMALL) - self._size, self.settings
        if more > 0:
            if self._shares._all.bytes + more > settings.max_bodies:
                raise UnavailableError("the gateway is holding as many bodies as it may: try again", retry_after=_AGAIN)
            if self._held.bytes and self._held.bytes + more > settings.max_bodies * settings.share:
                raise _refuse_share(
                    f"bodies of {self._held.bytes} bytes under way, and no room for this one: try again later"
                )
        self._size += more
        self._held.bytes += more
        self._shares._all.bytes += more

    async def work(self, size: int, function: Callable[[], Result]) -> Result:
        """Return what a function makes of a body of that size, in another thread if it is large. While others ask, the
        work for one caller takes a fifth of the time at most, because parsers do not release the interpreter lock."""
        if size <= _SMALL:
            return function()
        loop, turn = asyncio.get_running_loop(), self._held.turn
        await turn.acquire()
        began = loop.time()
        try:
            if size <= _LARGE:
                return function()
            return await loop.run_in_executor(self._shares._threads, copy_context().run, function)
        finally:
            if self._shares._all.requests > self._held.requests:
                loop.call_later(_REST * (loop.time() - began), turn.release)
            else:
                turn.release()

    def close(self) -> None:
        """End the request."""
        if self._left:
            return
        self._left = True
        self.hold(0)
        self._shares._all.requests -= 1
        self._held.requests -= 1
        if not self._held.requests:
            self._shares._callers.pop(self._caller, None)


def name_owner(caller: Caller, scope: Scope) -> tuple[str | None, ...]:
    """Return what only one caller's requests have in common, as far as it is known."""
    named = caller.key_id, caller.user, caller.team
    return named if any(named) else (*named, name_holder(caller, scope))


def name_holder(caller: Caller, scope: Scope) -> str:
    """Return under which name a caller's requests are counted: that of its key, else its address."""
    if name := caller.key_id or caller.user or caller.team:
        return name
    return str((scope.get("client") or ("",))[0])


def _refuse_share(reason: str) -> LimitReachedError:
    return LimitReachedError(f"this key or address has {reason}", status=429, retry_after=_AGAIN)
