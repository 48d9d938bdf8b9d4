"""Reads the answer of a turn while it streams, checks it, and decides whether the model is asked again."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from pydantic_core import from_json, to_json

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.canonical.events import (
    MessageComplete,
    MessageStart,
    OutputComplete,
    OutputPartial,
    OutputProblem,
    OutputRetry,
    TextDelta,
)
from dragoman.canonical.message import Message, StopReason
from dragoman.output.answer_type import AnswerForm, AnswerJson, AnswerType, InvalidAnswerError
from dragoman.output.errors import OutputError

T = TypeVar("T")

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NUMBER = "0123456789+-.eE"
_SHARE = 64
"""A long text is parsed again when it has grown by this part of its length, so that the work stays linear."""
_FINAL_STOPS = {
    StopReason.REFUSAL: "the model refused to answer",
    StopReason.CONTEXT_OVERFLOW: "the answer was cut, because the context of the model is full",
    StopReason.PAUSE: "the reply is paused, and not complete: continue with ask(None)",
}
"""Stops after which the same question is not asked again."""
_MAX_PROBLEMS, _MAX_CHARS = 20, 500
"""The most problems and characters in a request to answer again: more would not help the model."""
_CUT = OutputProblem((), "the answer was cut at the limit of output tokens: answer more briefly")


class PartialReader(Generic[T]):
    """Reads one answer. A string that has not ended counts only with ``strings``, and a number never does."""

    def __init__(self, form: AnswerForm[T], *, strings: bool) -> None:
        self._form = form
        self._strings = strings
        self._pieces: list[str] = []
        self._length = self._next = 0
        self._parsed = self._shown = b""

    def feed(self, piece: str) -> Iterator[T]:
        """Yield the value so far, if there is a new one."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length < self._next:
            return
        self._next = self._length + self._length // _SHARE
        text = "".join(self._pieces)
        self._pieces = [text]
        data = self._parse(text)
        if data is None or (written := to_json(data)) == self._parsed:
            return
        self._parsed = written
        part = self._form.read_partial(data)
        if part is not None and part[0] != self._shown:
            self._shown = part[0]
            yield part[1]

    def _parse(self, text: str) -> Any:
        if not text.lstrip().startswith("{"):  # text before a tool call, for example
            return None
        if text[-1] in _NUMBER and not (self._strings and _STRING.sub("", text).count('"')):
            text = text.rstrip(_NUMBER)
        try:
            return from_json(text, allow_inf_nan=False, allow_partial="trailing-strings" if self._strings else True)
        except ValueError:
            return None


def check_output_retries(retries: Any) -> int:
    """Return the number. Raises RequestError if the value is not one."""
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise RequestError("output_retries must be a whole number, at least 0")
    return retries


class AnswerCheck(Generic[T]):
    """The check of one turn's answer. ``values`` has the value when there is one.

    ``early``: a stream ends as soon as a problem is certain, if the model is not asked again. Where text may precede a
    call, it does not.
    """

    def __init__(
        self, form: AnswerForm[T], retries: int, *, partial_strings: bool = False, early: bool = False
    ) -> None:
        self._form = form
        self._retries = retries
        self._partial_strings = partial_strings
        self._early = early
        self._judged_id = ""
        self._problems: tuple[OutputProblem, ...] = ()
        self._asks_again = False
        self.values: tuple[T, ...] = ()

    def correction(self, reply: Message) -> str | None:
        """Return the request to answer again, or None if the answer is valid. Raises OutputError after the last
        retry."""
        self._judge(reply)
        if not self._problems:
            return None
        if not self._asks_again:
            raise OutputError(self._problems, reply.text)
        return "\n".join(
            (
                "Your answer is not valid:",
                *(f"- {problem!s:.{_MAX_CHARS}}" for problem in self._problems[:_MAX_PROBLEMS]),
                "Answer again, with one JSON value that obeys the schema, and nothing before or after it.",
            )
        )

    def accepts(self, reply: Message) -> bool:
        """Return whether the reply is of the type, or calls tools and is not an answer yet. No retry counts for it: the
        next reply is another model's."""
        if reply.stop_reason in _FINAL_STOPS:
            return False
        try:
            if not reply.tool_uses:
                self._form.read(reply.text)
        except InvalidAnswerError:
            return False
        return True

    def follow(self) -> "AnswerFollower[T]":
        """Return what adds the events of the answer to those of a stream."""
        return AnswerFollower(self)

    def partial_reader(self) -> PartialReader[T]:
        return PartialReader(self._form, strings=self._partial_strings)

    def watch(self) -> Callable[[str], tuple[OutputProblem, ...]] | None:
        """Return what finds problems in the pieces of an answer; None if only the whole answer can be checked."""
        return self._form.watch() if self._early and not self._retries else None

    def outcome(self, reply: Message) -> OutputComplete[T] | OutputRetry | None:
        """Return the event for a complete reply; None if it is not an answer, or the turn ends with an OutputError."""
        self._judge(reply)
        if self.values:
            return OutputComplete(self.values[0])
        return OutputRetry(self._problems) if self._asks_again else None

    def _judge(self, reply: Message) -> None:
        """Check a reply, once. A reply that calls tools is not an answer yet."""
        if reply.id == self._judged_id:
            return
        self._judged_id, self._problems, self._asks_again = reply.id, (), False
        stop = _FINAL_STOPS.get(reply.stop_reason) if reply.stop_reason is not None else None
        if stop is not None:
            self._problems = (OutputProblem((), stop),)
        elif not reply.tool_uses:
            try:
                self.values = (self._form.read(reply.text),)
            except InvalidAnswerError as error:
                is_cut = reply.stop_reason is StopReason.MAX_TOKENS
                self._problems = (_CUT, *error.problems) if is_cut else error.problems
                self._asks_again = self._retries > 0
                self._retries -= 1


