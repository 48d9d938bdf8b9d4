"""The table ``[gateway.keys]`` of dragoman.toml. docs/gateway-keys.md describes each setting."""

from pydantic import BaseModel, ConfigDict, Field


class KeySettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

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
