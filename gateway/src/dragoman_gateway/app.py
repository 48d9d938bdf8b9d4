"""The application: its routes, and what all requests share."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman import AsyncClient
from dragoman_gateway.access import Access
from dragoman_gateway.configuration import read_generation, read_settings
from dragoman_gateway.endpoints import pages, stored_responses
from dragoman_gateway.endpoints.compact import CompactEndpoint
from dragoman_gateway.endpoints.counting import CountEndpoint
from dragoman_gateway.endpoints.dashboard import routes as dashboard
from dragoman_gateway.endpoints.endpoint import Endpoint
from dragoman_gateway.running.board import Board
from dragoman_gateway.running.generation import Gateway, Generation
from dragoman_gateway.server import recording
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.vendors import embedding, google, ollama
from dragoman_gateway.vendors.forwarding import endpoint as forwarding
from dragoman_gateway.wires import MESSAGES, RESPONSES, WIRES


class _Application(Starlette):
    """Calls the endpoints of ``posts`` by their path alone. They answer their own errors, and nearly all requests are
    theirs: the search for a route and Starlette's handlers of errors would take a tenth of a request's CPU."""

    def __init__(self, posts: Mapping[str, ASGIApp], routes: Sequence[BaseRoute], lifespan: Any) -> None:
        found = [*(Route(path, endpoint, methods=["POST"]) for path, endpoint in posts.items()), *routes]
        super().__init__(routes=found, lifespan=lifespan, exception_handlers=pages.HANDLERS)
        self.router.redirect_slashes = False  # it would name the host and the scheme that a client or a proxy has sent
        self._posts = posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not self.user_middleware:
            endpoint = None if scope.get("root_path") else self._posts.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def create_app(
    settings: GatewaySettings | None = None, *, client: AsyncClient | None = None, access: Access | None = None
) -> Starlette:
    """Return the application of a gateway.

    ``client`` asks the models; by default it is the one that dragoman.toml describes. ``access`` checks keys; without
    it, everyone who reaches the gateway may use it, unless its database has keys. The caller closes the client that it
    gives.
    """
    made = AsyncClient.from_config() if client is None else client
    generation = Generation(settings or GatewaySettings(), made, access, owns_client=client is None)
    return build_app(Gateway(generation))


def app_from_configuration() -> Starlette:
    """Return the application that dragoman.toml describes. It can be reloaded.

    With a folder to replay, it asks no provider; with one to record, all traffic is written there. Raises
    ConfigurationError for one to record under a policy, because clients send words that the policy removes.
    """
    if (folder := recording.cassette_folder(recording.REPLAY_VARIABLE)) is not None:
        return recording.replay_app(folder, read_settings())
    gateway = Gateway(read_generation(), partial(read_generation, None), Board.of_environment())
    app = build_app(gateway)
    if (folder := recording.cassette_folder(recording.RECORD_VARIABLE)) is not None:
        recording.check_policy(gateway.current.client)
        app.add_middleware(recording.Recorder, folder=folder, client=lambda: gateway.current.client)
    return app


def build_app(gateway: Gateway) -> Starlette:
    """Return the application of a gateway."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        gateway.current.preload()
        following = None if gateway.board is None else asyncio.create_task(gateway.follow())
        yield
        if following is not None:
            following.cancel()
        await gateway.close()

    posts: dict[str, ASGIApp] = {
        **{wire.path: Endpoint(gateway, wire) for wire in WIRES},
        "/v1/messages/count_tokens": CountEndpoint(gateway, MESSAGES),
        "/v1/responses/input_tokens": CountEndpoint(gateway, RESPONSES),
        "/v1/responses/compact": CompactEndpoint(gateway, RESPONSES),
    }
    routes = [
        *stored_responses.routes(gateway),
        *embedding.routes(gateway),
        *google.routes(gateway),
        *ollama.routes(gateway),
        *forwarding.routes(gateway),
        *dashboard.routes(gateway),
        *pages.routes(gateway),
    ]
    app = _Application(posts, routes, lifespan)
    app.state.gateway = gateway
    return app
