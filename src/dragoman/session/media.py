"""Files that a history refers to: read inside one folder, and put into the copy of the history that is sent.

The history keeps its ``file_ref``. What was read is kept as long as the session lives, so that a request repeats the
bytes of the one before it, even where the file has changed meanwhile; a session that is loaded anew reads anew.
"""

import base64
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ToolResultBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message

MAX_FILE_BYTES = 20 * 1024 * 1024

_MEDIA_TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".bmp": "image/bmp", ".tif": "image/tiff", ".tiff": "image/tiff", ".heic": "image/heic", ".avif": "image/avif",
    ".wav": "audio/wav", ".mp3": "audio/mpeg", ".flac": "audio/flac", ".ogg": "audio/ogg", ".m4a": "audio/mp4",
    ".mp4": "video/mp4", ".mov": "video/quicktime", ".webm": "video/webm", ".mpeg": "video/mpeg",
    ".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/plain", ".csv": "text/plain", ".json": "text/plain",
    ".html": "text/plain", ".xml": "text/plain", ".yaml": "text/plain", ".yml": "text/plain", ".toml": "text/plain",
    ".py": "text/plain", ".log": "text/plain",
}  # fmt: skip
"""By extension. Of its own, because the table of the standard library differs from machine to machine."""

_FAMILIES: dict[type, tuple[str, ...]] = {
    ImageBlock: ("image/",),
    AudioBlock: ("audio/",),
    VideoBlock: ("video/",),
    DocumentBlock: ("application/", "text/"),
}

_SHOWN_PATH = 120
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# A pipe that takes the file's place between look and open must not make us wait for its writer.
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_SAFE_OPEN = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")

Media = ImageBlock | AudioBlock | VideoBlock | DocumentBlock


