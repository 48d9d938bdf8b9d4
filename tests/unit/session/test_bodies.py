"""A message body as a prompt, and what is not a stored session."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncSession, Session
from dragoman.errors import ConfigurationError
from dragoman.formats import MessageBody, MessageBodyPart
from dragoman.testing import ScriptedProvider
from tests.tables import each_row

_BODY = MessageBody(
    (
        MessageBodyPart(content_type="text/plain", content="Read this."),
        MessageBodyPart(name="/a.txt", content_type="text/plain", content="A."),
    )
)


def test_a_body_is_a_prompt() -> None:
    """Its parts are the content of the message, with the text in front."""
    with ScriptedProvider("Read.") as provider, Session(provider.model) as session:
        assert session.ask(_BODY).text == "Read."
        prompt = session.messages[0]
        assert (prompt.text.startswith("Read this."), len(prompt.content)) == (True, 2)
        assert prompt.session_id == session.session_id


@each_row(("data", "pattern"), [
    (Path("a.json"), "'a.json' is a path: pass what its file holds"),
    ("a.json", "if it is the path of one, pass Path"),
    (io.BytesIO(b"{}"), "this is an open file: pass what it holds"),
    (5, "not a value of the class int"),
    (json.dumps([{"role": "user", "content": "Hi."}]), "It is a document of the format openai-chat"),
    (json.dumps({"messages": [{"type": "human", "content": "Hi."}]}), "It is a document of the format langchain"),
    ('{"a": 1}', "its version is None$"),
    ('{"dragoman_session": 99}', "its version is 99$"),
    ("{", "not valid JSON"),
])  # fmt: skip
def test_what_is_no_session_is_named(data: Any, pattern: str) -> None:
    """A path, a file, a document of another format: the error says which it is."""
    for kind in (Session, AsyncSession):
        with pytest.raises(ConfigurationError, match=pattern):
            kind.load(data)
