"""Ollama's API: chat, generate, embed, and what a client asks about the models (https://docs.ollama.com/api)."""

from functools import partial

from starlette.routing import Route
from starlette.types import ASGIApp

from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.vendors.embedding import ENDPOINT
from dragoman_gateway.vendors.ollama import embeddings, models
from dragoman_gateway.vendors.ollama.endpoint import GENERATE, OllamaEndpoint
from dragoman_gateway.vendors.service import Service
from dragoman_gateway.wires import OLLAMA

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of Ollama's clients."""
    service = partial(Service, gateway, OLLAMA, any_type=True)
    posts: dict[str, ASGIApp] = {
        "chat": OllamaEndpoint(gateway, OLLAMA),
        "generate": OllamaEndpoint(gateway, GENERATE),
        "embed": service(embeddings.answer, endpoint=ENDPOINT),
        "embeddings": service(embeddings.answer_one, endpoint=ENDPOINT),
        "show": service(models.show),
    }
    gets = {"tags": models.list_models, "version": models.show_version, "ps": models.list_running}
    return [
        *(Route(f"/api/{name}", app, methods=["POST"]) for name, app in posts.items()),
        *(Route(f"/api/{name}", service(answer), methods=["GET"]) for name, answer in gets.items()),
    ]
