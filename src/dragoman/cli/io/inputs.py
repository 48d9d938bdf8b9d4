"""What a command is given: files, its standard input, and the prompt and attachments that they make.

A program without a standard input has None, and some never end. Folders and devices are refused: some never end, too.
"""

import base64
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    VideoBlock,
)
from dragoman.view.media import detect_media_type

MAX_BYTES = 20 * 1024 * 1024
"""Bytes that are read of the standard input, or of an attachment."""
STDIN = "-"
_BLOCKS: dict[str, type[ImageBlock | AudioBlock | VideoBlock]] = {
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
}


def check_regular(path: Path) -> None:
    """Raise ConfigurationError if the path is not a file, before anything of it is read."""
    if path.is_file():
        return
    if not path.exists():
        raise ConfigurationError(f"there is no file {str(path)!r}")
    kind = "a folder" if path.is_dir() else "a device or pipe"
    raise ConfigurationError(f"{str(path)!r} is {kind}, not a file")


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file. Raises ConfigurationError if it is not a file, cannot be read or is larger."""
    check_regular(path)
    try:
        # If a pipe replaces the file between the check and this, opening it must not wait for a writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ConfigurationError(f"{str(path)!r} is a device or pipe, not a file")
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error.strerror or type(error).__name__}") from None
    if len(content) > max_bytes:
        raise ConfigurationError(f"{str(path)!r} is larger than {max_bytes:,} bytes")
    return content


def read_standard_input() -> bytes:
    """Return the whole standard input, whatever its encoding. Raises ConfigurationError if it is too long."""
    content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"the standard input is larger than {MAX_BYTES:,} bytes")
    return content


def read_line() -> str:
    """Return the next line of the standard input.

    Raises EOFError at the end, and ConfigurationError if it is too long or not in UTF-8.
    """
    line = b"" if sys.stdin is None else sys.stdin.buffer.readline(MAX_BYTES + 1)
    if not line:
        raise EOFError
    if len(line) > MAX_BYTES:
        raise ConfigurationError(f"a line of the standard input is longer than {MAX_BYTES:,} bytes")
    return _decode(line)


def _decode(content: bytes) -> str:
    """Return the text. Raises ConfigurationError if it is not in UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(
            "the standard input is not text in UTF-8: convert it, or attach it with -a - if it is an image or the like"
        ) from None


def read_prompt(words: str | None, attachments: Sequence[str]) -> list[ContentBlock]:
    """Return the attachments, and the prompt: what is piped into the command, an empty line and the words.

    ``-`` is the standard input, in place of the words or of an attachment. Raises ConfigurationError for input that
    cannot be read, and if there is nothing to send.
    """
    is_named = words == STDIN or STDIN in attachments
    piped = read_standard_input() if is_named or not (sys.stdin is None or sys.stdin.isatty()) else b""
    blocks = [_to_block("standard input", piped) if name == STDIN else attach(name) for name in attachments]
    texts = [] if STDIN in attachments else [_decode(piped).strip("\r\n")]
    if words is not None and words != STDIN:
        texts.append(words)
    text = "\n\n".join(each for each in texts if each.strip())
    if not text and not blocks:
        raise ConfigurationError("the prompt is empty: write one after the model, or pipe a text into the command")
    return [*blocks, TextBlock(text=text)] if text else blocks


def attach(name: str) -> ContentBlock:
    """Return the block of a file, or of what is at an address. Raises ConfigurationError if it is unreadable or of an
    unknown kind, and FetchError."""
    if name.startswith(("https://", "http://")):
        from dragoman.transport.fetch import Fetcher  # few prompts have an address

        # Of public addresses alone: the user has named it, and every model can read what is there.
        return _to_block(PurePosixPath(urlsplit(name).path).name or name, Fetcher()(name).data)
    path = Path(name).expanduser()
    return _to_block(path.name, read_regular(path, MAX_BYTES))


def _to_block(name: str, content: bytes) -> ContentBlock:
    """Return a block of the kind that the first bytes show; other content is text."""
    if not content:
        raise ConfigurationError(f"{name!r} is empty")
    data = base64.b64encode(content).decode("ascii")
    media_type = detect_media_type(data)
    if media_type is None:
        try:
            source = MediaSource(kind="text", data=content.decode("utf-8-sig"))
        except ValueError:  # another encoding, or characters that no message can have
            raise ConfigurationError(
                f"{name!r} is neither text in UTF-8 nor an image, audio, video or a PDF file of a known kind"
            ) from None
        return DocumentBlock(source=source, media_type="text/plain", title=name)
    source = MediaSource(kind="base64", data=data)
    block = _BLOCKS.get(media_type.partition("/")[0])
    if block is None:
        return DocumentBlock(source=source, media_type=media_type, title=name)
    return block(source=source, media_type=media_type)
