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
    """The settings of one provider in a configuration file, ``[providers.NAME]``. Secrets do not belong here: a table
    names the variable, the file or the command that has them. See `ProviderSettings` for settings of the same names."""

    base_url: StrictStr | None = None
    """The provider's address, with its scheme."""
    proxy: StrictStr | None = None
    """The address of a proxy, in place of those in the environment."""
    ca_file: StrictStr | None = None
    """A file with the certificates to trust, in place of the system's."""
    client_certificate: Text | None = None
    """A file with the client's own certificate, for servers that ask for one (mTLS)."""
    client_key: Text | None = None
    """A file with its key, if the certificate's file does not hold it."""
    headers: Mapping[StrictStr, StrictStr | Named] | None = None
    """Headers of each request: a value, or the name of the variable that holds it."""
    api_key_variable: Text | None = None
    """The environment variable with the key."""
    api_key_file: Text | None = None
    """A file with the key."""
    api_key_command: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | None = None
    """A program and its arguments, which prints the key. It runs without a shell."""
    profile: Text | None = None
    """AWS: the profile, in place of AWS_PROFILE."""
    region: Text | None = None
    """AWS: the region, in place of AWS_REGION."""
    role_arn: Text | None = None
    """AWS: a role to assume with the credentials that are found."""
    project: Text | None = None
    """Google Cloud: the project, in place of GOOGLE_CLOUD_PROJECT."""
    location: Text | None = None
    """Google Cloud: the location, in place of GOOGLE_CLOUD_LOCATION; by default ``global``."""
    credentials_file: Text | None = None
    """Google Cloud: a file with credentials, in place of GOOGLE_APPLICATION_CREDENTIALS."""
    impersonate: Text | None = None
    """Google Cloud: the e-mail address of a service account to act as."""
    tenant: Text | None = None
    """Microsoft Entra: the tenant, in place of AZURE_TENANT_ID."""
    client_id: Text | None = None
    """Microsoft Entra: the application or the managed identity, in place of AZURE_CLIENT_ID."""
    managed_identity: StrictBool | None = None
    """Microsoft Entra: whether to use the managed identity of this machine and nothing else."""
    timeout: Seconds | None = None
    """Seconds for a whole call, with its retries and waits; for a stream, until it begins."""
    connect_timeout: Seconds | None = None
    """Seconds to open one connection, name lookup and TLS included."""
    max_retries: Annotated[StrictInt, Field(ge=0)] | None = None
    """Retries after the first attempt."""
    max_connections: Annotated[StrictInt, Field(ge=1)] | None = None
    """The maximum of connections to one host."""
    http2: StrictBool | None = None
    """Whether HTTP/2 is offered; it needs ``httpx[http2]``."""
    engine: StrictStr | None = None
    """The HTTP library: httpx, httpx2 or aiohttp."""
    body_cap: Annotated[StrictInt, Field(ge=1)] | None = None
    """The maximum of bytes, decompressed, of a whole reply."""


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
