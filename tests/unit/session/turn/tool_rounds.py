"""Sessions whose model calls tools, round by round."""

from typing import Any

from dragoman.canonical.blocks import TextBlock
from tests.unit.session.drivers import Driver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

FOREVER = 60
"""Seconds: longer than any test."""


def session_of(driver: Driver, *rounds: tuple[Call, ...], **settings: Any) -> tuple[Any, Wire]:
    """A session whose model makes these calls, round by round, and then answers."""
    replies = [handwritten_anthropic(*calls) for calls in rounds]
    wire = Wire([*replies, handwritten_anthropic("Done."), handwritten_anthropic("Done.")])
    return driver.session({"anthropic": wire}, **settings), wire


def call(tool_name: str, number: int = 1, /, **arguments: Any) -> Call:
    return Call(f"toolu_{number}", tool_name, arguments)


def results(session: Any) -> list[tuple[str, bool]]:
    """The text of each result, and whether it is an error."""
    found = [result for message in session.messages for result in message.tool_results]
    return [
        ("".join(part.text for part in each.content if isinstance(part, TextBlock)), each.is_error) for each in found
    ]
