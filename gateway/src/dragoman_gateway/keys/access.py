"""KeyAccess: callers by virtual key."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from dragoman.errors import AuthenticationError, InvalidRequestError, OverloadedError
from dragoman.limits import Budget, Governor, Limit, MeasureUsage
from dragoman_gateway.access import Caller, OpenAccess, Prices
from dragoman_gateway.access.page_rules import PageRules
from dragoman_gateway.keys import secrets
from dragoman_gateway.keys.admission import Admission
from dragoman_gateway.keys.key_store import KeyCache

_HEADERS = ("x-api-key", "api-key", "x-goog-api-key")
"""The headers in which clients send keys, besides ``authorization``."""
_UNKNOWN_ID = "key_"


class KeyAccess:
    """Implements `Access`.

    An unknown, an expired and a revoked key are refused with the same words, after the same work: the answer says
    nothing about which keys exist.
    """

    def __init__(
        self, cache: KeyCache, admission: Admission, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._cache = cache
        self._admission = admission
        self._clock = clock

    async def authenticate(self, headers: Mapping[str, str], resumed: str | None = None) -> Caller:
        secret = presented_secret(headers)
        key_id = resumed or (secrets.key_id_of(secret) if secret else None)
        key = await self._cache.find(key_id or _UNKNOWN_ID)
        digest, now = secrets.digest(secret or ""), self._clock()
        is_current = secrets.matches(digest, key.digest if key else None)
        is_old = secrets.matches(digest, key.old_digest if key else None)
        in_grace = key is not None and key.old_until is not None and now < key.old_until
        is_valid = resumed is not None or is_current or (is_old and in_grace)
        if key is None or not is_valid or not key.is_active(now):
            raise AuthenticationError(
                "the API key is missing or invalid: send a key of this gateway as x-api-key or Authorization: Bearer",
                status=401,
            )
        return Caller(
            key_id=key.id,
            user=key.user,
            team=key.team,
            roles=key.roles,
            permissions=key.permissions,
            models=key.models,
            endpoints=key.endpoints,
            admin=key.admin,
        )

    async def limits_for(self, caller: Caller) -> tuple[Budget | Limit, ...]:
        """Return nothing: what a key, a user and a team may spend is counted for all replicas, by the governor."""
        return ()

    def governor_for(self, caller: Caller, prices: Prices) -> Governor | None:
        return self._admission.governor(caller, prices)

    async def check(self, caller: Caller, prices: Prices, measure: MeasureUsage | None = None) -> None:
        await self._admission.check(caller, prices, measure)


class OpenUntilKeys(OpenAccess):
    """Lets everyone in until the first key is created. Then it checks keys, within `KeyCache.max_age`.

    A database that does not answer closes nothing here: no key can be created meanwhile.
    """

    def __init__(self, cache: KeyCache, keyed: KeyAccess, rules: PageRules | None = None) -> None:
        super().__init__(rules)
        self._cache = cache
        self._keyed = keyed

    async def authenticate(self, headers: Mapping[str, str], resumed: str | None = None) -> Caller:
        try:
            keyed = await self._cache.has_keys()
        except OverloadedError:
            keyed = False
        if keyed:
            return await self._keyed.authenticate(headers, resumed)
        return await super().authenticate(headers)

    def governor_for(self, caller: Caller, prices: Prices) -> Governor | None:
        return None if caller.key_id is None else self._keyed.governor_for(caller, prices)

    async def check(self, caller: Caller, prices: Prices, measure: MeasureUsage | None = None) -> None:
        if caller.key_id is not None:
            await self._keyed.check(caller, prices, measure)


def presented_secret(headers: Mapping[str, str]) -> str | None:
    """Return the key of a request; None without one. Raises InvalidRequestError if it holds two different ones."""
    found = {value for name in _HEADERS if (value := headers.get(name, "").strip())}
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        found.add(token.strip())
    if len(found) > 1:
        raise InvalidRequestError("the request has two different API keys: send one", status=400)
    return next(iter(found), None)
