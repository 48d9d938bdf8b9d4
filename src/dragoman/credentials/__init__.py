"""Proof of identity for providers: keys, functions, and the credentials of clouds.

`Credentials` is what a program implements for a source of its own; `Authorization` is what it returns.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.credentials.api_key import ApiKey
    from dragoman.credentials.contract import Authorization, Credentials, SignableRequest

__all__ = ["ApiKey", "Authorization", "Credentials", "SignableRequest"]

_MODULES = dict.fromkeys(__all__, "contract") | {"ApiKey": "api_key"}


if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
