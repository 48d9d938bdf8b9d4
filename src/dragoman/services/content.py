"""What a program gives to a service: a prompt to count, a file to upload."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dragoman.adapter.errors import RequestError
from dragoman.adapter.operations.service_api import FileContent
from dragoman.canonical.blocks import ContentBlock, DocumentBlock, ImageBlock, MediaSource, TextBlock
from dragoman.canonical.message import Message, Role
from dragoman.session.media import media_type_of

UNKNOWN_TYPE = "application/octet-stream"

Prompt = str | Message | Iterable[Message]


def to_messages(prompt: Prompt, system: str | None) -> tuple[Message, ...]:
    """Return the messages to count. Raises RequestError if there are none."""
    if isinstance(prompt, str):
        prompt = Message.user(prompt)
    messages: Sequence[Message] = (prompt,) if isinstance(prompt, Message) else tuple(prompt)
    if not messages or not all(isinstance(each, Message) for each in messages):
        raise RequestError("a count needs a text, a Message, or a list of at least one Message")
    instructions = () if system is None else (Message(role=Role.SYSTEM, content=system),)
    return (*instructions, *messages)


def read_file(file: str | Path | bytes, name: str | None, media_type: str | None) -> FileContent:
    """Return the content of a file, from its path or its bytes.

    Raises RequestError for a path that is not a readable file, and for bytes without a name.
    """
    if isinstance(file, bytes):
        if name is None:
            raise RequestError("bytes have no name: pass name='report.pdf'")
        data = file
    else:
        path = Path(file)
        if not path.is_file():  # a device may be endless
            raise RequestError(f"{path} is not a file that can be uploaded")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RequestError(f"{path} cannot be read: {error.strerror}") from None
        name = path.name if name is None else name
    return FileContent(name, media_type or media_type_of(name) or UNKNOWN_TYPE, data)


def to_block(file: FileContent) -> ContentBlock:
    """Return the file as content that a policy can judge: text is readable."""
    kind = file.media_type.partition("/")[0]
    if kind == "text" or file.media_type == "application/json":
        return TextBlock(text=file.data.decode("utf-8", "replace"))
    import base64

    source = MediaSource(kind="base64", data=base64.b64encode(file.data).decode("ascii"))
    if kind == "image":
        return ImageBlock(source=source, media_type=file.media_type)
    return DocumentBlock(source=source, media_type=file.media_type, title=file.name)


def apply_judgement(file: FileContent, before: ContentBlock, judged: Sequence[Message]) -> FileContent:
    """Return the file as a policy leaves it. Raises RequestError if it is not text any more."""
    content = judged[-1].content if judged else ()
    if content == (before,):
        return file
    if isinstance(before, TextBlock) and all(isinstance(block, TextBlock) for block in content):
        return file._replace(data="".join(getattr(block, "text", "") for block in content).encode())
    raise RequestError(f"{file.name}: the policy changed the file in a way that cannot be uploaded")
