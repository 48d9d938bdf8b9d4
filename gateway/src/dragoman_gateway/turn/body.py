"""Reads the body of a request, within its limits."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from dragoman_gateway.errors import BodyTooLargeError, ClientError, ContentTypeError, SlowClientError
from dragoman_gateway.json import loads
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.turn.inflate import inflate


async def read_body(receive: Receive, headers: Mapping[str, str], settings: GatewaySettings) -> bytes:
    """Return the body, decompressed.

    Raises BodyTooLargeError, SlowClientError, ContentTypeError for an unknown compression, and ClientDisconnect if the
    client has left.
    """
    cap = settings.body_cap
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > cap:
        raise BodyTooLargeError(cap)
    try:
        async with asyncio.timeout(settings.body_seconds):
            body = await _read(receive, cap)
    except TimeoutError:
        raise SlowClientError(f"the body did not arrive within {settings.body_seconds:g} s") from None
    encoding = headers.get("content-encoding", "")
    return inflate(body, encoding, cap) if encoding else body


async def _read(receive: Receive, cap: int) -> bytes:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size > cap:
            raise BodyTooLargeError(cap)
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a request, with the key that Google's clients may write into the address."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    if b"key=" in scope["query_string"] and (key := QueryParams(scope["query_string"]).get("key")):
        headers.setdefault("x-goog-api-key", key)
    return headers


def parse_body(body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a request. Raises ClientError if the body is no JSON object with a model."""
    fields = parse_object(body, headers)
    if not isinstance(fields.get("model"), str) or not fields["model"]:
        raise ClientError("model: a text is required")
    return fields


def parse_object(body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a JSON object. Raises ClientError for any other body."""
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise ContentTypeError(f"the content type {kind!r:.80} is not JSON: send application/json")
    try:
        fields = loads(body)
    except (ValueError, RecursionError) as error:
        raise ClientError(f"the body is not JSON: {error!s:.200}") from None
    if not isinstance(fields, dict):
        raise ClientError("the body is not a JSON object")
    return fields
