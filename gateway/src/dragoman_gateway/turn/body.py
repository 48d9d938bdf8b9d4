"""Reads the body of a request, within its limit."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from dragoman.errors import RequestError
from dragoman_gateway.errors import BodyTooLargeError, ClientError, ContentTypeError
from dragoman_gateway.json import loads


async def read_body(receive: Receive, headers: Mapping[str, str], cap: int) -> bytes:
    """Return the body as it was sent. Raises BodyTooLargeError, and ClientDisconnect if the client has left."""
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > cap:
        raise _too_large(cap)
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size > cap:
            raise _too_large(cap)
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def parse_body(body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a request. Raises ClientError if the body is no JSON object."""
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise ContentTypeError(f"the content type {kind!r:.80} is not JSON: send application/json")
    try:
        fields = loads(body)
    except (ValueError, RequestError, RecursionError) as error:
        raise ClientError(f"the body is not JSON: {error!s:.200}") from None
    if not isinstance(fields, dict):
        raise ClientError("the body is not a JSON object")
    if not isinstance(fields.get("model"), str) or not fields["model"]:
        raise ClientError("model: a text is required")
    return fields


def _too_large(cap: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body is larger than {cap} bytes")
