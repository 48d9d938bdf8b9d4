"""The command `dragoman serve`."""

from pathlib import Path
from typing import Annotated

import typer

from dragoman import AsyncClient, ConfigurationError
from dragoman_gateway.app import create_app
from dragoman_gateway.configuration import read_settings
from dragoman_gateway.settings import GatewaySettings


def serve(
    config: Annotated[
        Path | None, typer.Option(help="The configuration file; by default the one that applies.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on.")] = None,
) -> None:
    """Answers clients of Messages, Chat Completions and Responses with any model."""
    import uvicorn  # imported late: a check of the settings needs no server

    settings = read_settings(config)
    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = GatewaySettings.from_table({**settings.model_dump(), **changes})
    check_address(settings, has_keys=False)
    app = create_app(settings, client=AsyncClient.from_config(config))
    uvicorn.run(app, host=settings.host, port=settings.port, log_level="warning", access_log=False)


def check_address(settings: GatewaySettings, *, has_keys: bool) -> None:
    """Raise ConfigurationError if other computers could reach a gateway without keys."""
    if not has_keys and not settings.is_local:
        raise ConfigurationError(
            f"the gateway would listen on {settings.host} without keys: anyone who reaches it could spend your money. "
            "Create a key with `dragoman gateway keys create`, or listen on 127.0.0.1"
        )
