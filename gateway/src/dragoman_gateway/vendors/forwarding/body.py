"""The body of a request that is streamed to a vendor: its size, its time, and the names in its form."""

import asyncio
import re
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from dragoman.errors import InvalidRequestError
from dragoman_gateway.errors import BodyTooLargeError, ContentTypeError, SlowClientError
from dragoman_gateway.settings import GatewaySettings

_ID_FIELD = re.compile(
    rb"""content-disposition:[^\r\n]{0,400}\bname="?[^"\r\n;]*(?:_ids?\b|container|conversation)""", re.IGNORECASE
)
_LINE = 600
"""Bytes of the end of a piece that are searched again with the next one."""


class FormBody:
    """Yields the body in pieces as they arrive. ``error`` is what ended it early: a transport hides it."""

    def __init__(
        self, receive: Receive, headers: dict[str, str], settings: GatewaySettings, *, refuses_ids: bool
    ) -> None:
        """``refuses_ids``: whether a form may name no ids, because nobody reads them here.

        Raises BodyTooLargeError, and ContentTypeError for a body that is compressed.
        """
        self.error: Exception | None = None
        self._receive = receive
        self._settings = settings
        self._refuses_ids = refuses_ids
        length = headers.get("content-length", "")
        self.size = int(length[:20]) if length.isascii() and length.isdigit() else None
        if headers.get("content-encoding"):
            raise ContentTypeError("a form that is forwarded cannot be compressed")
        if self.size is not None and self.size > settings.forward_cap:
            raise self._too_large()

    async def pieces(self) -> AsyncIterator[bytes]:
        size, end = 0, b""
        try:
            while True:
                try:
                    async with asyncio.timeout(self._settings.body_seconds):
                        message = await self._receive()
                except TimeoutError:
                    raise SlowClientError(
                        f"nothing of the body arrived within {self._settings.body_seconds:g} s"
                    ) from None
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece = message.get("body", b"")
                size += len(piece)
                if size > self._settings.forward_cap:
                    raise self._too_large()
                if self._refuses_ids and _ID_FIELD.search(end + piece):
                    raise InvalidRequestError("a form cannot name ids here: send JSON", status=400)
                end = (end + piece)[-_LINE:]
                if piece:
                    yield piece
                if not message.get("more_body", False):
                    return
        except Exception as error:
            self.error = error
            raise

    def _too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError(f"the body is larger than {self._settings.forward_cap} bytes")
