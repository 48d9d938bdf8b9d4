"""Forms that upload a file (RFC 7578)."""

import hashlib
from collections.abc import Mapping

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
