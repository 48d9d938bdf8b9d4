"""The table ``[gateway]`` of dragoman.toml. docs/gateway.md describes each setting."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, Field, ValidationError, field_validator

from dragoman import ConfigurationError
from dragoman_gateway.keys.alerts import AlertSettings
from dragoman_gateway.models import DeploymentSettings, KnownModel
from dragoman_gateway.toml import SettingsTable
from dragoman_gateway.turn.other_wire import OtherWireSettings
from dragoman_gateway.turn.recall import UnknownHistory
from dragoman_gateway.wires.forwarded import unknown_names

Place = tuple[str | int, ...]


def find_mistakes(model: type[BaseModel], table: Mapping[str, Any], error: ValidationError) -> list[tuple[Place, str]]:
    """Return the place of each mistake and a description without the value, which may be secret."""
    found: list[tuple[Place, str]] = []
    for each in error.errors(include_input=False, include_url=False):
        place = _place_in(table, each["loc"])
        if place is None:
            continue
        problem = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            table_model = model  # the model of the table at that place
            for step in place[:-1]:
                if isinstance(step, str) and step in table_model.model_fields:
                    table_model = next(_models_of(table_model.model_fields[step].annotation), table_model)
            near = difflib.get_close_matches(str(place[-1]), table_model.model_fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(table_model.model_fields)}"
            problem = f"an unknown setting; {hint}"
        found.append((("gateway", *place), problem))
    return found


def _place_in(table: Any, location: Place) -> Place | None:
    """Return the keys of the file in a location of pydantic, which also names the alternatives of a type. None if the
    mistake is one of an alternative that the value does not look like."""
    place: list[str | int] = []
    for index, step in enumerate(location):
        if isinstance(table, Mapping) and (step in table or index == len(location) - 1):
            place.append(step)
            table = table.get(step)
        elif isinstance(table, (list, tuple)) and isinstance(step, int):
            place.append(step)
            table = table[step]
        elif str(step).startswith("tuple[") is not isinstance(table, (list, tuple)):
            return None
    return tuple(place)


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_of(each)


LOOPBACK = ("127.0.0.1", "::1", "localhost")


class KeySettings(SettingsTable):
    """The table ``[gateway.keys]``. docs/gateway-keys.md describes each setting."""

    required: bool = False
    """Whether a key is required even if none was created yet. One that was created is always required."""
    max_age: float = Field(default=3.0, ge=1, le=4)
    """The seconds after which a revoked key is refused on every replica."""
    max_outage: float = Field(default=300.0, ge=5)
    """The seconds for which known keys work while the database does not answer."""
    counters: str | None = Field(default=None, repr=False)
    """The URL of the Redis that counts limits for all replicas; None counts them in each process."""
    counters_name: str = "dragoman-gateway"
    """Separates gateways that share a Redis."""
    max_wait: float = Field(default=10.0, ge=0)
    """The most seconds that a request waits for a limit, before it is refused."""
    concurrency: int | None = Field(default=None, ge=1)
    """How many requests of a key may run at the same time, if the key has no number of its own."""
    reserve_output: int | None = Field(default=None, ge=1)
    """The output tokens that a budget reserves at first; None reserves the most that the request allows."""
    charge_failed: bool = True
    """Whether a stream that its provider broke off is charged for what had arrived. One that the client left always
    is."""
    shared_ids: tuple[str, ...] = ()
    """Patterns of files, containers and conversations that every key may use."""


class ResponseSettings(SettingsTable):
    """The table ``[gateway.responses]``. docs/gateway-keys.md describes each setting."""

    keep: bool = True
    """Whether responses are stored; if not, every request counts as one with ``store`` set to false."""
    days: float = Field(default=30.0, gt=0, le=3650)
    """How long a response is kept after it was made or continued."""
    state_days: float = Field(default=1.0, gt=0, le=3650)
    """How long the state of tool calls is kept for clients of Chat Completions."""
    max_background: int = Field(default=1_000, ge=0)
    """The most responses that run in the background, in one process."""


class ReplaySettings(SettingsTable):
    """The table ``[gateway.replay]``: what is ignored in requests, besides the labels of known clients."""

    ignored_fields: tuple[str, ...] = ()
    """Paths of fields in a body, such as ``metadata.build``."""
    ignored_patterns: tuple[re.Pattern[str], ...] = ()
    """Regular expressions of what is ignored in any text; if one has groups, only what they match."""


class GatewaySettings(SettingsTable):
    """The settings of a gateway, which never change."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    allowed_hosts: tuple[str, ...] = ()
    """Names or patterns of names under which clients reach a gateway without keys, besides those of this computer."""
    allowed_origins: tuple[str, ...] = ()
    """Origins or patterns of origins, such as ``https://notes.example``, whose pages may ask a gateway without keys."""
    workers: int = Field(default=1, ge=1)
    """The number of processes that answer requests."""
    database: str | None = Field(default=None, repr=False)
    """The URL of the database that all replicas share: keys, spend, stored responses. `dragoman serve` uses a file in
    the user's data folder without it."""
    keys: KeySettings = KeySettings()
    alerts: AlertSettings | None = None
    """What is called when a share of a budget is spent."""
    responses: ResponseSettings = ResponseSettings()
    models: Mapping[str, KnownModel | tuple[DeploymentSettings, ...]] = Field(default_factory=dict)
    """Names or patterns of names that clients ask for, each with the model that answers, or with several deployments of
    it. The first match counts."""
    replay: ReplaySettings = ReplaySettings()
    """How ``--replay`` compares requests."""
    exact_bytes: bool = False
    """Whether a provider of the client's wire gets fields by the client's names too if the model wants other ones."""
    forward: tuple[str, ...] = ()
    """Addresses of vendors that are forwarded as they are: by address, such as ``POST /v1/moderations``, by kind, such
    as ``files``, or by the kind of one vendor, such as ``openai.files``."""
    forward_cap: int = Field(default=512 * 1024 * 1024, ge=1)
    """The most bytes of a form that is forwarded. It is streamed, and never held as a whole."""
    strict: bool = False
    """Whether a request is refused if its history loses something that is more than a detail."""
    other_wire: OtherWireSettings = OtherWireSettings()
    """What is changed in requests to a provider of another wire."""
    unknown_history: UnknownHistory = "label"
    """What happens under a policy to a conversation with answers that the gateway does not know: ``label`` gives it all
    labels of the key's conversations, ``refuse`` refuses it if there are any."""
    max_requests: int = Field(default=2000, ge=1)
    """The most requests that are answered at the same time, in one process."""
    body_seconds: float = Field(default=60.0, gt=0)
    """How long a client may take to send the head of its request, and then its body."""
    reader_seconds: float = Field(default=300.0, gt=0)
    """How long a client may read nothing of a stream before it is disconnected."""
    drain_seconds: float = Field(default=600.0, gt=0)
    """How long requests that have begun may take after the signal to end."""
    max_unstored: int = Field(default=10_000, ge=1)
    """The most requests that wait to be stored; older ones are dropped and counted."""
    store_outage: Literal["open", "closed"] = "open"
    """Whether requests pass while the store does not answer."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """What `dragoman serve` writes to its standard error; ``info`` has a line for each request."""
    log_format: Literal["text", "json"] = "text"
    """The form of these lines; ``json`` is one object a line, with the id of the request."""
    telemetry: Literal["off", "spans", "content"] = "off"
    """Whether requests become spans of OpenTelemetry, which join the trace of the client; ``content`` writes the
    content of messages into them."""
    body_cap: int = Field(default=32 * 1024 * 1024, ge=1)
    """The most bytes of a request's body, decompressed and with the content of its references."""
    max_inflation: float = Field(default=100.0, ge=1)
    """How many times its size a compressed body may grow to. Each may grow to 8 MiB."""
    max_values: int = Field(default=200_000, ge=1)
    """The most values in a request, with the content of its references: each object, array, text and number."""
    max_name: int = Field(default=500, ge=1)
    """The most characters in the name of a model."""
    max_bodies: int = Field(default=192 * 1024 * 1024, ge=1)
    """The most bytes of bodies that are held at the same time, in one process."""
    max_repeated: int = Field(default=64 * 1024 * 1024, ge=0)
    """The most bytes, in one process, for what clients have sent and may send again: tools and earlier messages need
    not be read again. Half of them are for one key; 0 keeps nothing."""
    repeated_seconds: float = Field(default=300.0, gt=0)
    """How long such a part is kept after it was last sent."""
    share: float = Field(default=0.5, gt=0, le=1)
    """The part of ``max_requests`` and ``max_bodies`` that one key may hold; without keys, one address."""
    max_connections: int = Field(default=10_000, ge=1)
    """The most connections at the same time, in one process. Above, the one that was idle longest is closed."""
    first_event_seconds: float = Field(default=5.0, gt=0)
    """How long the status of a stream waits for the first event of the provider."""
    own_retries: bool = False
    """Whether the gateway retries a deployment before it refuses, within ``first_event_seconds``. Clients that retry
    too multiply these attempts."""
    ping_seconds: float = Field(default=10.0, gt=0)
    """The seconds of silence in a stream after which the client gets a keep-alive."""

    @field_validator("forward")
    @classmethod
    def _check_forward(cls, opened: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := unknown_names(opened):
            raise ValueError(f"{unknown[0]!r:.120} is not an address or a kind that can be forwarded")
        return opened

    @classmethod
    def from_table(
        cls,
        table: Mapping[str, Any],
        path: Path | None = None,
        line_of: Callable[[tuple[str | int, ...]], int] | None = None,
    ) -> Self:
        """Return the settings of the table ``[gateway]``. ``line_of`` returns the line of a place in the file. Raises
        ConfigurationError with every mistake."""
        try:
            return cls.model_validate(dict(table))
        except ValidationError as error:
            mistakes = [
                (place, f"{'.'.join(map(str, place))}: {problem}")
                for place, problem in find_mistakes(cls, table, error)
            ]
            if line_of is None:
                raise ConfigurationError("; ".join(mistake for _, mistake in mistakes)) from None
            listed = "\n  ".join(f"{path}:{line_of(place)}: {mistake}" for place, mistake in mistakes)
            raise ConfigurationError(f"the table [gateway] has mistakes:\n  {listed}") from None

    @property
    def is_local(self) -> bool:
        """Whether only this computer can reach the gateway."""
        return self.host in LOOPBACK
