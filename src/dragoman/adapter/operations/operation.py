"""Operations of several requests, such as a batch or an upload, without I/O.

An operation is a generator: it yields requests, receives the reply to each, and returns the result. The error of a
failed request is raised in it, where it yielded the request.
"""

from collections.abc import Generator, Mapping
from typing import TypeVar

from dragoman.adapter.wire import WireRequest, WireResponse

T = TypeVar("T")
Operation = Generator[WireRequest, WireResponse, T]


def get_request(path: str, headers: Mapping[str, str] | None = None) -> WireRequest:
    return WireRequest("GET", path, b"", headers or {})


def post_request(path: str, body: bytes, headers: Mapping[str, str] | None = None) -> WireRequest:
    return WireRequest("POST", path, body, headers or {})


def delete_request(path: str, headers: Mapping[str, str] | None = None) -> WireRequest:
    return WireRequest("DELETE", path, b"", headers or {})
