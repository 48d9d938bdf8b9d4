"""The gateway: clients that use the wire of a vendor can call any model.

``dragoman_gateway:app`` is the ASGI application that `dragoman.toml` describes. `create_app` makes one in a program.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from dragoman_gateway.app import create_app
    from dragoman_gateway.settings import GatewaySettings

    app: Starlette

__all__ = ["GatewaySettings", "app", "create_app"]

_MODULES = {"create_app": "dragoman_gateway.app", "GatewaySettings": "dragoman_gateway.settings"}


def __getattr__(name: str) -> Any:
    """Make the application when it is first accessed: a server imports this module by name."""
    found: Any
    if name == "app":
        from dragoman_gateway.app import app_from_configuration

        found = app_from_configuration()
    elif name in _MODULES:
        found = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found
