"""What a client sets once for all its sessions: `ClientConfig`, and the transports that they share."""

from typing import TYPE_CHECKING

from dragoman.configuration.config import (
    ClientConfig,
    HasConfig,
    client_config,
    is_client,
    set_default_config,
)
from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.configuration.settings import ClientSettings

__all__ = [
    "ClientConfig",
    "ClientSettings",
    "HasConfig",
    "client_config",
    "is_client",
    "set_default_config",
]

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), {"configuration.settings": ("ClientSettings",)})
