"""Files that messages refer to: read inside one folder, and inlined in the copy of a message that is sent.

URLs are inlined too if the program gives a fetcher and the model does not take URLs; without a fetcher nothing is
fetched. The history keeps its ``file_ref`` or ``url``. Content is cached for the life of the session, so that a request
repeats the bytes of the one before it even if the file has changed. A session that is loaded again reads again.
"""

import base64
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    MediaSource,
    ToolResultBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message

if TYPE_CHECKING:
    from dragoman.transport.fetch import FetchedMedia

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
"""Media types by file extension. The table of the standard library differs from machine to machine."""

_FAMILIES: dict[type, tuple[str, ...]] = {
    ImageBlock: ("image/",),
    AudioBlock: ("audio/",),
    VideoBlock: ("video/",),
    DocumentBlock: ("application/", "text/"),
}

_CAPABILITY_OF_KIND = {
    "image": "supports_images",
    "audio": "supports_audio",
    "video": "supports_video",
    "document": "supports_documents",
}
_UNKNOWN_TYPES = frozenset({"application/octet-stream", "binary/octet-stream"})
"""Media types that servers send when they do not know the type."""

_LARGE_MEDIA = 1024 * 1024
"""Characters of media that another thread writes: they would hold up an event loop."""
_MAX_SHOWN_PATH = 120
_DIRECTORY_FLAGS = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# If a pipe replaces the file between stat and open, the open must not wait for a writer.
_FILE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_SAFE_OPEN = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


Fetch = Callable[[str], "FetchedMedia"]
Kinds = frozenset[str]
"""Kinds of media blocks."""
NOTHING_FETCHED: Kinds = frozenset()


