"""The recorded exchanges: real traffic between clients and providers, next to the checkout, never inside it.

The folder is ``shared/exchanges`` next to the checkout, or DRAGOMAN_EXCHANGES. It holds one ``<provider>.jsonl.gz`` per
provider, one JSON object per line. Tests that need it skip, with a reason, if it is absent.
"""

import base64
import gzip
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "DRAGOMAN_EXCHANGES"
MISSING = f"the recorded exchanges are not here: set {VARIABLE} to the folder that holds them"
"""Why a test skips if the folder is absent."""
_CHECKOUT_ROOT = Path(__file__).resolve().parents[2]

_SHARED_FILES = {"google-interactions": ("google", re.compile(r"/interactions(\?.*)?$"))}
"""Wires that are recorded in another provider's file, and the paths that distinguish them."""

_read: dict[str, int] = {}


@dataclass(frozen=True, slots=True, eq=False)
class RecordedExchange:
    """One request and its reply.

    ``response`` is the parsed JSON of a whole reply, or the raw text of a stream. Some recordings have no request.
    ``provenance`` is ``cassette`` or ``scrubbed-cassette`` for traffic as recorded, ``suspect`` or ``fixture`` for what
    may have been made by hand.
    """

    id: str
    provider: str
    upstream: str | None
    model: str | None
    source: str
    seq: int
    method: str
    url_path: str
    streaming: bool
    request: Any
    status: int
    headers: Mapping[str, str]
    response: Any
    provenance: str
    features: frozenset[str]

    @property
    def streamed(self) -> bool:
        """Whether the reply came as a stream; an error that answers a streaming request does not."""
        return isinstance(self.response, (str, bytes))

    @property
    def is_genuine(self) -> bool:
        return self.provenance not in ("suspect", "fixture")

    @property
    def body(self) -> bytes:
        """The reply's body as bytes; that of a whole reply is serialised from its JSON."""
        if isinstance(self.response, bytes):
            return self.response
        if isinstance(self.response, str):
            return self.response.encode()
        return json.dumps(self.response, ensure_ascii=False).encode()


def exchanges_folder() -> Path:
    """The folder of the recordings, which may be absent."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else _CHECKOUT_ROOT.parent / "shared" / "exchanges"


@cache
def load(provider: str) -> tuple[RecordedExchange, ...]:
    """All exchanges recorded with a provider. Raises FileNotFoundError if there are none."""
    if provider in _SHARED_FILES:
        among, path = _SHARED_FILES[provider]
        return tuple(replace(each, provider=provider) for each in load(among) if path.search(each.url_path))
    with gzip.open(exchanges_folder() / f"{provider}.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = tuple(_exchange(json.loads(line)) for line in lines)
    _read[provider] = len(found)
    return found


def read_counts() -> dict[str, int]:
    """How many exchanges of each provider this process has read."""
    return dict(_read)


def load_or_skip(provider: str) -> tuple[RecordedExchange, ...]:
    """As `load`, but skips the running test if the recordings are absent."""
    if not exchanges_folder().is_dir():
        pytest.skip(MISSING)
    among, _ = _SHARED_FILES.get(provider, (provider, None))
    path = exchanges_folder() / f"{among}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"no recorded exchanges of {provider}: {path} is missing")
    return load(provider)


def _exchange(row: dict[str, Any]) -> RecordedExchange:
    response = row["response_body"]
    if row.get("body_encoding") == "base64":
        response = base64.b64decode(response["base64"])
    return RecordedExchange(
        id=row["id"],
        provider=row["provider"],
        upstream=row.get("upstream"),
        model=row["model"],
        source=f"{row['source_repo']}/{row['path']}",
        seq=row["seq"],
        method=row["method"],
        url_path=row["url_path"],
        streaming=row["streaming"],
        request=row["request_body"],
        status=row["status"],
        headers=row["response_headers"],
        response=response,
        provenance=row["provenance"],
        features=frozenset(row["features"]),
    )
