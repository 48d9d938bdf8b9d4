"""What a session is given, held against what it is for: a mistake is told where it is made, not turns later."""

import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.session.budget import Budget
from dragoman.session.toolbox import Tool

_KINDS = {
    "options": ("dragoman.adapter.contract", "AdapterOptions", "AdapterOptions(temperature=0)"),
    "limits": ("dragoman.limits.limits", "Limits", "Limits([Limit(...)])"),
    "router": ("dragoman.routing.chain", "Router", "Router(...)"),
    "events": ("dragoman.events.bus", "EventBus", "EventBus()"),
    "policy": ("dragoman.policy.pipeline", "Pipeline", "Pipeline([...])"),
    "extensions": ("dragoman.canonical.extensions", "Extensions", "Extensions.model_validate(...)"),
    "tool_ids": ("dragoman.adapter.tool_ids", "ToolIdMap", "ToolIdMap.load(...)"),
}
"""Where the class of an argument is, and how one is made."""

_LISTS: Mapping[str, type] = {"messages": Message, "budgets": Budget, "tools": Tool}


def check_kinds(given: Mapping[str, Any]) -> None:
    """Raises ConfigurationError where an argument is of another class than its own; None is none.

    A class that was not loaded yet has no objects, so nothing is imported to find out.
    """
    for name, value in given.items():
        if value is None or name not in _KINDS:
            continue
        module, kind, example = _KINDS[name]
        loaded = sys.modules.get(module)
        if loaded is None or not isinstance(value, getattr(loaded, kind)):
            raise ConfigurationError(f"{name}: {_shown(value)} is no {kind}; one is made by {example}")


def check_lists(given: Mapping[str, Any]) -> None:
    """Raises ConfigurationError where one object stands in the place of a list."""
    for name, value in given.items():
        if isinstance(value, (str, bytes, Mapping, _LISTS[name])) or not isinstance(value, Iterable):
            raise ConfigurationError(f"{name}: {_shown(value)} is no list; write {name}=[...]")


def check_messages(messages: Iterable[Any]) -> list[Message]:
    """Raises ConfigurationError where one of them is no message."""
    found = list(messages)
    for index, message in enumerate(found):
        if not isinstance(message, Message):
            raise ConfigurationError(
                f"messages[{index}]: {_shown(message)} is no Message; dragoman.formats reads those of other libraries"
            )
    return found


def check_calls(given: Mapping[str, Any]) -> None:
    """Raises ConfigurationError where what is to be asked cannot be called."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise ConfigurationError(f"{name}: {_shown(value)} cannot be called; give a function")


def check_store(store: Any) -> None:
    """Raises ConfigurationError where a store cannot keep a session. Of an AsyncStore, sessions take its ``store``."""
    append = getattr(store, "append", None)
    if store is None or (callable(append) and not inspect.iscoroutinefunction(append)):
        return
    raise ConfigurationError(f"store: {_shown(store)} is no Store; one is made by Store('sqlite:///chats.db')")


def _shown(value: Any) -> str:
    """Its class: what is in it may be secret."""
    return f"a value of the class {type(value).__name__}"
