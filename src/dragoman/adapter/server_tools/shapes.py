"""Settings of server tools that a wire writes in another shape. Each function returns values by path."""

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.adapter.wirejson import dumps_text

Shape = Callable[[str, Any], Mapping[str, Any]]


def _blocked_with_minus(path: str, domains: tuple[str, ...]) -> Mapping[str, Any]:
    return {path: [f"-{domain}" for domain in domains]}


def _american_date(path: str, day: Any) -> Mapping[str, Any]:
    return {path: day.strftime("%m/%d/%Y")}


def _timestamp(path: str, day: Any) -> Mapping[str, Any]:
    return {path: f"{day.isoformat()}T00:00:00Z"}


def _network_policy(path: str, network: Any) -> Mapping[str, Any]:
    if network == "off":
        return {path: {"type": "disabled"}}
    return {path: {"type": "allowlist", "allowed_domains": list(network)}}


def _enabled_tools(path: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Disable all tools of a toolset except the named ones."""
    return {"default_config.enabled": False, path: {name: {"enabled": True} for name in names}}


def _disabled_tools(path: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    return {path: {name: {"enabled": False} for name in names}}


def _approval(path: str, approval: Any) -> Mapping[str, Any]:
    named = not isinstance(approval, str)
    return {path: {"always": {"tool_names": list(approval)}} if named else approval}


def _allowed_mode(path: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    return {path: [{"mode": "any", "tools": list(names)}]}


def _bearer(path: str, token: str) -> Mapping[str, Any]:
    return {path: f"Bearer {token}"}


def _named_toolset(path: str, name: str) -> Mapping[str, Any]:
    """Name a server, and the toolset that refers to it."""
    return {path: name, "mcp_server_name": name}


def _pixels(path: str, display: tuple[int, int]) -> Mapping[str, Any]:
    width, height = display
    return {f"{path}_width_px": width, f"{path}_height_px": height}


def _width_and_height(path: str, display: tuple[int, int]) -> Mapping[str, Any]:
    width, height = display
    return {f"{path}_width": width, f"{path}_height": height}


def _expression(path: str, condition: Mapping[str, Any]) -> Mapping[str, Any]:
    return {path: _write_condition(condition)}


_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _write_condition(condition: Mapping[str, Any]) -> str:
    """Write a filter as an expression of the list filters of Google's APIs (https://google.aip.dev/160)."""
    kind = condition["type"]
    if kind in ("and", "or"):
        return "(" + f" {kind.upper()} ".join(map(_write_condition, condition["filters"])) + ")"
    return f"{condition['key']} {_SIGNS[kind]} {dumps_text(condition['value'])}"


SHAPES: Mapping[str, Shape] = {
    "allowed_mode": _allowed_mode,
    "american_date": _american_date,
    "approval": _approval,
    "bearer": _bearer,
    "disabled_tools": _disabled_tools,
    "enabled_tools": _enabled_tools,
    "expression": _expression,
    "minus": _blocked_with_minus,
    "named_toolset": _named_toolset,
    "network_policy": _network_policy,
    "pixels": _pixels,
    "timestamp": _timestamp,
    "width_and_height": _width_and_height,
}
