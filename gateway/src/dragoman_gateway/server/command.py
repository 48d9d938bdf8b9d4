"""The command `dragoman serve`."""

import os
import socket
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from dragoman import ConfigurationError, get_adapter
from dragoman_gateway.configuration import MODEL_VARIABLE, read_settings
from dragoman_gateway.models import check_key_variables
from dragoman_gateway.running.hops import share_mark
from dragoman_gateway.running.services import requires_keys
from dragoman_gateway.running.state_keys import VARIABLE, new_state_key, read_state_keys
from dragoman_gateway.server.logs import configure_logs
from dragoman_gateway.server.process import Server
from dragoman_gateway.server.protocol import Protocol
from dragoman_gateway.server.recording import RECORD_VARIABLE, REPLAY_VARIABLE, replay_app
from dragoman_gateway.server.workers import Workers
from dragoman_gateway.settings import GatewaySettings

APPLICATION = "dragoman_gateway:app"
_BACKLOG = 2048
_END_SECONDS = 10
"""How long connections may take to end, after all requests were answered or left."""


def serve(
    config: Annotated[
        Path | None, typer.Option(help="The configuration file; by default the one that applies.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; by default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on; by default 8080.")] = None,
    model: Annotated[str | None, typer.Option(help="The model that answers for every other name.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="The number of processes; by default 1.")] = None,
    record: Annotated[Path | None, typer.Option(help="Write all traffic into this folder, as cassettes.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer only from the cassettes of this folder.")] = None,
) -> None:
    """Answers clients of Messages, Chat Completions, Responses, Google and Ollama with any model."""
    use_cassettes(record, replay)
    if config is not None:
        os.environ["DRAGOMAN_CONFIG"] = str(config.resolve())  # each worker reads it
    if model is not None:
        os.environ[MODEL_VARIABLE] = str(get_adapter(model).model_id)
    changes = {"host": host, "port": port, "workers": workers}
    settings = read_settings()
    if keys := os.environ.get(VARIABLE):
        read_state_keys(keys)
    settings = GatewaySettings.from_table(
        {**settings.model_dump(), **{name: value for name, value in changes.items() if value is not None}}
    )
    for places in settings.models.values():  # a mistake is reported here, not by each worker again and again
        check_key_variables(() if isinstance(places, str) else places, os.environ)
    check_address(settings, has_keys=settings.is_local or requires_keys(settings))
    with listen(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
        typer.echo(f"Dragoman gateway: http://{f'[{host}]' if ':' in str(host) else host}:{port}", err=True)
        if not os.environ.get(VARIABLE):
            os.environ[VARIABLE] = new_state_key()  # all workers need the same
        if settings.workers == 1:
            work(listener)
        else:
            share_mark()
            Workers(settings.workers, work, listener).run()


def use_cassettes(record: Path | None, replay: Path | None) -> None:
    """Pass each worker the folder for recording or replaying. Raises ConfigurationError for both."""
    if record is not None and replay is not None:
        raise ConfigurationError("a gateway either records or replays: choose one of --record and --replay")
    if record is not None:
        os.environ[RECORD_VARIABLE] = str(record.resolve())
    if replay is not None:
        replay_app(replay)  # a mistake is said here, not by each worker
        os.environ[REPLAY_VARIABLE] = str(replay.resolve())


def work(listener: socket.socket) -> None:
    """Answer the requests that arrive at the socket, in this process."""
    settings = read_settings()
    config = uvicorn.Config(
        APPLICATION,
        http=Protocol,
        loop="auto",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=True,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_END_SECONDS,
    )
    configure_logs(settings.log_level, settings.log_format)  # after uvicorn has configured its own
    Server(config, head_seconds=settings.body_seconds, max_connections=settings.max_connections).run(sockets=[listener])


def check_address(settings: GatewaySettings, *, has_keys: bool) -> None:
    """Raise ConfigurationError if other computers could reach a gateway without keys."""
    if not has_keys and not settings.is_local:
        raise ConfigurationError(
            f"the gateway would listen on {settings.host} without keys: anyone who reaches it could spend your money. "
            "Create a key with `dragoman gateway keys create`, or listen on 127.0.0.1"
        )


def listen(host: str, port: int) -> socket.socket:
    """Return the socket that all workers share. Raises ConfigurationError if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"the gateway cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
        ) from None
    # Connections inherit it. uvloop sets it too, and asyncio only for sockets that name their protocol: without it, the
    # end of a small reply waits until the client has acknowledged its beginning.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
