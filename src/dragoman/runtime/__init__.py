"""What a client sets once for all its sessions: `ClientConfig`, and the transports that they share."""

from dragoman.runtime.config import (
    ClientConfig,
    ClientSettings,
    HasConfig,
    client_config,
    default_client_config,
    is_client,
    set_default_config,
)

__all__ = [
    "ClientConfig",
    "ClientSettings",
    "HasConfig",
    "client_config",
    "default_client_config",
    "is_client",
    "set_default_config",
]
