"""Names that only the source shows: logger names, fields of log records, environment variables, words of our own."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, distribution
from importlib.util import find_spec
from pathlib import Path

from dragoman import get_adapter
from dragoman.adapter.registry import GROUP

DISTRIBUTION = "dragoman"
_OWN_VARIABLE = re.compile(r"DRAGOMAN_[A-Z0-9_]+")
_OWN_WORD = re.compile(r"dragoman[_-][a-z0-9_-]+")
_PLACEHOLDER = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")
_READS = ("get", "setdefault", "pop")
_LOGGERS = ("getLogger", "get_logger")
_LOGS = ("log", "debug", "info", "warning", "error", "exception", "critical")


def entries(group: str) -> list[EntryPoint]:
    """What the distribution registers in a group."""
    return [entry for entry in distribution(DISTRIBUTION).entry_points if entry.group == group]


@cache
def packages() -> tuple[str, ...]:
    """The top-level packages of the distribution: those in its entry points."""
    return tuple(sorted({entry.module.partition(".")[0] for entry in distribution(DISTRIBUTION).entry_points}))


@cache
def folders() -> tuple[Path, ...]:
    """The folders of the packages."""
    found = [spec.submodule_search_locations for name in packages() if (spec := find_spec(name)) is not None]
    return tuple(Path(place) for places in found for place in places or ())


@cache
def _nodes() -> tuple[ast.AST, ...]:
    files = sorted(file for folder in folders() for file in folder.rglob("*.py"))
    return tuple(node for file in files for node in ast.walk(ast.parse(file.read_bytes())))


def _calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call, with the last part of the called name."""
    for node in _nodes():
        if isinstance(node, ast.Call):
            yield _last_name(node.func), node


def loggers() -> Iterator[str]:
    return (text for name, call in _calls() if name in _LOGGERS for text in _texts(*call.args))


def log_fields() -> Iterator[str]:
    """Fields of log records besides their message."""
    for name, call in _calls():
        for keyword in call.keywords:
            if name in _LOGS and keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
                yield from _texts(*keyword.value.keys)


def environment() -> Iterator[str]:
    """All environment variables that are read, and those that adapters declare for keys and addresses."""
    for node in _nodes():
        yield from (text for text in _texts(node) if _OWN_VARIABLE.fullmatch(text))
        if isinstance(node, ast.Subscript) and _is_environment(node.value):
            yield from _texts(node.slice)
    for name, call in _calls():
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name == "getenv" or (of is not None and name in _READS and _is_environment(of)):
            yield from _texts(*call.args[:1])
    for entry in entries(GROUP):
        endpoint = get_adapter(f"{entry.name}:any").endpoint
        yield from (*endpoint.key_variables, *_PLACEHOLDER.findall(endpoint.base_url))
        if endpoint.base_url_variable is not None:
            yield endpoint.base_url_variable


def codes() -> Iterator[str]:
    """The codes of refusals and errors that this library makes itself."""
    return (
        text for _, call in _calls() for keyword in call.keywords if keyword.arg == "code"
        for text in _texts(keyword.value)
    )  # fmt: skip


def own_words() -> Iterator[str]:
    """Texts that start with the library's name and are not a package: marks of formats, names in files."""
    return (
        text for node in _nodes() for text in _texts(node) if _OWN_WORD.fullmatch(text) and text not in packages()
    )  # fmt: skip


def _texts(*nodes: ast.AST | None) -> Iterator[str]:
    return (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_environment(node: ast.AST) -> bool:
    return _last_name(node).strip("_") in ("environ", "environment")
