"""Masks the secrets of a recording, with the same mask in request and reply.

A secret that is split over the deltas of a stream cannot be masked: such a file is still rejected.
"""

import dataclasses
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError
from dragoman.testing.cassettes.exchange import Exchange
from dragoman.testing.cassettes.file import Recording
from dragoman.testing.cassettes.leaks import find_split_secrets
from dragoman.testing.cassettes.secrets import MASK, Scanner, SecretFoundError
from dragoman.testing.event_bytes import event_payload, replace_payload, split_events


def scrub_recording(recording: Recording, scanner: Scanner | None = None) -> Recording:
    """Return the recording with everything masked that looks like a secret.

    Raises SecretFoundError for a secret that is split over the events of a stream: masking its start would hide the
    rest from the check of the file.
    """
    scanner = scanner or Scanner()
    split = [
        each for n, exchange in enumerate(recording.exchanges) for each in find_split_secrets(exchange, scanner, n + 1)
    ]
    if split:
        raise SecretFoundError(split)
    return dataclasses.replace(
        recording,
        server=scanner.mask(recording.server),
        exchanges=[_scrub_exchange(each, scanner) for each in recording.exchanges],
    )


def _scrub_exchange(exchange: Exchange, scanner: Scanner) -> Exchange:
    request, response = exchange.request, exchange.response
    return Exchange(
        dataclasses.replace(
            request,
            path=_scrub_path(request.path, scanner),
            body=_scrub_body(request.body, scanner),
            headers=_scrub_headers(request.headers, scanner),
        ),
        dataclasses.replace(
            response, body=_scrub_body(response.body, scanner), headers=_scrub_headers(response.headers, scanner)
        ),
    )


def _scrub_headers(headers: Mapping[str, str], scanner: Scanner) -> dict[str, str]:
    return {name: scanner.mask(value) for name, value in headers.items()}


def _scrub_path(path: str, scanner: Scanner) -> str:
    path, separator, query = path.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    if any(scanner.is_secret(name, value) for name, value in pairs):
        query = urlencode([(name, MASK if scanner.is_secret(name, value) else value) for name, value in pairs])
    return scanner.mask(path + separator + query)


def _scrub_body(body: bytes, scanner: Scanner) -> bytes:
    try:
        return _scrub_json(body, scanner)
    except MalformedReplyError:
        pass
    events = split_events(body) if body else []
    if len(events) > 1:
        return b"".join(_scrub_event(event, scanner) for event in events)
    return _scrub_text(body, scanner)


def _scrub_event(event: bytes, scanner: Scanner) -> bytes:
    payload = event_payload(event)
    try:
        clean = _scrub_json(payload, scanner) if payload else payload
    except MalformedReplyError:
        return _scrub_text(event, scanner)
    return event if clean == payload else replace_payload(event, clean)


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
