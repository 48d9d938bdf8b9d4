"""Writers take a list of messages, and name anything else clearly."""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman import Message
from dragoman.formats import to_acp, to_chatml, to_cmf, to_message_body, to_messages, to_native, to_umf

WRITERS: dict[str, Callable[[Any], Any]] = {
    "acp": to_acp,
    "chatml": to_chatml,
    "cmf": to_cmf,
    "messages": to_messages,
    "native": lambda messages: to_native("anthropic", messages),
    "umf": to_umf,
}


@pytest.mark.parametrize("shape", WRITERS)
def test_a_history_is_a_list_of_messages(shape: str) -> None:
    """One message, a text and a list of dicts are named in errors; a generator works."""
    write = WRITERS[shape]
    with pytest.raises(TypeError, match="a history must be a list of messages, not a Message"):
        write(Message.user("Hi"))
    with pytest.raises(TypeError, match="not a str"):
        write("Hi")
    with pytest.raises(TypeError, match=r"history\[1\] is a dict, not a Message: from_messages reads JSON"):
        write([Message.user("Hi"), {"role": "user", "content": "Ho"}])
    history = [Message.user("Hi")]
    assert write(message for message in history) == write(history)


def test_a_body_is_made_of_one_message() -> None:
    with pytest.raises(TypeError, match="this is a list, not a Message"):
        to_message_body([Message.user("Hi")])  # type: ignore[arg-type]
