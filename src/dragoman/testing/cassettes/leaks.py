"""Searches an exchange for secrets: its URL, headers and bodies, and text that spans the deltas of a stream."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError
from dragoman.testing.cassettes.exchange import Exchange
from dragoman.testing.cassettes.secrets import Scanner, SecretFinding
from dragoman.testing.event_bytes import event_payload, split_events

_PIECE_KEYS = ("index", "output_index", "content_index", "item_id", "contentBlockIndex", "id")
"""Fields by which an event names the part that it continues."""


def find_leaks(exchange: Exchange, scanner: Scanner, number: int) -> list[SecretFinding]:
    """Return everything in an exchange that looks like a secret. ``number`` is its position in the file, from 1."""
    request, response = exchange.request, exchange.response
    request_place, response_place = f"exchange {number}, request", f"exchange {number}, response"
    return list(
        dict.fromkeys(
            [
                *scanner.scan_text(request.method, f"{request_place} method"),
                *scanner.scan_query(request.path, f"{request_place} path"),
                *_in_headers(request.headers, scanner, request_place),
                *_in_body(request.body, scanner, request_place),
                *_in_headers(response.headers, scanner, response_place),
                *_in_body(response.body, scanner, response_place),
                *_in_stream(response.body, scanner, response_place),
            ]
        )
    )


def _in_headers(headers: Mapping[str, str], scanner: Scanner, where: str) -> list[SecretFinding]:
    found = []
    for name, value in headers.items():
        place = f"{where} header {scanner.mask(name)}"
        found += scanner.scan_text(f"{name}: {value}", place) + scanner.scan_text(value, place)
    return found


def _in_body(body: bytes, scanner: Scanner, where: str) -> list[SecretFinding]:
    found = []
    parsed = _parse_json(body)
    if parsed is not None:
        found += scanner.scan_json(parsed, f"{where} $")
    # Also as raw text: a form part, a comment of a stream, the second value of a repeated name.
    return found + scanner.scan_text(body.decode("utf-8", "replace"), f"{where} body")


def _in_stream(body: bytes, scanner: Scanner, where: str) -> list[SecretFinding]:
    """Search each event, and the texts of one path joined over all events."""
    parsed = [_parse_json(event_payload(event)) for event in split_events(body)] if body else []
    if len(parsed) < 2:
        return []
    found = [each for n, event in enumerate(parsed) for each in scanner.scan_json(event, f"{where} event {n + 1} $")]
    for path, texts in _joined_texts(parsed):
        found += scanner.scan_json("".join(texts), _joined_place(where, path, scanner))
    return found


def find_split_secrets(exchange: Exchange, scanner: Scanner, number: int) -> list[SecretFinding]:
    """Return the secrets of a streamed reply that no mask of its events hides: a part would stay in another event."""
    body, where = exchange.response.body, f"exchange {number}, response"
    parsed = [_parse_json(event_payload(event)) for event in split_events(body)] if body else []
    return [
        SecretFinding("a secret that is split over events", _joined_place(where, path, scanner))
        for path, texts in _joined_texts(parsed)
        if _crosses(scanner.places("".join(texts)), list(accumulate(map(len, texts))))
    ]


def _crosses(places: Iterable[tuple[int, int]], ends: list[int]) -> bool:
    """Whether a secret at one of these places begins in one text and ends in another."""
    return any(bisect_right(ends, start) != bisect_right(ends, end - 1) for start, end in places)


def _joined_place(where: str, path: str, scanner: Scanner) -> str:
    return f"{where} {scanner.mask(path)}, joined over the stream"


def _joined_texts(parsed: list[Any]) -> Iterable[tuple[str, list[str]]]:
    """Yield the texts of each path that several events of a stream have."""
    joined: dict[tuple[str, str], list[str]] = {}
    for event in parsed:
        for path, numbers, text in _texts(event, "$", ""):
            joined.setdefault((path, numbers), []).append(text)
            joined.setdefault((path, "all"), []).append(text)
    return [(path, texts) for (path, _), texts in joined.items() if len(texts) > 1]


def _texts(value: Any, path: str, numbers: str) -> Iterable[tuple[str, str, str]]:
    """Yield each text with its path and the numbers of the pieces that contain it."""
    if isinstance(value, str):
        yield path, numbers, value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, f"{path}[]", numbers)
    elif isinstance(value, Mapping):
        context = "/".join([numbers, *(f"{name}={value[name]}" for name in _PIECE_KEYS if name in value)])
        for key, each in value.items():
            yield from _texts(each, f"{path}.{key}", context)


def _parse_json(data: bytes) -> Any:
    try:
        return wirejson.loads(data) if data[:1] in (b"{", b"[", b'"') else None
    except MalformedReplyError:
        return None
