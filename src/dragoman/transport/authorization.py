"""Puts what credentials return into the requests of one call: before each attempt, and once more after a refusal."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import AuthenticationError, MissingKeyError
from dragoman.credentials.cached import CachedCredentials
from dragoman.credentials.contract import Authorization, SignableRequest
from dragoman.credentials.target import Target, TargetFinder
from dragoman.transport.call import full_url, server_of, validate_headers

if TYPE_CHECKING:
    from dragoman.transport.call import Call

_EXPIRED_CODES = frozenset({
    "ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId", "RequestExpired",
})  # fmt: skip
"""Codes with status 400 or 403 that mean that other credentials may help (AWS, common errors of its APIs)."""
_MAX_SKEW = 300.0
"""Seconds. AWS refuses signatures from here on."""
_LARGE_BODY = 1 << 20
"""Bytes. Signing reads the whole body, so that of a larger one runs in a thread."""


@dataclass(slots=True, eq=False, repr=False)
class Access:
    """The credentials of one call, and what they returned last."""

    _credentials: CachedCredentials
    _finder: TargetFinder
    _headers: dict[str, str]
    _path: str
    _current: Authorization | None = None
    _rejected: Authorization | None = None
    _has_renewed: bool = False

    def authorize(self, call: "Call") -> None:
        """Write headers and address of the next attempt. Raises DragomanError; nothing is sent then."""
        try:
            self._current = self._credentials.get(call.seconds_left, self._rejected)
        except MissingKeyError as error:
            missing = self._finder.explain_missing(call.adapter, error)
            raise missing from None
        self._apply(call, self._current)

    async def authorize_async(self, call: "Call") -> None:
        try:
            self._current = await self._credentials.get_async(call.seconds_left, self._rejected)
        except MissingKeyError as error:
            missing = self._finder.explain_missing(call.adapter, error)
            raise missing from None
        if len(call.prepared.body) > _LARGE_BODY and self._current.sign is not None:
            import asyncio

            await asyncio.to_thread(self._apply, call, self._current)
        else:
            self._apply(call, self._current)

    def may_renew(self, error: Any) -> bool:
        """Whether to send the request once more, with other credentials: the provider refused these."""
        is_refusal = getattr(error, "code", None) in _EXPIRED_CODES or (
            isinstance(error, AuthenticationError) and error.status == 401
        )
        if self._has_renewed or self._current is None or not is_refusal:
            return False
        if not self._credentials.may_renew(self._current):
            return False
        self._has_renewed, self._rejected = True, self._current
        return True

    @staticmethod
    def name_skew(error: object, headers: Mapping[str, str]) -> None:
        """Add to a refusal that the clock of this computer is wrong, if it is: signatures and tokens have times."""
        if not isinstance(error, AuthenticationError) or "date" not in headers:
            return
        try:
            skew = time.time() - parsedate_to_datetime(headers["date"]).timestamp()
        except ValueError:
            return
        if abs(skew) > _MAX_SKEW:
            direction = "ahead of" if skew > 0 else "behind"
            error.message += f"; the clock of this computer is {abs(skew):,.0f} seconds {direction} the server's"

    def _apply(self, call: "Call", authorization: Authorization) -> None:
        prepared, endpoint = call.prepared, call.adapter.endpoint
        if prepared.url is None:
            base_url = self._finder.complete(call.adapter, authorization)
            prepared.url, prepared.target = full_url(base_url, self._path), Target(base_url, None)
            prepared.server = server_of(prepared.url)
            prepared.note_host()
        headers = dict(self._headers)
        if authorization.key is not None:
            headers[endpoint.key_header.lower()] = endpoint.key_prefix + authorization.key.reveal()
        headers.update(validate_headers(authorization.headers))
        if authorization.sign is not None:
            request = SignableRequest(prepared.method, str(prepared.url), headers, prepared.body)
            signed = authorization.sign(request)
            headers.update({name.lower(): value for name, value in signed.items() if name.lower() != "host"})
        prepared.headers, prepared.key = headers, authorization.key
