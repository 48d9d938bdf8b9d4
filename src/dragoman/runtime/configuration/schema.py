"""What a configuration file may hold. docs/configuration.md describes each table."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from dragoman.routing import Rule


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a number")
    return value


Seconds = Annotated[float, BeforeValidator(_number), Field(gt=0)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Named(_Table):
    """A value that a variable of the environment holds."""

    variable: StrictStr


Text = Annotated[StrictStr, Field(min_length=1)]


class ProviderTable(_Table):
    """``[providers.NAME]``. Secrets do not belong here: a table names the variable, the file or the command that has
    them. See `ProviderSettings` for settings of the same names."""

    base_url: StrictStr | None = None
    proxy: StrictStr | None = None
    ca_file: StrictStr | None = None
    """A file with the certificates to trust, in place of the system's."""
    client_certificate: Text | None = None
    """A file with the client's own certificate, for servers that ask for one (mTLS)."""
    client_key: Text | None = None
    """A file with its key, if the certificate's file does not hold it."""
    headers: Mapping[StrictStr, StrictStr | Named] | None = None
    api_key_variable: Text | None = None
    """The environment variable with the key."""
    api_key_file: Text | None = None
    """A file with the key."""
    api_key_command: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | None = None
    """A program and its arguments, which prints the key. It runs without a shell."""
    profile: Text | None = None
    region: Text | None = None
    role_arn: Text | None = None
    project: Text | None = None
    location: Text | None = None
    credentials_file: Text | None = None
    impersonate: Text | None = None
    tenant: Text | None = None
    client_id: Text | None = None
    managed_identity: StrictBool | None = None
    timeout: Seconds | None = None
    connect_timeout: Seconds | None = None
    max_retries: Annotated[StrictInt, Field(ge=0)] | None = None
    max_connections: Annotated[StrictInt, Field(ge=1)] | None = None
    http2: StrictBool | None = None
    engine: StrictStr | None = None
    body_cap: Annotated[StrictInt, Field(ge=1)] | None = None


class LimitTable(_Table):
    """``[[limits]]``; see `Limit`."""

    models: StrictStr = "*"
    requests: Annotated[StrictInt, Field(ge=1)] | None = None
    tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    seconds: Seconds = 60.0
    shared: StrictBool = False
    burst: Annotated[float, BeforeValidator(_number), Field(gt=0, le=1)] = 0.1
    count_cached: StrictBool = True


class BudgetTable(_Table):
    """``[[budgets]]``; see `Budget`. An amount is a whole number or a text: a float is not exact."""

    usd: StrictInt | Annotated[Decimal, BeforeValidator(lambda value: _amount(value))] | None = None
    tokens: Annotated[StrictInt, Field(ge=0)] | None = None
    per: Literal["client", "session", "turn", "user", "team"] = "client"
    allow_unpriced: StrictBool = False


def _amount(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError('an amount as a text, such as "5.00"')
    return value


class PluginTable(_Table):
    """``[[plugins]]``: a plugin of the policy: a ready one, or an entry point of the group ``dragoman.plugins``."""

    name: StrictStr
    settings: Mapping[str, Any] = Field(default_factory=dict)


class Document(_Table):
    """The whole file."""

    store: StrictStr | None = None
    log: StrictBool = True
    """Whether the command line keeps conversations."""
    default_model: StrictStr | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)
    aliases: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    providers: Mapping[StrictStr, ProviderTable] = Field(default_factory=dict)
    limits: tuple[LimitTable, ...] = ()
    budgets: tuple[BudgetTable, ...] = ()
    plugins: tuple[PluginTable, ...] = ()
    gateway: Mapping[str, Any] = Field(default_factory=dict)
    """The settings of `dragoman serve`, which the distribution dragoman-gateway reads and checks."""