class Files:
    """The files of one session. ``workspace`` None means that it may read none.

    Paths are relative and use forward slashes. Neither ``..`` nor a link leads out of the workspace: every step is
    opened from the one before it and refused where it is a link. Raises ConfigurationError where the workspace is no
    folder; reading raises RequestError, which says what to do.
    """

    def __init__(self, workspace: str | Path | None, *, max_bytes: int = MAX_FILE_BYTES) -> None:
        self._root = None if workspace is None else _checked_root(workspace)
        self._max_bytes = max_bytes
        self._sources: dict[tuple[str, bool], MediaSource] = {}
        self._filled: dict[str, tuple[Message, Message]] = {}

    def fill(self, history: Sequence[Message]) -> list[Message]:
        """The history with its files in place of their paths; messages without any are passed on as they are."""
        return [self._message(message) if _refers(message.content) else message for message in history]

    def blocks(self, content: Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
        """The blocks with files in place of paths, those inside tool results included."""
        return tuple(self._block(block) if _refers((block,)) else block for block in content)

    def _message(self, message: Message) -> Message:
        known, filled = self._filled.get(message.id, (None, None))
        if filled is None or known is not message:
            try:
                filled = message.model_copy(update={"content": self.blocks(message.content)})
            except ValueError as error:
                raise RequestError(f"message {message.id} cannot be sent with its files: {error}") from None
            self._filled[message.id] = (message, filled)
        return filled

    def _block(self, block: ContentBlock) -> ContentBlock:
        if isinstance(block, ToolResultBlock):
            return block.model_copy(update={"content": self.blocks(block.content)})
        if not isinstance(block, MEDIA_BLOCKS):
            return block
        path = block.source.data
        media_type = block.media_type or _media_type(block, path)
        return block.model_copy(update={"source": self._source(block, path, media_type), "media_type": media_type})

    def _source(self, block: Media, path: str, media_type: str) -> MediaSource:
        """The file's content: text of a text document, base64 of everything else."""
        as_text = isinstance(block, DocumentBlock) and media_type.startswith("text/")
        if (path, as_text) not in self._sources:
            if self._root is None:
                raise _refusal(path, "cannot be read: the session has no workspace; give it one, or send base64")
            data = read_inside(self._root, path, self._max_bytes)
            self._sources[path, as_text] = _as_text(data, path) if as_text else _as_base64(data)
        return self._sources[path, as_text]


def _as_base64(data: bytes) -> MediaSource:
    return MediaSource(kind="base64", data=base64.b64encode(data).decode("ascii"))


def _as_text(data: bytes, path: str) -> MediaSource:
    try:
        return MediaSource(kind="text", data=data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _refusal(path, "is no UTF-8 text: convert it, or give the block the media_type that it has") from None


def read_inside(root: Path, path: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a regular file below ``root``, without following any link below it. Raises RequestError."""
    if not _SAFE_OPEN:
        raise _refusal(path, "cannot be read safely on this system: send base64 instead")
    *folders, name = _steps(path)
    with _opened(path, root, *folders) as folder:
        try:
            # Looked at before it is opened, because opening a device can do something.
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise _refusal(path, "is no regular file, and links are not followed: copy the file there")
            handle = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
        except OSError as error:
            raise _refusal(path, _told(error)) from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise _refusal(path, "is no regular file")
        # One byte more than allowed: the size may be wrong, as it is under /proc, or change while we read.
        data = b"" if found.st_size > max_bytes else file.read(max_bytes + 1)
    if found.st_size > max_bytes or len(data) > max_bytes:
        raise _refusal(path, f"is over {max_bytes:,} bytes: send a smaller one, or keep it with the provider (file_id)")
    return data


@contextmanager
def _opened(path: str, root: Path, *folders: str) -> Iterator[int]:
    """The descriptor of the innermost folder."""
    handle = -1
    try:
        handle = os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | _DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = inner
    except OSError as error:
        if handle >= 0:
            os.close(handle)
        raise _refusal(path, _told(error)) from None
    try:
        yield handle
    finally:
        os.close(handle)


def _steps(path: str) -> list[str]:
    """The names on the way. Raises RequestError for a path that is not plainly inside."""
    if not path or "\0" in path or "\\" in path:
        raise _refusal(path, "is no path: write it relative to the workspace, with forward slashes")
    steps = PurePosixPath(path)
    if steps.is_absolute() or ".." in steps.parts or not steps.parts:
        raise _refusal(path, "does not lie inside the workspace: write it relative to the workspace, without '..'")
    if path.endswith(("/", "/.")):
        raise _refusal(path, "names a folder, not a file")
    return list(steps.parts)


def _checked_root(workspace: str | Path) -> Path:
    root = Path(workspace).expanduser().resolve()
    if not root.is_dir():
        raise ConfigurationError(f"the workspace {str(workspace)!r} is no folder")
    return root


def _media_type(block: Media, path: str) -> str:
    known = _MEDIA_TYPES.get(PurePosixPath(path).suffix.lower())
    if known is None:
        raise _refusal(path, "has an extension that tells no media type: give the block its media_type")
    if not known.startswith(_FAMILIES[type(block)]):
        raise _refusal(path, f"is {known}, no {block.type}: use the block of its kind, or give it its media_type")
    return known


def _refers(content: Sequence[ContentBlock]) -> bool:
    """Whether any block, or one inside a tool's answer, names a file. Each request asks this of every message."""
    for block in content:
        if type(block) is TextBlock:  # most are
            continue
        if isinstance(block, MEDIA_BLOCKS) and block.source.kind == "file_ref":
            return True
        if isinstance(block, ToolResultBlock) and _refers(block.content):
            return True
    return False


def _told(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return "is not there: put it into the workspace"
        case errno.ELOOP | errno.ENOTDIR | errno.EMLINK:
            return "leads over a link or over something that is no folder: links are not followed, copy the file"
        case _:
            return f"cannot be read: {os.strerror(error.errno) if error.errno else type(error).__name__}"


def _refusal(path: str, why: str) -> RequestError:
    shown = path if len(path) <= _SHOWN_PATH else path[:_SHOWN_PATH] + "…"
    return RequestError(f"the file {shown!r} {why}")
