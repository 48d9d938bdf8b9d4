"""What a client sets once for all its sessions: `ClientConfig`, and the transports that they share."""

from dragoman.configuration.config import (
    ClientConfig,
    HasConfig,
    client_config,
    default_client_config,
    is_client,
    set_default_config,
)
from dragoman.configuration.settings import ClientSettings

__all__ = [
    "ClientConfig",
    "ClientSettings",
    "HasConfig",
    "client_config",
    "default_client_config",
    "is_client",
    "set_default_config",
]
