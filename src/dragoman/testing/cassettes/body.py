"""Encodes bodies for cassettes as readable text, and decodes them to the same bytes.

=========  ========================================================================================================
`json`     a body that is JSON, parsed; white space and the spelling of numbers are not kept
`events`   server-sent events, one per line: the lines of an event are joined by ``⏎``, a blank line ends each event
`lines`    JSON lines
`aws`      messages of an AWS event stream, one per line: headers, ``⏎``, payload; lengths and checksums are computed
`stream`   any other stream of events, one per list item, unchanged
`text`     any other text
`base64`   anything else
=========  ========================================================================================================

``line_end: crlf`` next to `events` or `lines` means that lines end with CR LF.
"""

import base64
import struct
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError
from dragoman.testing.event_bytes import Framing, build_aws_message, detect_framing, split_events

LINE_SEPARATOR = " ⏎ "
_STRING = 7
"""AWS's type number for a string header."""


def encode_body(body: bytes) -> dict[str, Any]:
    """Return the fields of a body in the file. Never fails: base64 is the fallback."""
    if not body:
        return {}
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return _binary_fields(body)
    with suppress(MalformedReplyError):
        return {"json": wirejson.loads(text)}
    plain, fields = text.replace("\r\n", "\n"), {}
    if plain.endswith("\n\n"):
        events = plain.removesuffix("\n\n").split("\n\n")
        fields = {"events": "".join(event.replace("\n", LINE_SEPARATOR) + "\n" for event in events)}
    elif plain.endswith("\n") and plain.startswith("{"):
        fields = {"lines": plain}
    if fields and "\r\n" in text:
        fields = {"line_end": "crlf", **fields}
    if fields and decode_body(fields) == body:
        return fields
    if any(end in body for end in (b"\n\n", b"\r\n\r\n", b"\r\r")):
        with suppress(UnicodeDecodeError):  # of messages that are not lines
            pieces = [piece.decode() for piece in split_events(body)]
            if len(pieces) > 1:
                return {"stream": pieces}
    return {"text": text}


def decode_body(fields: Mapping[str, Any]) -> bytes:
    """Return the body of these fields. Raises KeyError, TypeError or ValueError if they are invalid."""
    if "json" in fields:
        return wirejson.dumps(fields["json"])
    if "base64" in fields:
        return base64.b64decode("".join(fields["base64"].split()), validate=True)
    if "aws" in fields:
        return b"".join(map(_build_aws_message, fields["aws"].removesuffix("\n").split("\n")))
    if "events" in fields or "lines" in fields:
        ends = "\n\n" if "events" in fields else "\n"
        content = fields["events"] if "events" in fields else fields["lines"]
        text: str = "".join(
            line.replace(LINE_SEPARATOR, "\n") + ends for line in content.removesuffix("\n").split("\n")
        )
        return (text.replace("\n", "\r\n") if fields.get("line_end") == "crlf" else text).encode()
    if "stream" in fields:
        return "".join(fields["stream"]).encode()
    rest: str = fields.get("text", "")
    return rest.encode()


def _binary_fields(body: bytes) -> dict[str, Any]:
    if detect_framing(body) is Framing.AWS:
        with suppress(ValueError, IndexError, struct.error):
            fields = {"aws": "".join(_format_aws_message(message) + "\n" for message in split_events(body))}
            if decode_body(fields) == body:
                return fields
    return {"base64": "\n".join(textwrap.wrap(base64.b64encode(body).decode(), 96)) + "\n"}


def _format_aws_message(message: bytes) -> str:
    """Format one message of an AWS event stream. Raises ValueError if a header is not a string."""
    size = int.from_bytes(message[4:8])
    headers, payload = message[12 : 12 + size], message[12 + size : -4]
    named = []
    at = 0
    while at < len(headers):
        name_end = at + 1 + headers[at]
        if headers[name_end] != _STRING:
            raise ValueError("a header is not text")
        value_end = name_end + 3 + int.from_bytes(headers[name_end + 1 : name_end + 3])
        named.append(f"{headers[at + 1 : name_end].decode()}={headers[name_end + 3 : value_end].decode()}")
        at = value_end
    return " ".join(named) + LINE_SEPARATOR + payload.decode()


def _build_aws_message(line: str) -> bytes:
    head, _, payload = line.partition(LINE_SEPARATOR)
    headers = b""
    for named in head.split():
        name, _, value = named.partition("=")
        headers += struct.pack(">B", len(name.encode())) + name.encode()
        headers += struct.pack(">BH", _STRING, len(value.encode())) + value.encode()
    return build_aws_message(headers, payload.encode())
