"""The interfaces of vendors whose addresses have more than one purpose: Google's and Ollama's, and all embeddings."""

from starlette.routing import Route

from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.vendors import embedding, forwarding, google, ollama

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of all vendors."""
    return [
        *embedding.routes(gateway),
        *google.routes(gateway),
        *ollama.routes(gateway),
        *forwarding.routes(gateway),
    ]
