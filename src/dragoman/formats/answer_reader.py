"""A model's answer, read into a message body while it comes: what is certain to be wrong is known at once.

A body as a model writes it is an object with a list of ``parts``, or that list alone. The same reader reads an answer
that is all there, so that what is told early is what would be told in the end.
"""

from typing import TYPE_CHECKING, Any

from dragoman.canonical.glob import Glob
from dragoman.formats.document import kind_of, validating
from dragoman.formats.errors import BodyViolation, FormatError, MessageBodyError
from dragoman.formats.json_pieces import BrokenJsonError, JsonPieces, Kind, Token
from dragoman.formats.message_body import MessageBody
from dragoman.formats.message_part import (
    NAME_RULE,
    MessageBodyPart,
    described,
    may_begin_name,
    name_fault,
    plain_type,
    type_fault,
)

if TYPE_CHECKING:
    from dragoman.formats.message_body_schema import MessageBodySchema

_KEYS = ("name", "contentType", "content", "contentUrl", "contentEncoding")
_CONTENTS = ("content", "contentUrl")


class AnswerReader:
    """Reads one answer. ``violations`` are those that are certain by now, whatever may still come."""

    def __init__(self, schema: "MessageBodySchema") -> None:
        self._schema = schema
        self._pieces = JsonPieces()
        self._stack: list[str] = []
        """What is open: ``root``, ``parts`` and ``part``, or ``other`` where something stands in a wrong place."""
        self._key = ""
        """Of the value that is to come."""
        self._root = "$"
        self._has_parts = False
        self._fields: dict[str, Any] = {}
        self._faulty = False
        """Whether the part under way, or what stands in its place, has been complained of."""
        self._index = -1
        self._names: dict[str, int] = {}
        self._parts: list[MessageBodyPart] = []
        self._begun = self._broken = False
        self.violations: list[BodyViolation] = []

    def feed(self, text: str) -> None:
        """The next piece."""
        if not self._begun and not self._begins(text):
            return
        if self._broken:
            return
        try:
            for token in self._pieces.feed(text):
                self._take(token)
        except BrokenJsonError as error:
            self._break(str(error))
        else:
            self._look()

    def _begins(self, text: str) -> bool:
        """Whether the body begins here. What is neither an object nor a list is none, at its first character."""
        begun = text.lstrip(" \t\n\r")
        if begun and begun[0] not in "{[":
            self._broken = True
            self._wrong("$", f"a message body is an object with a list of parts: nothing begins with {begun[0]!r}")
        self._begun = bool(begun)
        return self._begun

    def end(self, ended: str | None = None) -> MessageBody:
        """The body. Raises MessageBodyError with every violation; ``ended`` is told with them."""
        if not self._broken:
            try:
                for token in self._pieces.end():
                    self._take(token)
            except BrokenJsonError as error:
                self._break(str(error))
        if self.violations:
            raise MessageBodyError(self.violations, ended=ended)
        return MessageBody(tuple(self._parts))

    def _break(self, reason: str) -> None:
        self._broken = True
        self._wrong(self._at if self._stack[-1:] == ["part"] else self._root, f"the answer is no JSON: {reason}")

    @property
    def _at(self) -> str:
        return f"{self._root}[{self._index}]"

    def _wrong(self, path: str, reason: str) -> None:
        self.violations.append(BodyViolation(path, reason))

    def _fault(self, path: str, reason: str) -> None:
        """Something is wrong with the part under way: said once."""
        if not self._faulty:
            self._wrong(path, reason)
        self._faulty = True

    def _take(self, token: Token) -> None:
        inside = self._stack[-1] if self._stack else ""
        match token.kind:
            case Kind.OPENED:
                self._stack.append(self._opened(inside, token.value))
            case Kind.CLOSED:
                self._closed(self._stack.pop())
            case Kind.KEY if inside in ("root", "part"):
                self._key = token.value
                self._named(inside)
            case Kind.VALUE if inside == "part":
                self._given(token.value)
            case Kind.VALUE if inside != "other":
                self._misplaced(inside, kind_of(token.value))

    def _opened(self, inside: str, bracket: str) -> str:
        if not inside:
            self._has_parts = bracket == "["
            return "parts" if self._has_parts else "root"
        if inside == "root" and self._key == "parts" and bracket == "[" and not self._has_parts:
            self._has_parts, self._root = True, "$.parts"
            return "parts"
        if inside == "parts" and bracket == "{":
            self._index += 1
            self._fields, self._faulty = {}, False
            return "part"
        if inside != "other":
            self._misplaced(inside, "a list" if bracket == "[" else "an object")
        return "other"

    def _misplaced(self, inside: str, kind: str) -> None:
        """A value where none of its kind belongs."""
        if inside == "parts":
            self._index += 1
            self._wrong(self._at, f"a part is an object, not {kind}")
        elif inside == "part" and self._key in _KEYS:
            self._fault(f"{self._at}.{self._key}", f"this is a text, not {kind}")
        elif inside == "root" and self._key == "parts" and not self._has_parts:
            self._wrong("$.parts", f"the parts of a message body are a list, not {kind}")
            self._has_parts = True

    def _named(self, inside: str) -> None:
        if inside == "root":
            if self._key != "parts":
                self._wrong(f"$.{self._key[:_SHOWN]}", "beside the parts there is nothing in a message body")
            elif self._has_parts:
                self._wrong("$.parts", "the parts are given twice")
        elif self._key not in _KEYS:
            self._fault(f"{self._at}.{self._key[:_SHOWN]}", f"a part has no such field: it has {', '.join(_KEYS)}")
        elif self._key in self._fields:
            self._fault(f"{self._at}.{self._key}", "the field is given twice")

    def _given(self, value: Any) -> None:
        """A field of a part is there."""
        key, at = self._key, f"{self._at}.{self._key}"
        if key not in _KEYS:
            return
        if value is not None and not isinstance(value, str):
            self._fault(at, f"this is a text, not {kind_of(value)}")
        elif not self._faulty:
            self._fields[key] = value
            if key == "name" and value is not None:
                if (fault := name_fault(value)) is not None:
                    self._fault(at, fault)
                elif (first := self._names.setdefault(value, self._index)) != self._index:
                    self._fault(at, f"names are unique: {self._root}[{first}] has the same")
            elif key == "contentType" and (fault := type_fault(value or "")) is not None:
                self._fault(at, fault)
            elif key == "contentEncoding" and value not in (None, "plain", "base64"):
                self._fault(at, "an encoding is plain or base64")
        self._weigh()

    def _look(self) -> None:
        """What is certain of a text that is still coming."""
        if self._stack[-1:] != ["part"] or not self._pieces.is_text:
            return
        if self._key in _CONTENTS:
            self._weigh(self._key)
        elif self._key in ("name", "contentType") and (begun := self._pieces.beginning) is not None:
            if self._key == "name" and not may_begin_name(begun):
                self._fault(f"{self._at}.name", NAME_RULE)
            self._weigh(self._key, begun)

    def _weigh(self, coming: str = "", begun: str = "") -> None:
        """Whether a part with these fields, and one that is still ``coming`` and begins like that, can be right."""
        if self._faulty:
            return
        if all(key == coming or self._fields.get(key) is not None for key in _CONTENTS):
            self._fault(self._at, "a part has either content or a contentUrl")
        elif not any(self._may_match(each.names, each.types, coming, begun) for each in self._schema.parts):
            name = begun + "…" if coming == "name" else self._fields.get("name")
            kind = begun + "…" if coming == "contentType" else self._fields.get("contentType", "…")
            self._fault(self._at, f"the schema has no place for {described(name, kind)}")

    def _may_match(self, names: Glob | None, types: Glob, coming: str, begun: str) -> bool:
        if "contentType" in self._fields:
            fits = types.matches(plain_type(self._fields["contentType"]))
        else:
            fits = types.begins(plain_type(begun)) if coming == "contentType" else True
        if not fits:
            return False
        if coming == "name":
            return names is not None and names.begins(begun)
        if "name" not in self._fields:
            return True
        name = self._fields["name"]
        return name is None if names is None else name is not None and names.matches(name)

    def _closed(self, what: str) -> None:
        if what == "part":
            self._part()
        elif what == "parts":
            known = tuple(self._parts)
            self.violations += self._schema.missing(known)
        elif what == "root" and not self._has_parts:
            self._wrong("$", "a message body has a list of parts")

    def _part(self) -> None:
        """A part is all there."""
        if self._faulty:
            return
        try:
            with validating(self._fields, self._at):
                part = MessageBodyPart.model_validate(self._fields)
        except FormatError as error:
            self._fault(error.path, error.reason)
            return
        if not self._schema.takes(part):
            self._fault(self._at, f"the schema has no place for {described(part.name, part.content_type)}")
        self._parts.append(part)


_SHOWN = 100
