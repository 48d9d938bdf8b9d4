"""The prompt of a command: its words, what is piped into it, and the files that go with it."""

import base64
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
from dragoman.cli.io import standard_input
from dragoman.cli.io.regular_files import read_regular
from dragoman.view.media import detect_media_type

STDIN = "-"
_BLOCKS: dict[str, type[ImageBlock | AudioBlock | VideoBlock]] = {
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
}


def read_prompt(words: str | None, attachments: Sequence[str]) -> list[ContentBlock]:
    """Return the attachments, and the prompt: what is piped into the command, an empty line and the words.

    ``-`` is the standard input, in place of the words or of an attachment. Raises ConfigurationError for input that
    cannot be read, and if there is nothing to send.
    """
    is_named = words == STDIN or STDIN in attachments
    piped = standard_input.read_all() if is_named or not standard_input.is_terminal() else b""
    blocks = [_to_block("standard input", piped) if name == STDIN else attach(name) for name in attachments]
    texts = [] if STDIN in attachments else [standard_input.decode(piped).strip("\r\n")]
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
        return _to_block(PurePosixPath(urlsplit(name).path).name or name, _fetch(name))
    path = Path(name).expanduser()
    return _to_block(path.name, read_regular(path, standard_input.MAX_BYTES))


def _fetch(url: str) -> bytes:
    """Return what is at a public address, which the user has named: every model can read it then."""
    from dragoman.transport.fetch import Fetcher  # few prompts have an address

    return Fetcher()(url).data


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
