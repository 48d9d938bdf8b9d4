"""The table ``[gateway.responses]`` of dragoman.toml. docs/gateway-keys.md describes each setting."""

from pydantic import BaseModel, ConfigDict, Field


class ResponseSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    keep: bool = True
    """Whether responses are stored; if not, every request counts as one with ``store`` set to false."""
    days: float = Field(default=30.0, gt=0, le=3650)
    """How long a response is kept after it was made or continued."""
    state_days: float = Field(default=1.0, gt=0, le=3650)
    """How long the state of tool calls is kept for clients of Chat Completions."""
    max_background: int = Field(default=1_000, ge=0)
    """The most responses that run in the background, in one process."""
