"""Finds and masks the secrets of exchanges: in URL, headers and bodies, and in text that spans the deltas of a stream.

Request and reply get the same mask. A secret that is split over the deltas of a stream cannot be masked: a recording
with one is rejected.
"""

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse, parse_json
from dragoman.testing.cassettes.secrets import MASK, Scanner, SecretFinding, SecretFoundError
from dragoman.testing.event_bytes import event_payload, replace_payload, split_events

PartT = TypeVar("PartT", RecordedRequest, RecordedResponse)

_PIECE_KEYS = ("index", "output_index", "content_index", "item_id", "contentBlockIndex", "id")
"""Fields by which an event names the part that it continues."""


def find_leaks(exchanges: Iterable[Exchange], scanner: Scanner) -> list[SecretFinding]:
    """Return everything in exchanges that looks like a secret. Their numbers count from 1, as in the file."""
    found: list[SecretFinding] = []
    for number, exchange in enumerate(exchanges, 1):
        request, response = exchange.request, exchange.response
        found += scanner.scan_text(request.method, f"exchange {number}, request method")
        found += scanner.scan_query(request.path, f"exchange {number}, request path")
        for part, where in ((request, f"exchange {number}, request"), (response, f"exchange {number}, response")):
            for name, value in part.headers.items():
                place = f"{where} header {scanner.mask(name)}"
                found += scanner.scan_text(f"{name}: {value}", place) + scanner.scan_text(value, place)
            found += scanner.scan_json(parse_json(part.body), f"{where} $")
            # Also as raw text: a form part, a comment of a stream, the second value of a repeated name.
            found += scanner.scan_text(part.body.decode("utf-8", "replace"), f"{where} body")
        events = _parse_events(exchange)
        if len(events) > 1:
            where = f"exchange {number}, response"
            for position, event in enumerate(events, 1):
                found += scanner.scan_json(event, f"{where} event {position} $")
            for path, texts in _joined_texts(events):
                found += scanner.scan_json("".join(texts), f"{where} {scanner.mask(path)}, joined over the stream")
    return list(dict.fromkeys(found))


def scrub_exchanges(exchanges: Sequence[Exchange], scanner: Scanner) -> list[Exchange]:
    """Return the exchanges with everything masked that looks like a secret.

    Raises SecretFoundError for a secret that is split over the events of a stream: masking its start would hide the
    rest from the check of the file.
    """
    split, scrubbed = [], []
    for number, each in enumerate(exchanges, 1):
        for place, texts in _joined_texts(_parse_events(each)):
            ends = list(accumulate(map(len, texts)))
            # It begins in one text and ends in another.
            if any(bisect_right(ends, at) != bisect_right(ends, end - 1) for at, end in scanner.places("".join(texts))):
                where = f"exchange {number}, response {scanner.mask(place)}, joined over the stream"
                split.append(SecretFinding("a secret that is split over events", where))
        path, separator, query = each.request.path.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        if any(scanner.is_secret(name, value) for name, value in pairs):
            query = urlencode([(name, MASK if scanner.is_secret(name, value) else value) for name, value in pairs])
        request = dataclasses.replace(each.request, path=scanner.mask(path + separator + query))
        scrubbed.append(Exchange(_scrub_part(request, scanner), _scrub_part(each.response, scanner)))
    if split:
        raise SecretFoundError(split)
    return scrubbed


def _parse_events(exchange: Exchange) -> list[Any]:
    """Return the payloads of a reply's events; those that are not JSON are None."""
    body = exchange.response.body
    return [parse_json(event_payload(event)) for event in split_events(body)] if body else []


def _joined_texts(events: list[Any]) -> Iterable[tuple[str, list[str]]]:
    """Yield the texts of each path that several events of a stream have."""
    joined: dict[tuple[str, str], list[str]] = {}
    for event in events:
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


def _scrub_part(part: PartT, scanner: Scanner) -> PartT:
    """Return a request or a response with a masked body and masked headers."""
    headers = {name: scanner.mask(value) for name, value in part.headers.items()}
    with suppress(MalformedReplyError):
        return dataclasses.replace(part, body=_scrub_json(part.body, scanner), headers=headers)
    events = split_events(part.body) if part.body else []
    if len(events) < 2:
        return dataclasses.replace(part, body=_scrub_text(part.body, scanner), headers=headers)
    for position, event in enumerate(events):
        payload = event_payload(event)
        try:
            clean = _scrub_json(payload, scanner) if payload else payload
        except MalformedReplyError:
            events[position] = _scrub_text(event, scanner)
        else:
            events[position] = event if clean == payload else replace_payload(event, clean)
    return dataclasses.replace(part, body=b"".join(events), headers=headers)


def _scrub_json(data: bytes, scanner: Scanner) -> bytes:
    """Rewrite a body only if it contains a secret, so that all other bytes stay unchanged."""
    value = wirejson.loads(data)
    clean = scanner.scrub(value)
    return data if clean == value else wirejson.dumps(clean)


def _scrub_text(data: bytes, scanner: Scanner) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return scanner.mask(text).encode()
