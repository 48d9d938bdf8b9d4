"""Makes the messages of a session: with its id, its clock, and the ids of user and team."""

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from dragoman.adapter.errors import RequestError
from dragoman.adapter.names import foreign_value
from dragoman.canonical.blocks import TextBlock, ToolResultBlock, text_block
from dragoman.canonical.guard import is_plain
from dragoman.canonical.message import Message, MessageMetadata, Role, assemble_message

if TYPE_CHECKING:
    from dragoman.session.identity import Pseudonyms

_NO_METADATA = MessageMetadata()


class MessageFactory:
    def __init__(
        self,
        session_id: str,
        new_id: Callable[[], str],
        clock: Callable[[], datetime],
        pseudonyms: "Pseudonyms | None",
    ) -> None:
        self._session_id = session_id
        self._new_id = new_id
        self._clock = clock
        self._pseudonyms = pseudonyms
        self.user_id: str | None = None
        self.team_id: str | None = None

    def identify(self, user_id: str | None, team_id: str | None) -> None:
        """Set the ids that the next messages carry. Raises ConfigurationError if one looks personal."""
        if user_id is None and team_id is None:
            self.user_id = self.team_id = None
            return
        from dragoman.session.identity import resolve_identity  # imported late: many sessions name nobody

        self.user_id, self.team_id = resolve_identity(user_id, team_id, self._pseudonyms)

    def user_message(self, prompt: Any) -> Message:
        """Return a prompt, a `UserInput`, as a message."""
        if isinstance(prompt, str):
            return self.new_message(Role.USER, prompt)
        if isinstance(prompt, Message):
            return self.adopt(_with_valid_media(prompt))
        # There is no MessageBody unless a program has loaded its module.
        bodies = sys.modules.get("dragoman.formats.body.message_body")
        if bodies is not None and isinstance(prompt, bodies.MessageBody):
            from dragoman.formats.body.convert import from_message_body

            return self.adopt(from_message_body(prompt))
        # A block is iterable too (over its fields), so its class decides.
        return self.new_message(Role.USER, (prompt,) if isinstance(prompt, BaseModel) else prompt)

    def tool_message(self, result: ToolResultBlock) -> Message:
        metadata = MessageMetadata(parent_tool_use_id=result.tool_use_id)
        return self.new_message(Role.TOOL, (result,), metadata=metadata)

    def adopt(self, message: Message) -> Message:
        """Give a message without a session id the id of this session."""
        return message if message.session_id else message.model_copy(update={"session_id": self._session_id})

    def new_message(self, role: Role, content: Any, **fields: Any) -> Message:
        """Return a message of this session. Raises RequestError if it cannot have this content."""
        if isinstance(content, list) and content and isinstance(content[0], Mapping) and "role" in content[0]:
            hint = foreign_value("prompt", content)
            raise RequestError(f"a prompt is a text or blocks, and not a list of another library's messages{hint}")
        if not isinstance(content, (str, Iterable)):
            raise RequestError(f"a message is a text or blocks, not a value of the class {type(content).__name__}")
        if self.user_id is not None or self.team_id is not None:
            from dragoman.session.identity import with_identity  # as above

            fields["metadata"] = with_identity(fields.get("metadata"), self.user_id, self.team_id)
        new_id, created_at = self._new_id(), self._clock()
        if type(content) is str and type(new_id) is str and is_plain(content):
            metadata = fields.get("metadata", _NO_METADATA)
            return assemble_message(
                id=new_id, session_id=self._session_id, role=role, content=(text_block(content),), channel=None,
                metadata=metadata, created_at=created_at,
            )  # fmt: skip
        try:
            message = Message(
                id=new_id,
                session_id=self._session_id,
                role=role,
                content=content if isinstance(content, str) else tuple(content),
                created_at=created_at,
                **fields,
            )
        except ValidationError as error:  # its text quotes the content
            mistake = error.errors(include_input=False, include_url=False, include_context=False)[0]
            place = ".".join(map(str, mistake["loc"][:4]))
            raise RequestError(f"this cannot be a message: {place:.80}: {mistake['msg']:.300}") from None
        return message if isinstance(content, str) else _with_valid_media(message)


def _with_valid_media(message: Message) -> Message:
    """Return the message. Raises RequestError if it holds a medium whose data or type no provider takes."""
    if all(type(block) is TextBlock for block in message.content):
        return message
    from dragoman.canonical.rules import check_media  # imported late: most prompts are texts

    for violation in check_media(message.content):
        raise RequestError(f"this cannot be a message: {violation}")
    return message
