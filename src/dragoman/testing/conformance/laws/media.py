"""Declared media are checked in both directions: supported media are sent, others are a named loss."""

from collections.abc import Iterator

from dragoman.adapter.errors import CriticalLossError
from dragoman.adapter.facts.capabilities import ABSENT, EMULATED, AdapterCapabilities
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.testing.conformance.subject import NotTriedError, Subject, collect_texts, losses_of_message, parse_body
from dragoman.testing.stream_laws import Trial

Media = type[ImageBlock] | type[AudioBlock] | type[VideoBlock] | type[DocumentBlock]

# Bytes with the signatures of such files.
_DATA = {
    ImageBlock: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    AudioBlock: "UklGRiQAAABXQVZFZm10IBAAAAABAAEA",
    VideoBlock: "AAAAGGZ0eXBpc29tAAAAAGlzb21pc28y",
    DocumentBlock: "JVBERi0xLjQKJcOkw7zDtsOfCjIgMCBv",
}
_LIKELY = {
    ImageBlock: "image/png",
    AudioBlock: "audio/wav",
    VideoBlock: "video/mp4",
    DocumentBlock: "application/pdf",
}
_LINK = "https://example.org/a-file-of-the-kit"
_UNKNOWN_TYPE = "application/x-unheard-of"


def images(subject: Subject) -> Iterator[Trial]:
    """Images are sent with their data if declared, and are a named loss otherwise."""
    yield from _check_medium(subject, ImageBlock)


def audio(subject: Subject) -> Iterator[Trial]:
    """Audio is sent with its data if declared, and is a named loss otherwise."""
    yield from _check_medium(subject, AudioBlock)


def video(subject: Subject) -> Iterator[Trial]:
    """Video is sent with its data if declared, and is a named loss otherwise."""
    yield from _check_medium(subject, VideoBlock)


def documents(subject: Subject) -> Iterator[Trial]:
    """Documents are sent with their data if declared, and are a named loss otherwise."""
    yield from _check_medium(subject, DocumentBlock)


def media_by_url(subject: Subject) -> Iterator[Trial]:
    """A media URL is sent unchanged if declared, and is a named loss otherwise."""
    declared_capabilities = subject.adapter.capabilities
    if not declared_capabilities.supports_images:
        raise NotTriedError("the model takes no images, by link or otherwise")
    accepts_urls = bool(declared_capabilities.supports_media_urls) and "url" in declared_capabilities.media_sources.get(
        "image", ("url",)
    )
    block = ImageBlock(source=MediaSource(kind="url", data=_LINK), media_type=_type(ImageBlock, declared_capabilities))
    yield _trial(subject, block, "by link", taken=accepts_urls)


def media_in_answers(subject: Subject) -> Iterator[Trial]:
    """An image in a tool's answer is sent as declared, inside or right after it; otherwise it is a named loss."""
    declared_capabilities = subject.adapter.capabilities
    if not (declared_capabilities.supports_tools and declared_capabilities.supports_images):
        raise NotTriedError("the model takes no images, or calls no tools")
    image = _block(ImageBlock, declared_capabilities, "base64", _type(ImageBlock, declared_capabilities))
    call = ToolUseBlock(id="tu_kit", name="look", input={})
    answer = Message(
        role=Role.TOOL, content=(ToolResultBlock(tool_use_id="tu_kit", content=(TextBlock(text="Seen."), image)),)
    )
    history = [Message.user("Look."), Message.assistant([call]), answer]
    request = subject.write(history)
    kinds = {loss.kind for loss in losses_of_message(request.losses, answer)}
    arrived = _arrives(subject, request.body, image)
    support = declared_capabilities.supports_tool_result_media
    faults = []
    if arrived != bool(support):
        faults.append(f"declared {support}, and it {'arrives' if arrived else 'does not arrive'}")
    if support is ABSENT and LossKind.MEDIA not in kinds:
        faults.append("lost without a report")
    if support is EMULATED and LossKind.FLATTENED not in kinds:
        faults.append("moved after the answer without a report")
    yield Trial(f"in an answer: {support}", tuple(faults), "carried" if arrived else "named as lost")


def _check_medium(subject: Subject, kind: Media) -> Iterator[Trial]:
    declared_capabilities = subject.adapter.capabilities
    name = _name(kind)
    declared = bool(getattr(declared_capabilities, f"supports_{'images' if name == 'image' else _plural(name)}"))
    sources = [
        each for each in declared_capabilities.media_sources.get(name, ("base64",)) if each in ("base64", "url", "text")
    ]
    if not declared:
        yield _trial(subject, _block(kind, declared_capabilities, "base64", _LIKELY[kind]), "by base64", taken=False)
        return
    for source in sources:
        if source == "url" and not declared_capabilities.supports_media_urls:
            continue
        likely = (_type(kind, declared_capabilities),)
        for media_type in (_types(kind, declared_capabilities) or likely) if source == "base64" else likely:
            sent_type = (
                media_type
                if source != "text"
                else "text/plain"
                if _takes_plain_text(kind, declared_capabilities)
                else None
            )
            yield _trial(
                subject, _block(kind, declared_capabilities, source, sent_type), f"{sent_type} by {source}", taken=True
            )
    if _types(kind, declared_capabilities) and "base64" in sources:
        yield _trial(subject, _block(kind, declared_capabilities, "base64", _UNKNOWN_TYPE), _UNKNOWN_TYPE, taken=False)


