"""Recorded exchanges in the files of other recorders, made while the tests run."""

import gzip
import json
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import yaml

from tests import exchanges
from tests.exchanges import RecordedExchange

HOSTS = {
    "anthropic": "api.anthropic.com", "openai-chat": "api.openai.com", "openai-responses": "api.openai.com",
    "google": "generativelanguage.googleapis.com", "mistral": "api.mistral.ai", "groq": "api.groq.com",
    "bedrock": "bedrock-runtime.us-east-1.amazonaws.com", "cohere": "api.cohere.com", "deepseek": "api.deepseek.com",
    "xai": "api.x.ai", "openrouter": "openrouter.ai", "ollama": "localhost",
}  # fmt: skip

LARGEST = 6_000
"""Bytes of all replies of one recording."""

Style = Callable[[list[RecordedExchange]], bytes]


def sample_recordings(limit: int) -> Iterator[tuple[str, list[RecordedExchange]]]:
    """At most ``limit`` recordings per provider, each with all of its exchanges in order; the largest are left out."""
    for provider in HOSTS:
        genuine = [each for each in exchanges.load(provider) if each.is_genuine and isinstance(each.request, dict)]
        groups = (list(group) for _, group in groupby(genuine, lambda each: each.source))
        small = (group for group in groups if sum(len(each.body) for each in group) < LARGEST)
        for group in islice(small, limit):
            yield provider, group


def _uri(exchange: RecordedExchange) -> str:
    return f"https://{HOSTS[exchange.provider]}{exchange.url_path}"


def _request(exchange: RecordedExchange) -> dict[str, Any]:
    return {
        "method": exchange.method,
        "uri": _uri(exchange),
        "body": json.dumps(exchange.request),
        "headers": {"content-type": ["application/json"], "user-agent": ["client/1.0"], "host": ["h"]},
    }


def _response(exchange: RecordedExchange, body: Any) -> dict[str, Any]:
    headers = {name: [value] for name, value in exchange.headers.items()}
    return {
        "status": {"code": exchange.status, "message": "OK"},
        "headers": {**headers, "date": ["Tue, 03 Feb 2026 10:00:00 GMT"], "set-cookie": ["a=b"]},
        "body": {"string": body},
    }


def _dump(data: Any) -> bytes:
    return yaml.dump(data, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True).encode()


def vcrpy(group: list[RecordedExchange]) -> bytes:
    """As vcrpy writes it: bodies as texts, or as binary YAML if they are not."""
    pairs = [{"request": _request(each), "response": _response(each, _textual(each.body))} for each in group]
    return _dump({"version": 1, "interactions": pairs})


def vcrpy_json(group: list[RecordedExchange]) -> bytes:
    """vcrpy with its other serializer, which cannot hold binary data."""
    pairs = [{"request": _request(each), "response": _response(each, each.body.decode())} for each in group]
    return json.dumps({"version": 1, "interactions": pairs}).encode()


def vcrpy_compressed(group: list[RecordedExchange]) -> bytes:
    """vcrpy without `decode_compressed_response`: bodies as received."""
    pairs = []
    for each in group:
        response = _response(each, gzip.compress(each.body))
        response["headers"]["content-encoding"] = ["gzip"]
        pairs.append({"request": _request(each), "response": response})
    return _dump({"version": 1, "interactions": pairs})


def pydantic_ai(group: list[RecordedExchange]) -> bytes:
    """JSON bodies parsed, streams as texts."""
    pairs = []
    for each in group:
        request = {key: value for key, value in _request(each).items() if key != "body"}
        request["parsed_body"] = each.request
        response = _response(each, _textual(each.body))
        if not each.streamed:
            del response["body"]
            response["parsed_body"] = each.response
        pairs.append({"request": request, "response": response})
    return _dump({"version": 1, "interactions": pairs})


def langchain(group: list[RecordedExchange]) -> bytes:
    """Two lists, gzipped, without addresses and headers."""
    requests = [
        {
            "method": each.method,
            "uri": "**REDACTED**",
            "body": json.dumps(each.request),
            "headers": {"content-type": ["**REDACTED**"]},
        }
        for each in group
    ]
    responses = [{**_response(each, each.body), "headers": {"content-type": "**REDACTED**"}} for each in group]
    return gzip.compress(_dump({"requests": requests, "responses": responses}))


def _textual(body: bytes) -> str | bytes:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body


STYLES: dict[str, tuple[str, Style]] = {
    "vcrpy": (".yaml", vcrpy),
    "vcrpy-json": (".json", vcrpy_json),
    "compressed": (".yaml", vcrpy_compressed),
    "pydantic-ai": (".yaml", pydantic_ai),
    "langchain": (".yaml.gz", langchain),
}
BLANKED = ("anthropic", "openai-chat", "openai-responses")
"""The wires that LangChain records with its own recorder: without an address, their bodies identify them."""


def fits(style: str, provider: str, group: list[RecordedExchange]) -> bool:
    if style == "langchain":
        return provider in BLANKED and all("/count_tokens" not in each.url_path for each in group)
    return style != "vcrpy-json" or not any(isinstance(each.response, bytes) for each in group)


def write(folder: Path, style: str, name: str, group: list[RecordedExchange]) -> Path:
    suffix, write_as = STYLES[style]
    path = folder / f"{name}{suffix}"
    path.write_bytes(write_as(group))
    return path
