"""The parts of a form, read as they pass: more strictly than a vendor reads them, so that both find the same ones."""

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from dragoman.errors import DragomanError
from dragoman_gateway.bodies.read import parse_object
from dragoman_gateway.errors import ClientError, ContentTypeError

_TYPE = re.compile(r"""multipart/form-data\s*;\s*boundary=("?)([A-Za-z0-9'()+_,./:=? -]{1,70})\1\s*""", re.IGNORECASE)
_NAME = re.compile(rb'content-disposition:\s*form-data;\s*name="([^"\\\r\n]*)"', re.IGNORECASE)
_MAX_HEAD = 16 * 1024


class Part(NamedTuple):
    """A piece of a part. ``ended``: it is the last one."""

    name: str
    data: bytes
    ended: bool


class FormParts:
    """Reads a form in pieces. ``is_whole``: its last boundary has come.

    Raises ContentTypeError if the content type is not that of a form, and ClientError for one that two readers could
    read in two ways.
    """

    def __init__(self, content_type: str) -> None:
        found = _TYPE.fullmatch(content_type.strip())
        if found is None:
            raise ContentTypeError("the body must be multipart/form-data with a boundary")
        self._mark = b"--" + found[2].encode()
        self._end = b"\r\n" + self._mark
        self._left = b"\r\n"
        self._name: str | None = None
        self._is_head = False
        self.is_whole = False

    def feed(self, piece: bytes) -> Iterator[Part]:
        """Yield what the form has up to the end of this piece."""
        self._left += piece
        while not self.is_whole:
            if self._is_head:
                if not self._read_head():
                    return
                continue
            at = self._find_end()
            if at is None:
                return
            kept = len(self._left) - len(self._end) + 1 if at < 0 else at
            data, self._left = self._left[:kept], self._left[kept:]
            if self._name is not None:
                yield Part(self._name, data, at >= 0)
            elif data:
                raise ClientError("the form begins with something else than its boundary")
            if at < 0:
                return
            after, self._left = self._left[len(self._end) :][:2], self._left[len(self._end) + 2 :]
            if after not in (b"\r\n", b"--"):
                raise ClientError("a boundary of the form does not end its line")
            self.is_whole, self._is_head = after == b"--", after == b"\r\n"
        if self._left.strip():
            raise ClientError("the form goes on behind its last boundary")

    def _find_end(self) -> int | None:
        """Return where the content of the part ends, -1 if it goes on; None if more has to arrive to tell."""
        at = self._left.find(self._end)
        if at < 0 and len(self._left) < len(self._end):
            return None
        marked = self._left.find(self._mark)
        if 0 <= marked < (len(self._left) if at < 0 else at + 2):
            raise ClientError("the boundary of the form occurs in its content")
        if at >= 0 and len(self._left) < at + len(self._end) + 2:  # what follows says whether it is the last
            return None
        return at

    def _read_head(self) -> bool:
        """Read the headers of a part. Return whether they are there."""
        head, end, rest = self._left.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _MAX_HEAD:
                raise ClientError("a part of the form has too many headers")
            return False
        named = [each for each in head.split(b"\r\n") if each.lower().startswith(b"content-disposition")]
        found = _NAME.match(named[0]) if len(named) == 1 else None
        if found is None or b"transfer-encoding" in head.lower():
            raise ClientError("a part of the form needs one plain name, and no encoding")
        self._name, self._is_head = found[1].decode("utf-8", "replace"), False
        self._left = rest
        return True


def form_fields(content_type: str, body: bytes, once: str) -> dict[str, str]:
    """Return the texts of a whole form, by their names: the first of each. Raises as `FormParts` does, and ClientError
    if the field ``once`` occurs twice, in whatever spelling."""
    parts, found, value, times = FormParts(content_type), dict[str, str](), b"", 0
    for part in parts.feed(body):
        value += part.data
        if part.ended:
            times += part.name.casefold() == once
            if len(value) <= _MAX_HEAD:
                found.setdefault(part.name, value.decode("utf-8", "replace"))
            value = b""
    if not parts.is_whole:
        raise ClientError("the form has no end")
    if times > 1:
        raise ClientError(f"the form has the field {once!r} twice")
    return found


_PURPOSE, _BATCH, _FILE = "purpose", "batch", "file"
_MAX_PURPOSE = 100

CheckLines = Callable[[list[dict[str, Any]]], Awaitable[None]]


class BatchFile:
    """Checks a file while its form passes, if the form says that it is one for a batch: its lines may name addresses
    and ids. Some clients say so after the file: then what is wrong with it is raised before the form has ended, so that
    its vendor never gets the whole.
    """

    def __init__(self, content_type: str, check: CheckLines, max_line: int) -> None:
        """``check`` raises what is wrong with some lines. ``max_line`` is the most bytes of one."""
        self._parts = FormParts(content_type)
        self._check = check
        self._max_line = max_line
        self._purpose: str | None = None
        self._value = self._line = b""
        self._lines: list[dict[str, Any]] = []
        self._fault: DragomanError | None = None

    async def feed(self, piece: bytes, *, is_last: bool) -> None:
        """Read a piece, before it is sent on. Raises what is wrong with the form, and with a file for a batch."""
        for name, data, ended in self._parts.feed(piece):
            if name == _PURPOSE:
                self._read_purpose(data, ended=ended)
            elif name == _FILE and self._fault is None and self._purpose in (None, _BATCH):
                self._read_lines(data, ended=ended)
        if self._lines and self._fault is None:
            lines, self._lines = self._lines, []
            try:
                await self._check(lines)
            except DragomanError as error:
                self._fault = error
        if self._fault is not None and self._purpose == _BATCH:
            raise self._fault
        if is_last and not self._parts.is_whole:
            raise ClientError("the form has no end")

    def _read_purpose(self, data: bytes, *, ended: bool) -> None:
        self._value += data
        if self._purpose is not None or len(self._value) > _MAX_PURPOSE:
            raise ClientError("the form needs one purpose")
        if ended:
            self._purpose = self._value.decode("utf-8", "replace").strip().casefold()

    def _read_lines(self, data: bytes, *, ended: bool) -> None:
        *whole, self._line = (self._line + data).split(b"\n")
        if ended:
            whole, self._line = [*whole, self._line], b""
        try:
            for line in filter(bytes.strip, whole):
                self._lines.append(parse_object(line, {}))
            if len(self._line) > self._max_line:
                raise ClientError(f"a line of the file is larger than {self._max_line} bytes")
        except ClientError as error:
            self._fault, self._line = error, b""
