"""Validates an answer against a message body schema while it streams.

A certain violation cancels the stream at once; a possible one waits for more text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.canonical.events import MessageComplete, MessageStart, TextDelta
from dragoman.canonical.message import Message
from dragoman.formats.body.answer_reader import AnswerReader
from dragoman.formats.body.schema import MessageBodySchema
from dragoman.formats.errors import MessageBodyError
from dragoman.session.events import SessionEvent


class AnswerValidator:
    """Validates the answer of one turn.

    Without ``early``, as in a session with tools, text may precede a call, so the reply is validated when it is
    complete. The same applies to a reply whose blocks arrive out of order.
    """

    def __init__(self, schema: MessageBodySchema, *, early: bool) -> None:
        self._schema = schema
        self._early = early
        self._reader: AnswerReader | None = None
        self._block = 0
        self._reply: Message | None = None

    def follow(self, events: Iterable[SessionEvent]) -> Iterator[SessionEvent]:
        """Yield the events of a stream while the answer is valid."""
        for event in events:
            self.check_event(event)
            yield event

    def check_event(self, event: SessionEvent) -> None:
        """Raise MessageBodyError if the answer violates the schema."""
        match event:
            case MessageStart():
                self._reader, self._block = (AnswerReader(self._schema.parts) if self._early else None), 0
            case TextDelta() if self._reader is not None:
                if event.content_block_index < self._block:
                    self._reader = None
                    return
                self._block = event.content_block_index
                self._reader.feed(event.text)
                if self._reader.violations:
                    raise MessageBodyError(self._reader.violations)
            case MessageComplete(message=reply):
                self._reply = reply
                if not reply.tool_uses:
                    self.finish()

    def finish(self) -> None:
        """Validate the last reply of the turn, which is the answer. Raises MessageBodyError."""
        reply, self._reply = self._reply, None
        if reply is None:
            return
        try:
            self._schema.read(reply)
        except MessageBodyError as error:
            error.reply = reply
            raise


def require_body_schema(schema: Any) -> MessageBodySchema:
    """Return the schema. Raises RequestError if ``schema`` is not a MessageBodySchema."""
    if not isinstance(schema, MessageBodySchema):
        raise RequestError(f"output_schema is a JSON Schema or a MessageBodySchema, not a {type(schema).__name__}")
    return schema


def with_json_schema(options: AdapterOptions) -> AdapterOptions:
    """Return the options with the body schema replaced by the JSON Schema for the model. Raises RequestError."""
    schema: Any = options.output_schema
    return replace(options, output_schema=require_body_schema(schema).json_schema())
