"""Google's Gemini API: generateContent as a stream or whole, token counts, models, and embeddings.

Clients write ``/v1beta`` or ``/v1`` before an address, or nothing.
"""

from functools import partial

from starlette.routing import Match, Route
from starlette.types import ASGIApp, Scope

from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.vendors.embedding import ENDPOINT
from dragoman_gateway.vendors.google import embeddings, models
from dragoman_gateway.vendors.google.endpoint import GoogleCountEndpoint, GoogleEndpoint
from dragoman_gateway.vendors.service import Service
from dragoman_gateway.wires import GOOGLE

__all__ = ["routes"]

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
        "embedContent": service(embeddings.answer_one, endpoint=ENDPOINT),
        "batchEmbedContents": service(embeddings.answer_batch, endpoint=ENDPOINT),
    }
    found: list[Route] = []
    for prefix in _PREFIXES:
        found += [Route(f"{prefix}{_MODEL}:{name}", app, methods=["POST"]) for name, app in posts.items()]
        get = _GoogleRoute if prefix == "/v1" else Route
        found.append(get(f"{prefix}/models", service(models.answer_list), methods=["GET"]))
        found.append(get(f"{prefix}{_MODEL}", service(models.answer_one), methods=["GET"]))
    return found
