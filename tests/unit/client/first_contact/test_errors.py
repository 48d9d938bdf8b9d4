"""What a newcomer reads of an error: few frames of ours, and examples that can be copied."""

import asyncio
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import AsyncSession, Budget, BudgetExceededError, Session, get_adapter
from dragoman.errors import RequestError
from dragoman.tools import Context

MODEL = "anthropic:claude-opus-5-5"
_MOST_FRAMES = 3
_EXAMPLE = re.compile(r"\b(?:anthropic|openai|openai-chat|google|mistral|local|cohere):[a-z][\w./-]*\w")


def _poor(kind: Any) -> Any:
    return kind(MODEL, api_key="none", budgets=[Budget(usd="0.0000001")])


def _ask() -> None:
    with _poor(Session) as session:
        session.ask("Hi")


def _stream() -> None:
    with _poor(Session) as session, session.stream("Hi") as stream:
        list(stream)


def _ask_async() -> None:
    async def run() -> None:
        async with _poor(AsyncSession) as session:
            await session.ask("Hi")

    asyncio.run(run())


def _stream_async() -> None:
    async def run() -> None:
        async with _poor(AsyncSession) as session, session.stream("Hi") as stream:
            async for _ in stream:
                pass

    asyncio.run(run())


@pytest.mark.parametrize("call", [_ask, _stream, _ask_async, _stream_async])
def test_the_traceback_of_a_budget_is_short(call: Callable[[], None]) -> None:
    """The method that was called, what drives it, and where the error was raised."""
    with pytest.raises(BudgetExceededError) as caught:
        call()
    package = str(Path(dragoman.__file__).parent)
    ours = [each for each in traceback.extract_tb(caught.value.__traceback__) if each.filename.startswith(package)]
    assert len(ours) <= _MOST_FRAMES
    assert ours[-1].name == "reserve"


def test_the_frames_of_the_program_stay() -> None:
    """A function that the session calls is in the traceback of what it raises."""

    def choose_tools(context: Context[Any]) -> list[Any]:
        raise RequestError("no tools today")

    with Session(MODEL, api_key="none", tools=choose_tools) as session, pytest.raises(RequestError) as caught:
        session.ask("Hi")
    assert "choose_tools" in [each.name for each in traceback.extract_tb(caught.value.__traceback__)]


def _examples() -> Iterator[tuple[str, str]]:
    package = Path(dragoman.__file__).parent
    for file in package.rglob("*.py"):
        if file.is_relative_to(package / "testing"):
            continue
        for found in _EXAMPLE.findall(file.read_text(encoding="utf-8")):
            yield file.name, found


def test_examples_name_models_that_exist() -> None:
    """In errors, help texts and docstrings: a newcomer copies them."""
    unknown = set()
    for file, example in _examples():
        adapter = get_adapter(example)
        if adapter.model not in type(adapter).listed_models:
            unknown.add((file, example))
    assert not unknown
