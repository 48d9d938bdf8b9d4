"""The interfaces of vendors whose addresses have more than one purpose: Google's and Ollama's, and all embeddings."""

from starlette.routing import Route

from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.vendors import forwarding, google, ollama, openai_embeddings

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of all vendors."""
    return [
        *openai_embeddings.routes(gateway),
        *google.routes(gateway),
        *ollama.routes(gateway),
        *forwarding.routes(gateway),
    ]
