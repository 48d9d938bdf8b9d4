"""The application: its routes, and what all requests share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route

from dragoman import AsyncClient
from dragoman_gateway import pages
from dragoman_gateway.access import Access, OpenAccess
from dragoman_gateway.configuration import read_generation
from dragoman_gateway.endpoint import Endpoint
from dragoman_gateway.generation import Gateway, Generation
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.wires import WIRES


def create_app(
    settings: GatewaySettings | None = None, *, client: AsyncClient | None = None, access: Access | None = None
) -> Starlette:
    """Return the application of a gateway.

    ``client`` asks the models; by default it is the one that dragoman.toml describes. ``access`` checks keys; without
    it, everyone who reaches the gateway may use it. The caller closes the client that it gives.
    """
    made = AsyncClient.from_config() if client is None else client
    generation = Generation(settings or GatewaySettings(), made, access or OpenAccess(), owns_client=client is None)
    return build_app(Gateway(generation))


def app_from_configuration() -> Starlette:
    """Return the application that dragoman.toml describes. It can be reloaded."""
    return build_app(Gateway(read_generation(), read_generation))


def build_app(gateway: Gateway) -> Starlette:
    """Return the application of a gateway."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await gateway.close()

    routes = [
        *(Route(wire.path, Endpoint(gateway, wire), methods=["POST"]) for wire in WIRES),
        *pages.routes(gateway),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=pages.HANDLERS)
    app.state.gateway = gateway
    return app
