"""Reads cassettes of vcrpy: YAML or JSON, with bodies as text, bytes, base64 or JSON, compressed or not.

Those of Ruby's VCR have the same structure under another name. The YAML is read as data only: no tag creates an object.
"""

import base64
import binascii
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from dragoman.adapter.errors import MissingExtraError
from dragoman.canonical.guard import MAX_BODY_BYTES, MAX_DOCUMENT_DEPTH
from dragoman.formats.document import copy_json_at, decode_text, kind_of, parse
from dragoman.formats.errors import FormatError

FORMAT = "vcr"
_MOST_NODES = 100_000
_MOST_REPEATED = 20
"""How many times larger a cassette may become by its aliases: recorders repeat headers by alias."""

_LISTS = ("interactions", "http_interactions")


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """``path`` leads to the exchange in the cassette. Header names are in lower case."""

    path: str
    method: str
    url: str
    request: bytes
    status: int
    headers: Mapping[str, str]
    response: bytes


def read_cassette(document: Any) -> Iterator[RecordedExchange]:
    """Yield the exchanges of a cassette, given as text or parsed. Raises FormatError, with a path."""
    cassette = _parse(document)
    if not isinstance(cassette, Mapping):
        raise FormatError(f"a cassette must be an object, not {kind_of(cassette)}")
    name = next((each for each in _LISTS if each in cassette), None)
    if name is None:
        raise FormatError("a cassette must have interactions")
    interactions = cassette[name]
    if not isinstance(interactions, list):
        raise FormatError(f"the interactions must be a list, not {kind_of(interactions)}", path=f"$.{name}")
    for index, item in enumerate(interactions):
        yield _exchange(item, f"$.{name}[{index}]")


def _parse(document: Any) -> Any:
    if not isinstance(document, (str, bytes, bytearray)):
        return document
    text = decode_text(document)
    return parse(text, format_name=FORMAT) if text.lstrip()[:1] in ("{", "[", "") else _yaml(text)


def _yaml(text: str) -> Any:
    """Load the YAML. The depth is checked first, because the loader in C crashes on deep documents."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtraError("cassettes in YAML need PyYAML: pip install 'dragoman[cli]'") from None
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DOCUMENT_DEPTH:
                raise FormatError(f"the cassette is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
        data = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"this is not valid YAML: {' '.join(str(error).split())[:200]}") from None
    sizes: dict[int, int] = {}
    if _count_nodes(data, sizes, 0) > max(_MOST_NODES, _MOST_REPEATED * len(sizes)):
        raise FormatError("the aliases of the cassette expand to too much data")
    return data


def _count_nodes(node: Any, sizes: dict[int, int], depth: int) -> int:
    """Return the number of values below a node, with repeated ones counted each time.

    ``sizes`` has the known counts, and 0 for a node in progress. Raises FormatError if a node contains itself.
    """
    if not isinstance(node, (dict, list)):
        return 1
    known = sizes.get(id(node))
    if known == 0 or depth > MAX_DOCUMENT_DEPTH:
        raise FormatError(f"the cassette contains itself, or is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
    if known is None:
        sizes[id(node)] = 0
        inner = node.values() if isinstance(node, dict) else node
        known = sizes[id(node)] = 1 + sum(_count_nodes(each, sizes, depth + 1) for each in inner)
    return known


def _exchange(item: Any, path: str) -> RecordedExchange:
    request, response = (_object(item, name, path) for name in ("request", "response"))
    method, url = request.get("method"), request.get("uri")
    if not isinstance(method, str) or not isinstance(url, str):
        raise FormatError("a request must have a method and a uri", path=f"{path}.request")
    status = response.get("status", response.get("status_code"))
    if isinstance(status, Mapping):
        status = status.get("code")
    if not isinstance(status, int) or isinstance(status, bool):
        raise FormatError("a response must have a status, which is a number", path=f"{path}.response.status")
    headers = _headers(response.get("headers"))
    body = _body(response, "content" if "content" in response else "body", f"{path}.response")
    return RecordedExchange(
        path,
        method.upper(),
        url,
        _decompress(_body(request, "body", f"{path}.request"), _headers(request.get("headers"))),
        status,
        headers,
        _decompress(body, headers),
    )


def _object(item: Any, name: str, path: str) -> Mapping[str, Any]:
    found = item.get(name) if isinstance(item, Mapping) else None
    if not isinstance(found, Mapping):
        raise FormatError(f"an interaction must have a {name}, which is an object", path=f"{path}.{name}")
    return found


def _headers(native: Any) -> dict[str, str]:
    """Return the first value of each header."""
    headers: dict[str, str] = {}
    for name, value in native.items() if isinstance(native, Mapping) else ():
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(name, str) and isinstance(first, (str, bytes)):
            headers[name.lower()] = first if isinstance(first, str) else first.decode("latin-1")
    return headers


def _body(native: Mapping[str, Any], name: str, path: str) -> bytes:
    if "parsed_body" in native:
        return _json(native["parsed_body"], f"{path}.parsed_body")
    value = native.get(name)
    if isinstance(value, Mapping):
        name, value = next(
            ((f"{name}.{key}", value[key]) for key in ("base64_string", "string") if key in value), (name, value)
        )
    if value is None:
        return b""
    if isinstance(value, (Mapping, list)):
        return _json(value, f"{path}.{name}")
    try:
        if isinstance(value, str):
            return base64.b64decode(value) if name.endswith("base64_string") else value.encode()
    except (binascii.Error, UnicodeEncodeError) as error:
        raise FormatError(f"the body cannot be read: {error!s:.100}", path=f"{path}.{name}") from None
    if isinstance(value, bytes):
        return value
    raise FormatError(f"a body must be a text, not {kind_of(value)}", path=f"{path}.{name}")


def _json(value: Any, path: str) -> bytes:
    """Return a body that the cassette has as JSON."""
    return to_json(copy_json_at(value, path))


def _decompress(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Decompress the body. Recorders that decompress it keep the header, so a plain body is returned unchanged."""
    try:
        match headers.get("content-encoding", "").lower():
            case "gzip" if body[:2] == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
                    return packed.read(MAX_BODY_BYTES + 1)
            case "deflate" if body[:1] == b"\x78":
                return zlib.decompressobj().decompress(body, MAX_BODY_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        pass
    return body
