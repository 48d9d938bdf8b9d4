"""The body of a request that is streamed to a vendor: its size, its time, and the names in its form."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect

from dragoman.errors import InvalidRequestError
from dragoman_gateway.endpoints.endpoint import Exchange
from dragoman_gateway.errors import BodyTooLargeError, ClientError, ContentTypeError, SlowClientError
from dragoman_gateway.vendors.forwarding.form import BatchFile

_ID_FIELD = re.compile(
    rb"""content-disposition:[^\r\n]{0,400}\bname="?[^"\r\n;]*(?:_ids?\b|container|conversation)""", re.IGNORECASE
)
_MODEL = re.compile(
    rb"""content-disposition:[^\r\n]{0,99}\bname="?model"?\r\n\r\n([^\r\n]{1,200})\r\n""", re.IGNORECASE
)
_LINE = 600
"""Bytes of the end of a piece that are searched again with the next one."""


class FormBody:
    """Yields the body in pieces as they arrive. ``error`` is what ended it early: a transport hides it. ``model`` is
    what a form named on its way, for the price: nothing that a key may do depends on it.
    """

    def __init__(self, exchange: Exchange, *, refuses_ids: bool, batch: BatchFile | None) -> None:
        """``refuses_ids``: whether a form may name no ids, because nobody reads them here. ``batch`` sees each piece
        before it goes on.

        Raises BodyTooLargeError, and ContentTypeError for a body that is compressed.
        """
        self.error: Exception | None = None
        self.model: str | None = None
        self._exchange = exchange
        self._settings = settings = exchange.generation.settings
        headers = exchange.headers
        self._refuses_ids = refuses_ids and headers.get("content-type", "").strip().lower().startswith("multipart/")
        self._batch = batch
        length = headers.get("content-length", "")
        self.size = int(length[:20]) if length.isascii() and length.isdigit() else None
        if headers.get("content-encoding"):
            raise ContentTypeError("a form that is forwarded cannot be compressed")
        if self.size is not None and self.size > settings.forward_cap:
            raise _too_large(settings.forward_cap)

    async def pieces(self) -> AsyncIterator[bytes]:
        size, end = 0, b""
        try:
            while True:
                message = await self._next_message()
                piece = message.get("body", b"")
                size += len(piece)
                if size > self._settings.forward_cap:
                    raise _too_large(self._settings.forward_cap)
                if self._refuses_ids and _ID_FIELD.search(end + piece):
                    raise InvalidRequestError("a form cannot name ids here: send JSON", status=400)
                if self.model is None and (found := _MODEL.search(end + piece)) is not None:
                    self.model = found[1].decode("utf-8", "replace")
                end = (end + piece)[-_LINE:]
                is_last = not message.get("more_body", False)
                if self._batch is not None:
                    await self._batch.feed(piece, is_last=is_last)
                if piece:
                    yield piece
                if is_last:
                    return
        except Exception as error:
            self.error = error
            raise ClientError("the body ended early") from None  # a transport makes what it raises the vendor's

    async def _next_message(self) -> Any:
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                message = await self._exchange.receive()
        except TimeoutError:
            raise SlowClientError(f"nothing of the body arrived within {self._settings.body_seconds:g} s") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        return message

    async def read(self) -> bytes:
        """Return the whole body, which the share holds from now on. Raises what the pieces do, and BodyTooLargeError
        for one that is larger than those that are held."""
        pieces, size = [], 0
        try:
            async for piece in self.pieces():
                size += len(piece)
                if size > self._settings.body_cap:
                    raise _too_large(self._settings.body_cap)
                self._exchange.share.hold(size)
                pieces.append(piece)
        except ClientError as error:
            raise (self.error or error) from None
        return b"".join(pieces)


def _too_large(cap: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body is larger than {cap} bytes")
