"""Google's Gemini API: generateContent as a stream or whole, token counts, models, and embeddings.

Clients write ``/v1beta`` or ``/v1`` before an address, or nothing. The address names the model, and whether to stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Scope

from dragoman import Adapter
from dragoman.blocks import ImageBlock, MediaSource
from dragoman.embeddings import EmbeddingInput, Purpose, Truncate
from dragoman_gateway.access.wire_fields import snake_case
from dragoman_gateway.bodies.model_name import replace_model
from dragoman_gateway.endpoints.counting import CountEndpoint
from dragoman_gateway.endpoints.endpoint import Endpoint, Exchange
from dragoman_gateway.errors import ClientError
from dragoman_gateway.models import facts_of
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.turn.request import ClientRequest
from dragoman_gateway.vendors.embedding import ENDPOINT, EmbeddingRequest, embed
from dragoman_gateway.vendors.service import Service
from dragoman_gateway.wires import GOOGLE, GOOGLE_ARRAY

_PREFIXES = ("/v1beta", "/v1alpha", "/v1", "")
_MODEL = "/models/{model:path}"


class _GoogleRoute(Route):
    """A route for clients of Google alone: others have the same address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_google = any(name == b"x-goog-api-key" for name, _ in scope.get("headers", ()))
        is_google = is_google or b"key=" in scope.get("query_string", b"")
        return super().matches(scope) if is_google else (Match.NONE, {})


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of Google's clients."""
    service = partial(Service, gateway, GOOGLE)
    posts: dict[str, ASGIApp] = {
        "generateContent": GoogleEndpoint(gateway, streamed=False),
        "streamGenerateContent": GoogleEndpoint(gateway, streamed=True),
        "countTokens": GoogleCountEndpoint(gateway, GOOGLE),
        "embedContent": service(embed_content, endpoint=ENDPOINT),
        "batchEmbedContents": service(embed_contents, endpoint=ENDPOINT),
    }
    found: list[Route] = []
    for prefix in _PREFIXES:
        found += [Route(f"{prefix}{_MODEL}:{name}", app, methods=["POST"]) for name, app in posts.items()]
        get = _GoogleRoute if prefix == "/v1" else Route
        found.append(get(f"{prefix}/models", service(list_models), methods=["GET"]))
        found.append(get(f"{prefix}{_MODEL}", service(find_model), methods=["GET"]))
    return found


def get_field(fields: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field by its name in camelCase; None if it is absent. Google reads its fields in snake_case
    too, and clients write both."""
    if (found := fields.get(name)) is not None:
        return found
    return fields.get(snake_case(name))


@dataclass(slots=True, kw_only=True)
class GoogleRequest(ClientRequest):
    """A request whose address contains what other wires write into the body."""

    repeats_model: bool
    """Whether the body has the model's name as well."""

    def body_for(self, adapter: Adapter, **_: bool) -> bytes:
        """Return the body as it is. A model's name that it repeats is replaced."""
        if not self.repeats_model:
            return self.body
        return replace_model(self.body, {"model": None}, f"models/{adapter.model}")


def _read_request(scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
    repeats = fields.pop("model", None) is not None
    known = {"wire": GOOGLE, "model": scope["path_params"]["model"], **known}
    return GoogleRequest(fields=fields, repeats_model=repeats, **known)


class GoogleEndpoint(Endpoint):
    """An ASGI application for one of the two addresses."""

    def __init__(self, gateway: Gateway, *, streamed: bool) -> None:
        super().__init__(gateway, GOOGLE)
        self._streamed = streamed

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        if self._streamed and QueryParams(scope["query_string"]).get("alt") != "sse":
            known |= {"wire": GOOGLE_ARRAY, "query": {"alt": "json"}}  # Google's own stream always comes as events
        return _read_request(scope, fields, stream=self._streamed, **known)


class GoogleCountEndpoint(CountEndpoint):
    """The request to count may be in a field of its own, with a model's name."""

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        inner = get_field(fields, "generateContentRequest")
        return _read_request(scope, inner if isinstance(inner, dict) else fields, stream=False, **known)

    def write_count(self, tokens: int) -> dict[str, Any]:
        return {"totalTokens": tokens}


_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_PAGE, _MAX_PAGE = 50, 1000


async def list_models(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a page of the models that the caller may use. A page's token is the number of its first model."""
    names = exchange.generation.models.names(exchange.caller)
    size = min(_read_number(exchange, "pageSize", _PAGE) or _PAGE, _MAX_PAGE)
    start = _read_number(exchange, "pageToken", 0)
    page = [_entry(name, exchange.generation.models.target(name)) for name in names[start : start + size]]
    more = {"nextPageToken": str(start + size)} if start + size < len(names) else {}
    return {"models": page, **more}


async def find_model(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return one model. Raises NotFoundError and PermissionDeniedError."""
    name = exchange.scope["path_params"]["model"]
    return _entry(name, exchange.generation.models.resolve(name, exchange.caller).model)


def _entry(name: str, target: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"models/{name}",
        "version": "1",
        "displayName": name,
        "description": target,
        "supportedGenerationMethods": _METHODS,
    }
    if (facts := facts_of(target)) is not None:
        entry |= {"inputTokenLimit": facts.max_context_tokens, "outputTokenLimit": facts.max_output_tokens}
    return entry


def _read_number(exchange: Exchange, name: str, default: int) -> int:
    text = QueryParams(exchange.scope["query_string"]).get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 9:
        raise ClientError(f"{name}: {text!r:.40} is not a whole number of at most 9 digits")
    return int(text)


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
_Settings = tuple[int | None, Purpose | None, Truncate | None, tuple[str, ...]]
"""What may differ between the requests of a batch; the last are the fields that no other provider has."""


async def embed_content(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the vector of one content."""
    (vector,) = await _embed(exchange, [fields])
    return {"embedding": {"values": vector}, **_usage(exchange)}


async def embed_contents(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the vectors of several contents, in their order. Requests with the same settings go together."""
    requests = fields.get("requests")
    if not isinstance(requests, list) or not requests or not all(isinstance(each, dict) for each in requests):
        raise ClientError("requests: a list of at least one request is required")
    vectors = await _embed(exchange, requests)
    return {"embeddings": [{"values": vector} for vector in vectors], **_usage(exchange)}


async def _embed(exchange: Exchange, requests: list[Any]) -> list[list[float]]:
    groups: dict[_Settings, dict[int, EmbeddingInput]] = {}
    for number, request in enumerate(requests):
        groups.setdefault(_read_settings(request), {})[number] = _read_content(get_field(request, "content"))
    vectors: list[list[float]] = [[]] * len(requests)
    for (dimensions, purpose, truncate, unread), inputs in groups.items():
        request = EmbeddingRequest(
            model=exchange.scope["path_params"]["model"],
            inputs=list(inputs.values()),
            dimensions=dimensions,
            purpose=purpose,
            truncate=truncate,
            native=dict.fromkeys(unread),
        )
        found = await embed(exchange, request)
        for number, vector in zip(inputs, found, strict=True):
            vectors[number] = vector.tolist()
    return vectors


def _usage(exchange: Exchange) -> dict[str, Any]:
    return {"usageMetadata": {"promptTokenCount": sum(usage.prompt_tokens for usage in exchange.record.usages)}}


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
    return dimensions, _PURPOSES.get(task or ""), "end" if cuts else None, tuple(unread)


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