class AnswerFollower(Generic[T]):
    """Adds the events of a typed answer to a stream."""

    def __init__(self, check: AnswerCheck[T]) -> None:
        self._check = check
        self._begin()

    def follow(self, events: Iterable[Any]) -> Iterator[Any]:
        """Yield the events, and after each what it means for the answer. Raises OutputError for a problem that is
        certain before the end."""
        for event in events:
            if isinstance(event, TextDelta) and self._watch is not None:
                self._look_ahead(event)
            yield event
            match event:
                case TextDelta():
                    yield from map(OutputPartial, self._reader.feed(event.text))
                case MessageStart():
                    self._begin()
                case MessageComplete():
                    if (outcome := self._check.outcome(event.message)) is not None:
                        yield outcome

    def _begin(self) -> None:
        self._reader, self._watch = self._check.partial_reader(), self._check.watch()
        self._block, self._text = 0, ""

    def _look_ahead(self, delta: TextDelta) -> None:
        if delta.content_block_index < self._block:  # blocks out of order: the text is judged when it is whole
            self._watch = None
            return
        self._block, self._text = delta.content_block_index, self._text + delta.text
        assert self._watch is not None
        if problems := self._watch(delta.text):
            raise OutputError(problems, self._text)


def follow_text(events: Iterable[Any]) -> Iterator[Any]:
    """Yield the events of a stream whose answer is any text, and OutputComplete after the reply that is the answer: it
    neither calls tools nor pauses."""
    for event in events:
        yield event
        if isinstance(event, MessageComplete):
            reply = event.message
            if not reply.tool_uses and reply.stop_reason is not StopReason.PAUSE:
                yield OutputComplete(reply.text)


def new_check(
    options: AdapterOptions, overrides: Mapping[str, Any], output: Any, *, early: bool
) -> tuple[AdapterOptions, AnswerCheck[Any] | None]:
    """Return the options with the schema of the answer, and its check, if it has one. ``options`` are those of the
    turn, ``overrides`` included, and ``output`` is a type, what was made of one, or None.

    A plain text has no check. ``early`` is as for `AnswerCheck`. Raises RequestError, OutputTypeError among them.
    """
    form: AnswerForm[Any]
    if output is None:
        schema = options.output_schema
        if schema is None:
            return options, None
        form = AnswerJson(schema)
    elif overrides.get("output_schema") is not None:
        raise RequestError("output and output_schema are two ways to say what the answer is: give one")
    elif output is str:
        return replace(options, output_schema=None), None
    else:
        form = output if isinstance(output, (AnswerType, AnswerJson)) else AnswerType(output)
        options = replace(options, output_schema=form.schema)
    retries = check_output_retries(overrides.get("output_retries", 1))
    return options, AnswerCheck(form, retries, partial_strings=overrides.get("partial_strings", False), early=early)