class MediaFiles:
    """The files of one session. Without ``workspace`` it reads none; without ``fetch`` it fetches nothing.

    Paths are relative and use forward slashes. Neither ``..`` nor a link leads out of the workspace: every folder is
    opened from its parent, and links are refused. Raises ConfigurationError if the workspace is not a folder; reading
    raises RequestError, which says what to do.
    """

    def __init__(
        self, workspace: str | Path | None, *, fetch: Fetch | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> None:
        self._root = None if workspace is None else _resolve_root(workspace)
        self._fetch = fetch
        self._max_bytes = max_bytes
        self._sources: dict[tuple[str, bool], MediaSource] = {}
        self._fetched: dict[str, FetchedMedia] = {}
        self._filled: dict[tuple[str, Kinds], tuple[Message, Message]] = {}

    def inlined_kinds(self, capabilities: AdapterCapabilities) -> Kinds:
        """Return the kinds of media that are fetched for a model: those that it takes, but not by URL."""
        if self._fetch is None:
            return NOTHING_FETCHED
        return frozenset(kind for kind in _CAPABILITY_OF_KIND if _needs_inline_content(capabilities, kind))

    @staticmethod
    def names_files(content: Sequence[ContentBlock], fetched: Kinds = NOTHING_FETCHED) -> bool:
        """Whether any block, also inside a tool result, names a file."""
        for block in content:
            if isinstance(block, MEDIA_BLOCKS) and (
                block.source.kind == "file_ref" or (block.source.kind == "url" and block.type in fetched)
            ):
                return True
            if isinstance(block, ToolResultBlock) and MediaFiles.names_files(block.content, fetched):
                return True
        return False

    @staticmethod
    def is_large(content: Sequence[ContentBlock]) -> bool:
        """Whether some media take long to write."""
        for block in content:
            if isinstance(block, MEDIA_BLOCKS) and len(block.source.data) > _LARGE_MEDIA:
                return True
            if isinstance(block, ToolResultBlock) and MediaFiles.is_large(block.content):
                return True
        return False

    def inline_blocks(
        self, content: Sequence[ContentBlock], fetched: Kinds = NOTHING_FETCHED
    ) -> tuple[ContentBlock, ...]:
        """Return the blocks with file content in place of paths, also inside tool results."""
        return tuple(self._block(block, fetched) if self.names_files((block,), fetched) else block for block in content)

    def inline_message(self, message: Message, fetched: Kinds = NOTHING_FETCHED) -> Message:
        """Return the message with file content in place of paths; the same one each time. Raises RequestError."""
        known, filled = self._filled.get((message.id, fetched), (None, None))
        if filled is None or known is not message:
            try:
                filled = message.model_copy(update={"content": self.inline_blocks(message.content, fetched)})
            except ValueError as error:
                raise RequestError(f"message {message.id} cannot be sent with its files: {error}") from None
            self._filled[message.id, fetched] = (message, filled)
        return filled

    def _block(self, block: ContentBlock, fetched: Kinds) -> ContentBlock:
        if isinstance(block, ToolResultBlock):
            return block.model_copy(update={"content": self.inline_blocks(block.content, fetched)})
        if not isinstance(block, MEDIA_BLOCKS):
            return block
        source, media_type = self._from_url(block) if block.source.kind == "url" else self._from_file(block)
        return block.model_copy(update={"source": source, "media_type": media_type})

    def _from_file(self, block: MediaBlock) -> tuple[MediaSource, str]:
        """Return the file's content and media type: text for a text document, base64 for everything else."""
        path = block.source.data
        media_type = block.media_type or _guess_media_type(block, path)
        as_text = _is_text(block, media_type)
        if (path, as_text) not in self._sources:
            if self._root is None:
                raise _file_error(path, "cannot be read: the session has no workspace; give it one, or send base64")
            data = read_inside(self._root, path, self._max_bytes)
            self._sources[path, as_text] = _as_text(data, path) if as_text else _as_base64(data)
        return self._sources[path, as_text], media_type

    def _from_url(self, block: MediaBlock) -> tuple[MediaSource, str]:
        """Return the content of the URL and its media type. Each URL is fetched once per session."""
        url = block.source.data
        if url not in self._fetched and self._fetch is not None:
            # Two threads may have fetched it: the first result stays, so that requests repeat each other.
            self._fetched.setdefault(url, self._fetch(url))
        found = self._fetched[url]
        media_type = _check_served_type(block, found.media_type)
        # Errors name the file, never the query, which may hold a secret.
        source = _as_text(found.data, _name_of_url(url)) if _is_text(block, media_type) else _as_base64(found.data)
        return source, media_type


def _needs_inline_content(capabilities: AdapterCapabilities, kind: str) -> bool:
    sources = capabilities.media_sources.get(kind)
    by_url = bool(capabilities.supports_media_urls) and (sources is None or "url" in sources)
    return bool(getattr(capabilities, _CAPABILITY_OF_KIND[kind])) and not by_url


def _is_text(block: MediaBlock, media_type: str) -> bool:
    return isinstance(block, DocumentBlock) and media_type.startswith("text/")


def _check_served_type(block: MediaBlock, served_type: str) -> str:
    """Return the media type that the server sent, or a guess if it knows none.

    Raises RequestError if it does not fit the block: many sites send an HTML page in place of a missing file.
    """
    name = _name_of_url(block.source.data)
    if served_type in _UNKNOWN_TYPES:
        return block.media_type or _guess_media_type(block, name)
    expected = _FAMILIES[type(block)] if block.media_type is None else (block.media_type.partition("/")[0] + "/",)
    if not served_type.startswith(expected):
        raise _file_error(name, f"was fetched and is {served_type}, no {block.media_type or block.type}: check its URL")
    return served_type


def _name_of_url(url: str) -> str:
    return PurePosixPath(urlsplit(url).path).name


def _as_base64(data: bytes) -> MediaSource:
    return MediaSource(kind="base64", data=base64.b64encode(data).decode("ascii"))


def _as_text(data: bytes, path: str) -> MediaSource:
    try:
        return MediaSource(kind="text", data=data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _file_error(path, "is not UTF-8 text: convert it, or give the block its real media_type") from None


def read_inside(root: Path, path: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return the bytes of a regular file below ``root``. Links below it are not followed. Raises RequestError."""
    if not _SAFE_OPEN:
        raise _file_error(path, "cannot be read safely on this system: send base64 instead")
    *folders, name = _split_path(path)
    with _open_folder(path, root, *folders) as folder:
        try:
            # Checked before it is opened, because opening a device can have effects.
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise _file_error(path, "is not a regular file, and links are not followed: copy the file there")
            handle = os.open(name, os.O_RDONLY | _FILE_FLAGS, dir_fd=folder)
        except OSError as error:
            raise _file_error(path, _describe_os_error(error)) from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise _file_error(path, "is not a regular file")
        # One byte more than allowed: the size may be wrong, as it is under /proc, or change while we read.
        data = b"" if found.st_size > max_bytes else file.read(max_bytes + 1)
    if found.st_size > max_bytes or len(data) > max_bytes:
        raise _file_error(
            path, f"is over {max_bytes:,} bytes: send a smaller one, or keep it with the provider (file_id)"
        )
    return data


@contextmanager
def _open_folder(path: str, root: Path, *folders: str) -> Iterator[int]:
    """Return the descriptor of the innermost folder."""
    handle = -1
    try:
        handle = os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | _DIRECTORY_FLAGS, dir_fd=handle)
            os.close(handle)
            handle = inner
    except OSError as error:
        if handle >= 0:
            os.close(handle)
        raise _file_error(path, _describe_os_error(error)) from None
    try:
        yield handle
    finally:
        os.close(handle)


def _split_path(path: str) -> list[str]:
    """Return the parts of the path. Raises RequestError if it may lead out of the workspace."""
    if not path or "\0" in path or "\\" in path:
        raise _file_error(path, "is not a path: write it relative to the workspace, with forward slashes")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        encoding = sys.getfilesystemencoding()
        raise _file_error(path, f"has characters that names of files here cannot have ({encoding})") from None
    steps = PurePosixPath(path)
    if steps.is_absolute() or ".." in steps.parts or not steps.parts:
        raise _file_error(path, "does not lie inside the workspace: write it relative to the workspace, without '..'")
    if path.endswith(("/", "/.")):
        raise _file_error(path, "names a folder, not a file")
    return list(steps.parts)


def _resolve_root(workspace: str | Path) -> Path:
    if not isinstance(workspace, (str, os.PathLike)):
        raise ConfigurationError(f"the workspace must be a path, not a value of the class {type(workspace).__name__}")
    try:
        root = Path(workspace).expanduser().resolve()
        is_folder = root.is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, a null character, an unknown user
        is_folder = False
    if not is_folder:
        raise ConfigurationError(f"the workspace {str(workspace)!r:.200} is not a folder")
    return root


def media_type_of(name: str) -> str | None:
    """Return the media type that a file name's ending means, or None for an unknown one."""
    return _MEDIA_TYPES.get(PurePosixPath(name).suffix.lower())


def _guess_media_type(block: MediaBlock, path: str) -> str:
    known = media_type_of(path)
    if known is None:
        raise _file_error(path, "has an extension without a known media type: give the block its media_type")
    if not known.startswith(_FAMILIES[type(block)]):
        raise _file_error(path, f"is {known}, no {block.type}: use the block of its kind, or give it its media_type")
    return known


def _describe_os_error(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return "is not there: put it into the workspace"
        case errno.ELOOP | errno.ENOTDIR | errno.EMLINK:
            return "goes through a link or a file that is not a folder: links are not followed, so copy the file"
        case _:
            return f"cannot be read: {os.strerror(error.errno) if error.errno else type(error).__name__}"


def _file_error(path: str, why: str) -> RequestError:
    short_path = path if len(path) <= _MAX_SHOWN_PATH else path[:_MAX_SHOWN_PATH] + "…"
    return RequestError(f"the file {short_path!r} {why}")
