"""Reads the body of a request, within its limits."""

import asyncio
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from dragoman_gateway.access.page_rules import is_json
from dragoman_gateway.access.wire_fields import FIELDS, wire_objects
from dragoman_gateway.bodies.inflate import inflate
from dragoman_gateway.bodies.repeated import KeptBody, RepeatedParts
from dragoman_gateway.bodies.values import check_values
from dragoman_gateway.errors import BodyTooLargeError, ClientError, ContentTypeError, SlowClientError
from dragoman_gateway.json import is_in_range, loads_request
from dragoman_gateway.running.shares import Share
from dragoman_gateway.settings import GatewaySettings

_GOOGLE_KEY = "x-goog-api-key"
_SINGLE: Sequence[str] = FIELDS["single_headers"]
"""Headers that a request may have only once. Of two values, a proxy or a provider could read another one than this
gateway."""


async def read_body(receive: Receive, headers: Mapping[str, str], settings: GatewaySettings, share: Share) -> bytes:
    """Return the body, decompressed. The share holds it from now on.

    Raises BodyTooLargeError also for a body with too many values, SlowClientError, ContentTypeError for an unknown
    compression, ClientDisconnect if the client has left, and what `Share.hold` raises.
    """
    cap, declared = settings.body_cap, 0
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit():
        declared = int(length[:20])
        if declared > cap:
            raise BodyTooLargeError(f"the body is larger than {cap} bytes")
        share.hold(declared)
    pieces: list[bytes] = []
    size, is_complete = 0, False
    try:
        async with asyncio.timeout(settings.body_seconds):
            while not is_complete:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > cap:
                    raise BodyTooLargeError(f"the body is larger than {cap} bytes")
                if size > declared:
                    share.hold(size)
                is_complete = not message.get("more_body", False)
    except TimeoutError:
        raise SlowClientError(f"the body did not arrive within {settings.body_seconds:g} s") from None
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if encoding := headers.get("content-encoding", ""):
        body = await share.work(settings.body_cap, lambda: inflate(body, encoding, cap, settings.max_inflation))
        share.hold(len(body))
    if len(body) > settings.max_values:  # a value has a byte at least
        await share.work(len(body), partial(check_values, [body], settings.max_values))
    return body


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a request, with the key that Google's clients may write into the address. Raises
    ClientError for two where there can be one."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    if len(headers) < len(scope["headers"]):
        times = Counter(name.decode("latin-1") for name, _ in scope["headers"])
        for name in _SINGLE:
            if times[name] > 1:
                raise ClientError(f"the header {name} occurs {times[name]} times: send it once")
    if b"key=" in scope["query_string"]:
        keys = {each for each in (*QueryParams(scope["query_string"]).getlist("key"), headers.get(_GOOGLE_KEY)) if each}
        if len(keys) > 1:
            raise ClientError("the request has two different API keys: send one")
        for key in keys:
            headers[_GOOGLE_KEY] = key
    return headers


def named_model(fields: Mapping[str, Any]) -> str:
    """Return the model that the fields of a request name. Raises ClientError if they name none."""
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise ClientError("model: a string is required")
    return model


def parse_repeated(
    body: bytes, headers: Mapping[str, str], parts: RepeatedParts, owner: Hashable
) -> tuple[dict[str, Any], KeptBody | None]:
    """As `parse_object`, with the parts that the owner has sent before. They are None for a body that is not kept."""
    known = parts.read(owner, body) if is_json(headers.get("content-type", "application/json")) else None
    return (parse_object(body, headers), None) if known is None else known


def parse_object(body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a JSON object. Raises ClientError for any other body."""
    kind = headers.get("content-type", "application/json")
    if not is_json(kind):
        raise ContentTypeError(f"the content type {kind!r:.80} is not JSON: send application/json")
    try:
        fields, has_large_numbers = loads_request(body)
    except (ValueError, RecursionError) as error:
        raise ClientError(f"the body is not JSON: {error!s:.200}") from None
    if not isinstance(fields, dict):
        raise ClientError("the body is not a JSON object")
    if has_large_numbers:
        check_numbers(fields)
    return fields


def check_numbers(fields: dict[str, Any]) -> None:
    """Raise ClientError for a number beyond 64 bits, unless it is in a place where a client chooses the names, as in
    the schema of a tool."""
    for each in wire_objects(fields):
        for name, value in each.items():
            left = [value]
            while left:
                number = left.pop()
                if isinstance(number, list):
                    left += number
                elif isinstance(number, (int, float)) and not is_in_range(number):
                    raise ClientError(f"{name:.80}: the number is too large: send one of at most 64 bits")
