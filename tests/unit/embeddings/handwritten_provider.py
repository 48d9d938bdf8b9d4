"""A server with the embedding endpoints of each wire, written by hand from the providers' pages.

The vector of a text has its length in its first place, so that a test can tell whose it is.
"""

import base64
import json
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply

DEFAULT_LENGTH = 4
TOKENS = 3
"""Tokens that the server counts for each input."""


def vector(text: str, dimensions: int) -> list[float]:
    return [float(len(text)), *[0.5] * (dimensions - 1)]


def to_base64(numbers: list[float]) -> str:
    data = array("f", numbers)
    return base64.b64encode(data.tobytes()).decode("ascii")


@dataclass
class Provider:
    """Answers in the wire of the path. ``dimensions`` is the length of a vector if a request asks for no other."""

    dimensions: int = DEFAULT_LENGTH
    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.body) for request in self.requests]

    def reply(self, request: ReceivedRequest) -> HttpReply:
        self.requests.append(request)
        body = json.loads(request.body)
        if request.path.endswith("/v2/embed"):
            vectors = self._vectors(body["texts"], body.get("output_dimension"))
            return json_reply({
                "id": "e1", "embeddings": {"float": vectors}, "texts": body["texts"],
                "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": TOKENS * len(vectors)}},
                "response_type": "embeddings_by_type",
            })  # fmt: skip
        if request.path.endswith("/api/embed"):
            vectors = self._vectors(body["input"], body.get("dimensions"))
            return json_reply({
                "model": body["model"], "embeddings": vectors, "total_duration": 5, "load_duration": 1,
                "prompt_eval_count": TOKENS * len(vectors),
            })  # fmt: skip
        if ":" in request.path.rpartition("/")[2]:
            return self._google(request.path.rpartition(":")[2], body)
        return self._openai(body)

    def _openai(self, body: dict[str, Any]) -> HttpReply:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        vectors = self._vectors(texts, body.get("dimensions") or body.get("output_dimension"))
        encode = to_base64 if body.get("encoding_format") == "base64" else list
        data = [
            {"object": "embedding", "index": number, "embedding": encode(each)} for number, each in enumerate(vectors)
        ]
        counts = {"prompt_tokens": TOKENS * len(texts), "total_tokens": TOKENS * len(texts)}
        reply = {"object": "list", "data": data[::-1], "model": body["model"], "usage": counts}
        return json_reply({"id": "e1", **reply} if body["model"].endswith("-embed") else reply)  # Mistral's have an id

    def _google(self, operation: str, body: dict[str, Any]) -> HttpReply:
        if operation == "predict":
            texts = [each["content"] for each in body["instances"]]
            vectors = self._vectors(texts, body["parameters"].get("outputDimensionality"))
            statistics = {"token_count": TOKENS, "truncated": False}
            return json_reply(
                {"predictions": [{"embeddings": {"values": v, "statistics": statistics}} for v in vectors]}
            )
        requests = body.get("requests") or [body]
        settings = requests[0].get("embedContentConfig", requests[0])
        texts = [each["content"]["parts"][0]["text"] for each in requests]
        vectors = [{"values": each} for each in self._vectors(texts, settings.get("outputDimensionality"))]
        usage = {"usageMetadata": {"promptTokenCount": TOKENS * len(texts), "totalTokenCount": TOKENS * len(texts)}}
        if operation == "embedContent":
            return json_reply({"embedding": vectors[0], **usage, "truncated": False})
        return json_reply({"embeddings": vectors, **usage})

    def _vectors(self, texts: list[str], dimensions: int | None) -> list[list[float]]:
        return [vector(each, dimensions or self.dimensions) for each in texts]


@contextmanager
def running_provider(dimensions: int = DEFAULT_LENGTH) -> Iterator[Provider]:
    provider = Provider(dimensions)
    with FaultyServer(provider.reply) as server:
        provider.url = server.url
        yield provider
