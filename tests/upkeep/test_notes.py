"""`provider_raw` is read and written by adapters, and by `dragoman.adapter.notes` for the rooms above."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWNERS = ("src/dragoman/adapter/", "src/dragoman/canonical/", "src/dragoman/testing/")
"""The contract, the form of a message, and the kit and the cassettes that judge what adapters note."""
_NAME = "provider_raw"


def touches(source: str) -> Iterator[int]:
    """Yield the lines that read the field, or write something of their own into it. To leave it out, or to pass on
    what a function of the adapter returned, is neither."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) if name == _NAME:
                yield node.lineno
            case ast.Subscript(slice=ast.Constant(value=name)) if name == _NAME:
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=name), *_]) if name == _NAME:
                yield node.lineno
            case ast.keyword(arg=name, value=ast.Dict()) if name == _NAME:
                yield node.value.lineno
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == _NAME and isinstance(value, ast.Dict):
                        yield key.lineno


def test_provider_raw_is_the_adapters_own() -> None:
    """No room above the adapters knows what is in it, and neither does the gateway."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("src", "gateway/src")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(OWNERS)
        for line in touches(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "state = (reply.metadata.provider_raw or {}).get('status')",
        "state = fields['provider_raw']['status']",
        "state = fields.get('provider_raw', {})",
        "ToolDefinition(provider_raw={'by': 'umf'})",
        "metadata.model_copy(update={'provider_raw': {'by': 'umf'}})",
    ],
)
def test_a_reader_and_a_writer_are_found(source: str) -> None:
    assert list(touches(source)) == [1]


@pytest.mark.parametrize(
    "source", ["metadata.model_copy(update={'provider_raw': None})", "dump(exclude={'provider_raw'})"]
)
def test_to_leave_it_out_is_allowed(source: str) -> None:
    assert list(touches(source)) == []
