"""A file with the requests of a batch: each line may name an address and ids, and is read while the form passes."""

from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.errors import DragomanError
from dragoman_gateway.bodies.read import parse_object
from dragoman_gateway.errors import ClientError
from dragoman_gateway.vendors.forwarding.form import FormParts

_PURPOSE, _BATCH, _FILE = "purpose", "batch", "file"
_MAX_PURPOSE = 100

CheckLines = Callable[[list[dict[str, Any]]], Awaitable[None]]


class BatchFile:
    """Checks a file, if its form says that it is one for a batch. Some clients say so after the file: then what is
    wrong with it is raised before the form has ended, so that its vendor never gets the whole.
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
            elif name == _FILE and self._may_be_batch:
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

    @property
    def _may_be_batch(self) -> bool:
        return self._fault is None and self._purpose in (None, _BATCH)

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
