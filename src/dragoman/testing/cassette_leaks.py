"""Where a secret can hide in an exchange: its address, headers and bodies, and across the deltas of a stream."""

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError
from dragoman.testing.cassette_exchange import Exchange
from dragoman.testing.cassette_secrets import Finding, Scanner
from dragoman.testing.event_bytes import events_of, payload_of

_NUMBERS = ("index", "output_index", "content_index", "item_id", "contentBlockIndex", "id")
"""What an event or a part of it calls the piece that it continues."""


def leaks(exchange: Exchange, scanner: Scanner, number: int) -> list[Finding]:
    """Everything in an exchange, the ``number``-th of its file, that looks like a secret."""
    request, response = exchange.request, exchange.response
    asked, answered = f"exchange {number}, request", f"exchange {number}, response"
    return list(
        dict.fromkeys(
            [
                *scanner.text(request.method, f"{asked} method"),
                *scanner.query(request.path, f"{asked} path"),
                *_in_headers(request.headers, scanner, asked),
                *_in_body(request.body, scanner, asked),
                *_in_headers(response.headers, scanner, answered),
                *_in_body(response.body, scanner, answered),
                *_in_stream(response.body, scanner, answered),
            ]
        )
    )


def _in_headers(headers: Mapping[str, str], scanner: Scanner, where: str) -> list[Finding]:
    found = []
    for name, value in headers.items():
        place = f"{where} header {scanner.masked(name)}"
        found += scanner.text(f"{name}: {value}", place) + scanner.text(value, place)
    return found


def _in_body(body: bytes, scanner: Scanner, where: str) -> list[Finding]:
    found = []
    parsed = _json(body)
    if parsed is not None:
        found += scanner.json(parsed, f"{where} $")
    # As it stands, too: a part of a form, a comment of a stream, the second value of a name that stands there twice.
    return found + scanner.text(body.decode("utf-8", "replace"), f"{where} body")


def _in_stream(body: bytes, scanner: Scanner, where: str) -> list[Finding]:
    """In each event, and in what the texts of one place come to when they are joined over all events."""
    parsed = [_json(payload_of(event)) for event in events_of(body)] if body else []
    if len(parsed) < 2:
        return []
    found = [each for n, event in enumerate(parsed) for each in scanner.json(event, f"{where} event {n + 1} $")]
    joined: dict[tuple[str, str], list[str]] = {}
    for event in parsed:
        for path, numbers, text in _texts(event, "$", ""):
            joined.setdefault((path, numbers), []).append(text)
            joined.setdefault((path, "all"), []).append(text)
    for (path, _), texts in joined.items():
        if len(texts) > 1:
            place = f"{where} {scanner.masked(path)}, joined over the stream"
            whole = "".join(texts)
            found += scanner.json(whole, place)
    return found


def _texts(value: Any, path: str, numbers: str) -> Iterable[tuple[str, str, str]]:
    """Each text with its place, and with the numbers of the pieces in which it stands."""
    if isinstance(value, str):
        yield path, numbers, value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, f"{path}[]", numbers)
    elif isinstance(value, Mapping):
        within = "/".join([numbers, *(f"{name}={value[name]}" for name in _NUMBERS if name in value)])
        for key, each in value.items():
            yield from _texts(each, f"{path}.{key}", within)


def _json(data: bytes) -> Any:
    try:
        return wirejson.loads(data) if data[:1] in (b"{", b"[", b'"') else None
    except MalformedReplyError:
        return None
