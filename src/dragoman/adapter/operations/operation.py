"""Operations of several requests, such as a batch or an upload, and forms that upload a file, without I/O.

An operation is a generator: it yields requests, receives the reply to each, and returns the result. The error of a
failed request is raised in it, where it yielded the request.
"""

import hashlib
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


_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def encode_form(fields: Mapping[str, str], name: str, media_type: str, data: bytes) -> tuple[str, bytes]:
    """Return the content type and the body of a form: its fields, then the file under ``file``.

    The same content gives the same bytes, because the boundary is a digest of it.
    """
    boundary = hashlib.sha256(data).hexdigest()
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    ]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name.translate(_ESCAPES)}"\r\n'
        f"Content-Type: {media_type}\r\n\r\n"
    )
    body = "".join(parts).encode() + data + f"\r\n--{boundary}--\r\n".encode()
    return f"multipart/form-data; boundary={boundary}", body
