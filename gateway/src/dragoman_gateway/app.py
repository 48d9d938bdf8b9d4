"""The application: its routes, and what all requests share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route

from dragoman import AsyncClient
from dragoman_gateway.access import Access, Caller, OpenAccess
from dragoman_gateway.endpoint import Endpoint
from dragoman_gateway.models import Models
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.wires import WIRES


class Gateway:
    """What all requests share: settings, the client of the models, and who may use it."""

    def __init__(self, settings: GatewaySettings, client: AsyncClient, access: Access) -> None:
        self.settings = settings
        self.client = client
        self.access = access
        self.models = Models(settings.models, client)

    async def client_for(self, caller: Caller) -> AsyncClient:
        """Return the client that holds what the caller may spend."""
        return self.client


def create_app(
    settings: GatewaySettings | None = None, *, client: AsyncClient | None = None, access: Access | None = None
) -> Starlette:
    """Return the application of a gateway.

    ``client`` asks the models; by default it is the one that dragoman.toml describes. ``access`` checks keys; without
    it, everyone who reaches the gateway may use it. The caller closes the client that it gives.
    """
    own = AsyncClient.from_config() if client is None else None
    gateway = Gateway(settings or GatewaySettings(), client or own or AsyncClient(), access or OpenAccess())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        if own is not None:
            await own.close()

    routes = [Route(wire.path, Endpoint(gateway, wire), methods=["POST"]) for wire in WIRES]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.gateway = gateway
    return app


def app_from_configuration() -> Starlette:
    """Return the application that dragoman.toml describes."""
    from dragoman_gateway.configuration import read_settings

    return create_app(read_settings())
