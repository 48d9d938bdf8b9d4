"""embedContent and batchEmbedContents (https://ai.google.dev/api/embeddings)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.blocks import ImageBlock, MediaSource
from dragoman.embeddings import EmbeddingInput, Purpose, Truncate
from dragoman_gateway.errors import ClientError
from dragoman_gateway.vendors.embedding import EmbeddingRequest, embed
from dragoman_gateway.vendors.google.endpoint import get_field
from dragoman_gateway.vendors.service import Call

_EXACT: Mapping[str, Purpose] = {"RETRIEVAL_QUERY": "query", "RETRIEVAL_DOCUMENT": "document"}
_PURPOSES: Mapping[str, Purpose] = {
    **_EXACT,
    "QUESTION_ANSWERING": "query",
    "FACT_VERIFICATION": "query",
    "CODE_RETRIEVAL_QUERY": "query",
}
"""The purposes that all providers know, by Google's words. All but the exact ones are a loss."""
_UNSPECIFIED = "TASK_TYPE_UNSPECIFIED"
_UNREAD = ("title", "documentOcr", "audioTrackExtraction")


@dataclass(frozen=True, slots=True)
class _Settings:
    """What may differ between the requests of a batch."""

    dimensions: int | None
    task: str | None
    truncate: Truncate | None
    unread: tuple[str, ...]
    """The fields that no other provider has."""


async def answer_one(call: Call) -> dict[str, Any]:
    """Return the vector of one content."""
    (vector,) = await _embed(call, [call.fields])
    return {"embedding": {"values": vector}, **_usage(call)}


async def answer_batch(call: Call) -> dict[str, Any]:
    """Return the vectors of several contents, in their order. Requests with the same settings go together."""
    requests = call.fields.get("requests")
    if not isinstance(requests, list) or not requests or not all(isinstance(each, dict) for each in requests):
        raise ClientError("requests: a list of at least one request is required")
    vectors = await _embed(call, requests)
    return {"embeddings": [{"values": vector} for vector in vectors], **_usage(call)}


async def _embed(call: Call, requests: list[Any]) -> list[list[float]]:
    groups: dict[_Settings, list[int]] = {}
    inputs: list[EmbeddingInput] = []
    for number, request in enumerate(requests):
        inputs.append(_read_content(get_field(request, "content")))
        groups.setdefault(_read_settings(request), []).append(number)
    vectors: list[list[float]] = [[]] * len(requests)
    for settings, numbers in groups.items():
        request = EmbeddingRequest(
            model=call.address["model"],
            inputs=[inputs[number] for number in numbers],
            dimensions=settings.dimensions,
            purpose=_PURPOSES.get(settings.task or ""),
            truncate=settings.truncate,
            native=dict.fromkeys(settings.unread),
        )
        found = await embed(call, request)
        for number, vector in zip(numbers, found, strict=True):
            vectors[number] = vector.tolist()
    return vectors


def _usage(call: Call) -> dict[str, Any]:
    return {"usageMetadata": {"promptTokenCount": sum(usage.prompt_tokens for usage in call.record.usages)}}


def _read_settings(request: Mapping[str, Any]) -> _Settings:
    """Return the settings, which newer clients write into an object of their own."""
    config = get_field(request, "embedContentConfig")
    config = {**request, **(config if isinstance(config, dict) else {})}
    dimensions, task = get_field(config, "outputDimensionality"), get_field(config, "taskType")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise ClientError("outputDimensionality: a positive whole number is required")
    if task is not None and not isinstance(task, str):
        raise ClientError("taskType: a string is required")
    unread = [name for name in _UNREAD if get_field(config, name) is not None]
    if task not in (None, _UNSPECIFIED, *_EXACT):
        unread.append("taskType")
    cuts = get_field(config, "autoTruncate") is True
    return _Settings(dimensions, task, "end" if cuts else None, tuple(unread))


def _read_content(content: Any) -> EmbeddingInput:
    """Return the text of a content, or its one image. Raises ClientError for anything else."""
    parts = content.get("parts") if isinstance(content, dict) else None
    if isinstance(parts, dict):
        parts = [parts]
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise ClientError("content: an object with a list of parts is required")
    texts = [part.get("text") for part in parts]
    if all(isinstance(text, str) for text in texts):
        return "".join(map(str, texts))
    image = get_field(parts[0], "inlineData")
    if len(parts) > 1 or not isinstance(image, dict):
        raise ClientError("content: its parts are either texts, or one image as inlineData")
    source = MediaSource(kind="base64", data=str(image.get("data", "")))
    return ImageBlock(source=source, media_type=str(get_field(image, "mimeType") or ""))