def _plural(name: str) -> str:
    return "documents" if name == "document" else name


def _name(kind: Media) -> str:
    return kind.model_fields["type"].default  # type: ignore[no-any-return]


def _types(kind: Media, declared_capabilities: AdapterCapabilities) -> tuple[str, ...]:
    """The declared media types; empty if all are accepted."""
    declared = declared_capabilities.accepted_media_types.get(_name(kind), ())
    return declared or (declared_capabilities.accepted_image_media_types if kind is ImageBlock else ())


def _takes_plain_text(kind: Media, declared_capabilities: AdapterCapabilities) -> bool:
    return "text/plain" in (_types(kind, declared_capabilities) or ("text/plain",))


def _type(kind: Media, declared_capabilities: AdapterCapabilities) -> str:
    declared = _types(kind, declared_capabilities)
    return _LIKELY[kind] if not declared or _LIKELY[kind] in declared else declared[0]


def _block(
    kind: Media, declared_capabilities: AdapterCapabilities, source: str, media_type: str | None
) -> ContentBlock:
    data = {"url": _LINK, "text": "Plain words of the kit."}.get(source, _DATA[kind])
    if kind is DocumentBlock and media_type != _LIKELY[kind] and source == "base64":  # some are sent as text
        data = "UGxhaW4gd29yZHMgb2YgdGhlIGtpdC4="
    named = {"title": "offer.pdf"} if kind is DocumentBlock else {"detail": "low"} if kind is ImageBlock else {}
    where = MediaSource.model_validate({"kind": source, "data": data})
    return kind.model_validate({"source": where, "media_type": media_type, **named})


def _trial(subject: Subject, block: ContentBlock, what: str, *, taken: bool) -> Trial:
    roles = subject.adapter.capabilities.media_roles
    role = Role.USER if "user" in roles or not roles else Role(roles[0])
    message = Message(role=role, content=(TextBlock(text="Look at this."), block))
    request = subject.write([message])
    lost = [loss for loss in losses_of_message(request.losses, message) if loss.kind is LossKind.MEDIA]
    warnings = [loss for loss in lost if loss.severity is Severity.WARNING]
    arrived = _arrives(subject, request.body, block)
    faults = []
    if taken and not arrived:
        faults.append("declared, and not on the wire")
    changed = list(_changed_fields(subject, request.body, block)) if taken and arrived else []
    if len(changed) > (count := len(losses_of_message(request.losses, message))):
        faults.append(f"{' and '.join(changed)}, with {count} losses")
    if not taken and arrived:
        faults.append("on the wire, although it is not declared")
    if not taken and not warnings:
        faults.append("not declared, and lost without a report")
    if not taken and not _is_refused_if_critical(subject, message):
        faults.append("lost although it was marked critical")
    return Trial(what, tuple(faults), "carried" if arrived else "named as lost")


def _arrives(subject: Subject, body: bytes, block: ContentBlock) -> bool:
    """Whether the block's data is on the wire, unchanged or as the adapter reads it back."""
    assert isinstance(block, ImageBlock | AudioBlock | VideoBlock | DocumentBlock)
    texts = collect_texts(parse_body(body))
    if block.source.kind == "url":  # a link is a text of its own, not the data of a `data:` URL
        texts = f"\n{texts}\n"
        found = f"\n{block.source.data}\n" in texts
    else:
        found = any(form in texts for form in (block.source.data, "Plain words of the kit."))
    return found or _read_back(subject, body, block) is not None


def _read_back(subject: Subject, body: bytes, block: ContentBlock) -> ContentBlock | None:
    """Return the block with the same source that the adapter reads from the request."""
    source = getattr(block, "source", None)
    blocks = [
        each for message in subject.adapter.from_wire_request(body, subject.context())[0] for each in message.content
    ]
    return next((each for each in blocks if getattr(each, "source", None) == source), None)


def _changed_fields(subject: Subject, body: bytes, block: ContentBlock) -> Iterator[str]:
    """Yield the fields of a block that came back changed."""
    back = _read_back(subject, body, block)
    if back is None:
        return
    for name in ("media_type", "title", "detail"):
        sent, found = getattr(block, name, None), getattr(back, name, None)
        if sent is not None and found != sent and not (name == "media_type" and found is None):
            yield f"the {name} {sent!r} came back as {found!r}"


def _is_refused_if_critical(subject: Subject, message: Message) -> bool:
    marked = message.model_copy(update={"metadata": MessageMetadata(critical=(1,))})
    try:
        subject.write([marked])
    except CriticalLossError:
        return True
    return False
