"""Tools in forms that other wires lack: functions in a namespace, and tools whose input is a free text.

A function of a namespace is a tool like any other elsewhere. Its canonical name holds both names, so that functions of
two namespaces stay two, and its calls get both names back.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

SEPARATOR = "__"

Item = Mapping[str, Any]


class ClientTool(NamedTuple):
    """How the client names a tool, and whether its input is a free text."""

    name: str
    namespace: str | None
    is_custom: bool


def canonical_name(native: Item) -> str:
    """Return the canonical name of the tool that an item calls.

    A function that the tool search has loaded is called in a namespace of its own name, which nobody declared
    (recorded).
    """
    name: str = native["name"]
    namespace = native.get("namespace")
    has_namespace = isinstance(namespace, str) and namespace and namespace != name
    return f"{namespace}{SEPARATOR}{name}" if has_namespace else name


def flat_tools(natives: Iterable[Item]) -> Iterator[tuple[Item, Item | None]]:
    """Yield each tool with its namespace. A namespace that holds something else than tools with names stays whole."""
    for native in natives:
        inner = native.get("tools") if native.get("type") == "namespace" and native.get("name") else None
        if isinstance(inner, list) and inner and all(isinstance(each, Mapping) and each.get("name") for each in inner):
            yield from ((each, native) for each in inner)
        else:
            yield native, None


def group_tools(tools: Iterable[tuple[dict[str, Any], Item | None]]) -> list[dict[str, Any]]:
    """Return the tools with their namespaces around them: the reverse of `flat_tools`."""
    grouped: list[dict[str, Any]] = []
    for namespace, members in groupby(tools, key=lambda each: each[1]):
        found = [tool for tool, _ in members]
        grouped += found if namespace is None else [{**namespace, "tools": found}]
    return grouped


def client_tools(fields: Item) -> dict[str, ClientTool]:
    """Return the tools of a client's request by canonical name."""
    natives = fields.get("tools")
    found: dict[str, ClientTool] = {}
    for native, group in flat_tools(each for each in natives if isinstance(each, Mapping)) if natives else ():
        if isinstance(name := native.get("name"), str):
            namespace = group["name"] if group else None
            tool = ClientTool(name, namespace, native.get("type") == "custom")
            found[canonical_name({"name": name, "namespace": namespace})] = tool
    return found


def calls_of(items: Any) -> dict[str, str]:
    """Return the names of the tools that a history calls with a free text, by the type and name of the item."""
    calls = (each for each in items if isinstance(each, Mapping)) if isinstance(items, list) else ()
    return {
        f"{CUSTOM_CALL}:{each['name']}": each["name"]
        for each in calls
        if each.get("type") == CUSTOM_CALL and isinstance(each.get("name"), str) and isinstance(each.get("input"), str)
    }


CUSTOM_CALL = "custom_tool_call"
