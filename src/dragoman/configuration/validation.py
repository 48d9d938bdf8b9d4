"""Validates the constructor's arguments, so that a mistake is reported where it is made."""

import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from dragoman.adapter import registry
from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.names import foreign_value, nearest_name
from dragoman.canonical.message import Message
from dragoman.credentials.contract import IDENTITY_SETTINGS
from dragoman.transport import registered_setting_names
from dragoman.transport.settings import read_provider_settings

if TYPE_CHECKING:
    from dragoman.limits.budget import Budget, Per

_CLASSES = {
    "options": ("dragoman.adapter.contract", "AdapterOptions", "AdapterOptions(temperature=0)"),
    "limits": ("dragoman.limits.limits", "Limits", "Limits([Limit(...)])"),
    "router": ("dragoman.routing.router", "Router", "Router(...)"),
    "events": ("dragoman.events.bus", "EventBus", "EventBus()"),
    "policy": ("dragoman.policy.pipeline", "Pipeline", "Pipeline([...])"),
    "extensions": ("dragoman.canonical.extensions.extensions", "Extensions", "Extensions.model_validate(...)"),
    "tool_ids": ("dragoman.adapter.tool_ids", "ToolIdMap", "ToolIdMap.load(...)"),
}
"""The module and name of each argument's class, and an example of its construction."""

_LISTS = frozenset({"budgets", "tools", "labels", "middleware", "governors", "messages"})
"""The arguments that are lists."""
_CALLABLES = ("fetch", "approve", "new_id", "clock", "on_exchange")


def check_settings(arguments: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if an argument has the wrong class. None is accepted everywhere.

    A class that is not loaded yet has no instances, so the check imports nothing.
    """
    for name, value in arguments.items():
        if name in _LISTS:
            if name == "tools" and callable(value):
                from dragoman.tools.toolbox import is_toolset  # imported late: few sessions choose their tools

                if is_toolset(value):
                    continue
            _check_list(name, value)
        elif value is None:
            continue
        elif name in _CLASSES:
            check_class(name, value)
        elif name == "store":
            check_store(value)
        elif name == "prices" and not callable(getattr(value, "price", None)):
            raise ConfigurationError(f"prices must be a price table, not {_describe(value)}: see price_table()")
        elif name in _CALLABLES:
            _check_callable(name, value)


def _check_callable(name: str, value: Any) -> None:
    if not callable(value):
        raise ConfigurationError(f"{name} must be a function, not {_describe(value)}")


def check_class(name: str, value: Any) -> None:
    """Raise ConfigurationError if that argument is neither None nor of its class."""
    if value is None:
        return
    module, class_name, example = _CLASSES[name]
    loaded = sys.modules.get(module)
    if loaded is None or not isinstance(value, getattr(loaded, class_name)):
        raise ConfigurationError(
            f"{name} must be of the class {class_name}, not {_describe(value)}: create one with {example}"
        )


def _check_list(name: str, value: Any) -> None:
    """Raise ConfigurationError if the value is not a list, or if an element cannot be called as it should be. A single
    object is not accepted in place of a list: models iterate over their fields."""
    is_list = type(value) is tuple or type(value) is list  # as nearly all are, and an abstract class is asked slowly
    if not is_list and (isinstance(value, (str, bytes, Mapping, BaseModel)) or not isinstance(value, Iterable)):
        raise ConfigurationError(f"{name} must be a list, not {_describe(value)}: write {name}=[...]")
    if name == "middleware":
        for each in value:
            _check_callable(name, each)
    if name == "governors":
        for each in value:
            _check_callable(f"{name}: reserve", getattr(each, "reserve", None))


def read_budgets(budgets: Iterable[Any], per: "Per") -> "tuple[Budget, ...]":
    """Return the budgets of a list; those that do not say what they are for are ``per`` that. Raises ConfigurationError
    if one of them is not a Budget."""
    found = tuple(budgets)
    if not found:
        return ()
    from dragoman.limits.budget import Budget  # imported late: many programs have none

    for index, each in enumerate(found):
        if not isinstance(each, Budget):
            raise ConfigurationError(f"budgets[{index}] must be a Budget, such as Budget(usd=1), not {_describe(each)}")
        each.bind(per)
    return found


def check_messages(messages: Iterable[Any]) -> list[Message]:
    """Return the messages as a list, with a warning about the invariants that they break.

    Raises ConfigurationError if one of them is not a Message, and RequestError if one holds a medium whose data or type
    no provider takes: histories may come from the clients of a server.
    """
    _check_list("messages", messages)
    found = list(messages)
    for index, message in enumerate(found):
        if not isinstance(message, Message):
            raise ConfigurationError(
                f"messages[{index}]: {_describe(message)} is not a Message: dragoman.formats reads those of "
                f"other libraries{foreign_value('messages', found)}"
            )
    if found:
        from dragoman.canonical import rules  # imported late: most sessions begin without messages

        unusual = rules.find_unusual(found)
        for index in unusual:
            for violation in rules.check_media(found[index].content):
                raise RequestError(f"messages[{index}]: {violation}")
        rules.warn(found, "messages=", unusual)
    return found


def check_store(store: Any) -> None:
    """Raise ConfigurationError if the value is not a store. An AsyncStore is refused, because sessions do not await it;
    its ``store`` is accepted."""
    append = getattr(store, "append", None)
    if not callable(append) or inspect.iscoroutinefunction(append):
        raise ConfigurationError(
            f"store must be a Store, not {_describe(store)}: create one with Store('sqlite:///chats.db')"
        )


def _describe(value: Any) -> str:
    """Name the class only: the value may be secret."""
    return f"a value of the class {type(value).__name__}"


_IDENTITY = IDENTITY_SETTINGS | {"api_key", "credentials"}


def read_providers(providers: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, Any]]:
    """Return a checked copy of the settings by provider.

    Raises ConfigurationError for an unknown provider or setting, with the nearest name, and for a value that cannot be
    used.
    """
    if providers is None:
        return {}
    if not isinstance(providers, Mapping):
        raise ConfigurationError(
            f"providers must be a mapping such as {{'anthropic': {{...}}}}, not {_describe(providers)}"
        )
    check_provider_names("providers", providers)
    names = registered_setting_names()
    return {name: read_provider_settings(name, each, extra_names=names) for name, each in providers.items()}


def check_provider_names(setting: str, names: Iterable[str]) -> None:
    """Raise ConfigurationError, with the nearest name, for a name that is not a provider."""
    for name in names:
        if not registry.is_provider(name):
            known = registry.providers()
            raise ConfigurationError(f"unknown provider in {setting}: {name!r:.60}{nearest_name(str(name), known)}")


def merge_providers(
    providers: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return both; where both set the same, the changes win. Whatever says who asks (a key, credentials, a profile)
    takes the place of all that said so before."""
    merged: dict[str, Any] = dict(providers)
    for name, settings in changes.items():
        kept = merged.get(name, {})
        if any(settings.get(each) is not None for each in _IDENTITY):
            kept = {each: value for each, value in kept.items() if each not in _IDENTITY}
        merged[name] = {**kept, **settings}
    return merged
