"""Declared capabilities are checked in both directions: a supported feature is sent, another one is a loss."""

from collections.abc import Iterator
from contextlib import suppress

from dragoman.adapter.errors import CriticalLossError
from dragoman.adapter.facts.capabilities import ABSENT, EMULATED, NATIVE, AdapterCapabilities
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.events import ToolUseEnd, ToolUseInputDelta
from dragoman.canonical.message import Channel, Message, MessageMetadata, Role
from dragoman.testing.conformance.subject import (
    SCHEMA,
    TOOL,
    NotTriedError,
    Subject,
    collect_texts,
    fit_to_wire,
    is_option_lost,
    losses_of_message,
    parse_body,
)
from dragoman.testing.sample_reply import SHORT
from dragoman.testing.stream_laws import Trial

_HI = Message.user("Hi")
_FIELD = "answer_in_metres"

Media = type[ImageBlock] | type[AudioBlock] | type[VideoBlock] | type[DocumentBlock]

_SAMPLES = {
    ImageBlock: ("image/png", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"),
    AudioBlock: ("audio/wav", "UklGRiQAAABXQVZFZm10IBAAAAABAAEA"),
    VideoBlock: ("video/mp4", "AAAAGGZ0eXBpc29tAAAAAGlzb21pc28y"),
    DocumentBlock: ("application/pdf", "JVBERi0xLjQKJcOkw7zDtsOfCjIgMCBv"),
}
"""A likely type of each kind, and bytes with the signature of such files."""
_LINK = "https://example.org/a-file-of-the-kit"
_UNKNOWN_TYPE = "application/x-unheard-of"


def tools(subject: Subject) -> Iterator[Trial]:
    """If tools are declared, tools, calls and answers come back from the wire; otherwise each is a named loss."""
    call = ToolUseBlock(id="tu_kit", name="look_up", input={_FIELD: 7})
    call_message = Message.assistant([TextBlock(text="I look it up."), call])
    answer = Message.tool("tu_kit", "It is 7 metres.")
    request = subject.write([_HI, call_message, answer], [TOOL])
    read = subject.read(request)
    offered = any(tool.name == TOOL.name and tool.description == TOOL.description for tool in read.tools)
    called = [use.input for message in read.messages for use in message.tool_uses]
    answered = [result for message in read.messages for result in message.tool_results]
    if subject.adapter.capabilities.supports_tools:
        faults = [] if offered else ["declared, and the tool is not offered by its name and description"]
        faults += [] if called == [call.input] else [f"declared, and the call came back as {called}"]
        faults += [] if len(answered) == 1 else ["declared, and the answer is not on the wire"]
        said = any("I look it up." in message.text for message in read.messages)
        faults += [] if said else ["declared, and the words before the call are not on the wire"]
    else:
        kinds = {loss.message_id for loss in request.losses if loss.kind is LossKind.TOOLS}
        faults = [] if kinds >= {"", call_message.id, answer.id} else ["tool, call or answer lost without a report"]
        faults += ["not declared, and offered or called all the same"] if offered or called else []
    yield Trial(str(subject.adapter.capabilities.supports_tools), tuple(faults), "carried" if offered else "lost")


def forced_tool_choice(subject: Subject) -> Iterator[Trial]:
    """If forced tool choice is declared, the request demands the tool; otherwise the demand is a named loss."""
    rule = subject.adapter.capabilities.forced_tool_choice
    subject.require_tools()
    plain = subject.write([_HI], [TOOL])
    request = subject.write([_HI], [TOOL], tool_choice="required")
    lost, sent = is_option_lost(request.losses, "tool_choice"), request.body != plain.body
    faults = [f"declared {rule}, and lost"] if rule == "allowed" and lost else []
    faults += [f"declared {rule}, and not a named loss"] if rule == "never" and not lost else []
    faults += ["neither asked for nor lost"] if not (sent or lost) else []
    yield Trial(rule, tuple(faults), "named as lost" if lost else "carried")


def parallel_calls(subject: Subject) -> Iterator[Trial]:
    """Two calls of one message come back as two calls of one turn, with both answers."""
    facts = subject.adapter.capabilities
    if not (facts.supports_tools and facts.supports_parallel_tool_calls):
        raise NotTriedError("not declared")
    calls = [ToolUseBlock(id=f"tu_kit{n}", name="look_up", input={_FIELD: n}) for n in (1, 2)]
    answers = [Message.tool(call.id, f"Answer {number}.") for number, call in enumerate(calls, 1)]
    read = subject.read(subject.write([_HI, Message.assistant(calls), *answers], [TOOL]))
    inputs = [use.input[_FIELD] for message in read.messages for use in message.tool_uses]
    result_ids = [result.tool_use_id for message in read.messages for result in message.tool_results]
    call_ids = [use.id for message in read.messages for use in message.tool_uses]
    faults = [] if inputs == [1, 2] else [f"the calls came back as {inputs}"]
    faults += [] if result_ids == call_ids else ["the answers do not name the calls"]
    yield Trial("two calls", tuple(faults), "carried")


def system_prompt(subject: Subject) -> Iterator[Trial]:
    """If a system prompt is declared, it keeps its role; otherwise it is sent in another role, which is a loss."""
    yield _role(subject, Role.SYSTEM, bool(subject.adapter.capabilities.supports_system_prompt), leading=True)


def instructions_keep_their_order(subject: Subject) -> Iterator[Trial]:
    """Each instruction arrives, before the conversation and within it, in the order of the history."""
    _require_instructions(subject)
    texts = ["Be brief.", "Write English.", "How far is it?", "It is 7 metres.", "Write French.", "Go on."]
    roles = (Role.SYSTEM, Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.SYSTEM, Role.USER)
    history = [Message(role=role, content=(TextBlock(text=text),)) for role, text in zip(roles, texts, strict=True)]
    read = "\n".join(message.text for message in subject.read(subject.write(history)).messages)
    missing = [text for text in texts if text not in read]
    faults = [f"{text!r} is not on the wire" for text in missing]
    if not missing and sorted(texts, key=read.index) != texts:
        faults.append(f"they came back in the order {sorted(texts, key=read.index)}")
    yield Trial("three instructions", tuple(faults), "carried")


def developer_role(subject: Subject) -> Iterator[Trial]:
    """If the developer role is declared, such a message keeps it; otherwise the role is a named loss."""
    _require_instructions(subject)
    yield _role(subject, Role.DEVELOPER, bool(subject.adapter.capabilities.supports_developer_role), leading=True)


def mid_conversation_system(subject: Subject) -> Iterator[Trial]:
    """If declared, a system message in the middle keeps its role; otherwise the role is a named loss."""
    _require_instructions(subject)
    yield _role(
        subject, Role.SYSTEM, bool(subject.adapter.capabilities.supports_mid_conversation_system), leading=False
    )


def _require_instructions(subject: Subject) -> None:
    if not subject.adapter.capabilities.supports_system_prompt:
        raise NotTriedError("the model takes no instructions at all")


def _role(subject: Subject, role: Role, declared: bool, *, leading: bool) -> Trial:
    instruction = Message(role=role, content=(TextBlock(text="Be brief in all answers."),))
    history = [instruction, _HI] if leading else [_HI, Message.assistant("Hello."), instruction, Message.user("Go on.")]
    request = subject.write(history)
    lost = [loss for loss in losses_of_message(request.losses, instruction) if loss.kind is LossKind.ROLE]
    arrived = instruction.text in collect_texts(parse_body(request.body))
    in_role = any(
        message.role is role and instruction.text in message.text for message in subject.read(request).messages
    )
    faults = [] if arrived else ["its words are not on the wire"]
    faults += ["declared, and named as lost"] if declared and lost else []
    faults += ["declared, and it comes back in another role"] if declared and not in_role else []
    faults += ["not declared, and no loss says so"] if not declared and not lost else []
    return Trial(str(role), tuple(faults), "named as lost" if lost else "carried")


def prefill(subject: Subject) -> Iterator[Trial]:
    """If declared, a reply for the model to continue stays last; otherwise that is a named loss."""
    declared = subject.adapter.capabilities.supports_prefill
    prefix = Message.assistant("It is about")
    request = subject.write([_HI, prefix])
    last = subject.read(request).messages[-1].role
    lost = any(loss.kind is LossKind.PREFILL for loss in request.losses)
    faults = ["declared, and named as lost"] if declared and lost else []
    faults += ["declared, and not last on the wire"] if declared and last is not Role.ASSISTANT else []
    faults += ["not declared, and no loss says so"] if not (declared or lost) else []
    faults += ["not declared, and last on the wire"] if not declared and last is Role.ASSISTANT else []
    yield Trial(str(declared), tuple(faults), "named as lost" if lost else "carried")


def channels(subject: Subject) -> Iterator[Trial]:
    """A channel that is declared comes back; any other is a named loss."""
    for channel in Channel:
        message = Message.assistant("So.", channel=channel)
        request = subject.write([_HI, message, Message.user("And?")])
        back = [message.channel for message in subject.read(request).messages if message.text == "So."]
        lost = any(loss.kind is LossKind.CHANNEL for loss in losses_of_message(request.losses, message))
        declared = channel in subject.adapter.capabilities.channels
        faults = [] if (back == [channel]) is declared else [f"declared {declared}, came back as {back}"]
        faults += [] if lost is not declared else [f"declared {declared}, lost {lost}"]
        yield Trial(channel, tuple(faults), "named as lost" if lost else "carried")


def own_thinking(subject: Subject) -> Iterator[Trial]:
    """The model gets its own signed thinking back if its policy reads it; otherwise it is a named loss."""
    facts = subject.adapter.capabilities
    if not facts.supports_thinking:
        raise NotTriedError("the model does not think")
    yield _thinking(subject, subject.model, can_read=facts.thinking_policy.can_read(subject.model))


def foreign_thinking(subject: Subject) -> Iterator[Trial]:
    """Signed thinking that the policy does not read is never sent as thinking, and is a named loss."""
    policy = subject.adapter.capabilities.thinking_policy
    if policy.foreign == "refuse":
        raise NotTriedError("the policy refuses such histories as a whole")
    yield _thinking(subject, "elsewhere:model", can_read=policy.can_read("elsewhere:model"))


def _thinking(subject: Subject, model: str, *, can_read: bool) -> Trial:
    thought = ThinkingBlock(text="The rain matters here.", signature="a2l0IHNpZ25hdHVyZQ==")
    metadata = MessageMetadata(model=model, provider=model.partition(":")[0])
    message = Message.assistant([thought, TextBlock(text="Take a coat.")], metadata=metadata)
    request = subject.write([_HI, message, Message.user("And?")])
    lost = [loss for loss in losses_of_message(request.losses, message) if loss.kind is LossKind.THINKING]
    read = subject.read(request)
    back = any(isinstance(block, ThinkingBlock) for message in read.messages for block in message.content)
    faults = ["the policy reads it, and it is not on the wire"] if can_read and not back else []
    faults += ["the policy does not read it, and no loss says so"] if not can_read and not lost else []
    faults += ["the policy does not read it, and it is sent as thinking"] if not can_read and back else []
    return Trial(model, tuple(faults), "carried" if back else "named as lost")


def thinking_in_replies(subject: Subject) -> Iterator[Trial]:
    """Thinking on the wire becomes a thinking block, not text; if declared, one of the kit's wires has thinking."""
    wires = subject.require_wires()
    thinking_wires = [wire for wire in wires if wire.thinking]
    if subject.adapter.capabilities.supports_thinking and not thinking_wires:
        yield Trial("declared", ("no wire of the kit tells thinking",))
        return
    if not thinking_wires:
        raise NotTriedError("the wire does not tell thinking from text")
    for wire in thinking_wires:
        reply = subject.reply(wire, SHORT)
        same = (reply.thinking, reply.text) == ("".join(SHORT.thinking), "".join(SHORT.text))
        yield Trial("a reply", () if same else (f"thinking {reply.thinking!r}, text {reply.text!r}",), "carried")


def calls_in_streams(subject: Subject) -> Iterator[Trial]:
    """Calls stream in pieces if declared as native; emulated streams may hold them whole."""
    facts = subject.adapter.capabilities
    support = facts.supports_streaming_tool_calls
    if not support:
        raise NotTriedError("not declared: with tools, a whole reply is asked for")
    for wire in subject.require_wires():
        events = subject.stream_events(wire, fit_to_wire(SHORT, wire))
        ended = [event.final_input for event in events if isinstance(event, ToolUseEnd)]
        first = next((event.tool_use_id for event in events if isinstance(event, ToolUseInputDelta)), None)
        pieces = sum(isinstance(event, ToolUseInputDelta) and event.tool_use_id == first for event in events)
        faults = [] if ended == [call.input for call in SHORT.calls] else [f"the calls end with {ended}"]
        if facts.supports_tools and support is NATIVE and pieces < 2:
            faults.append(f"declared {support}, came in {pieces} pieces")
        yield Trial(str(support), tuple(faults), "carried")


def streaming(subject: Subject) -> Iterator[Trial]:
    """The request says whether it wants a stream, and the provider is told: by the path, or by the body."""
    if not subject.adapter.capabilities.supports_streaming:
        raise NotTriedError("not declared")
    whole, streamed = subject.write([_HI], stream=False), subject.write([_HI], stream=True)
    faults = [] if (whole.stream, streamed.stream) == (False, True) else ["the request does not say which it is"]
    requests = [(each.path, each.body, dict(each.headers)) for each in (whole, streamed)]
    faults += ["both are asked for by the same bytes"] if requests[0] == requests[1] else []
    if whole.path == streamed.path and whole.headers == streamed.headers:
        read = tuple(subject.read(each).options.stream for each in (whole, streamed))
        faults += [] if read == (False, True) else [f"False and True came back as {read[0]} and {read[1]}"]
    yield Trial("stream", tuple(faults), "carried")


def structured_output(subject: Subject) -> Iterator[Trial]:
    """A schema is sent as declared: without a loss if native, with one if emulated; if absent, it is a named loss."""
    support = subject.adapter.capabilities.supports_structured_output
    request = subject.write([_HI], output_schema=SCHEMA)
    lost, sent = is_option_lost(request.losses, "output_schema"), _FIELD in collect_texts(parse_body(request.body))
    expected = {NATIVE: (False, True), EMULATED: (True, True), ABSENT: (True, False)}[support]
    fault = f"declared {support}: {'lost' if lost else 'not lost'}, {'sent' if sent else 'not sent'}"
    yield Trial(str(support), () if (lost, sent) == expected else (fault,), "carried" if sent else "named as lost")


def prompt_caching(subject: Subject) -> Iterator[Trial]:
    """A caching hint is on the wire or a note; if no caching is declared, it is always a named loss."""
    support = subject.adapter.capabilities.supports_prompt_caching
    history = [Message.system("Be brief."), _HI]
    request, plain = subject.write(history, prompt_cache="1h"), subject.write(history)
    lost, sent = is_option_lost(request.losses, "prompt_cache"), request.body != plain.body
    faults = [] if sent or lost else ["neither asked for nor a note"]
    faults += [f"declared {support}, and asked for"] if not support and sent else []
    yield Trial(str(support), tuple(faults), "carried" if sent else "named as lost")


def sampling(subject: Subject) -> Iterator[Trial]:
    """Each sampling parameter comes back or is a named loss; one at least comes back if they are allowed, and none if
    they never are."""
    rule = subject.adapter.capabilities.sampling
    carried: list[str] = []
    for name in ("temperature", "top_p"):
        request = subject.write([_HI], [], **{name: 0.25})
        lost = is_option_lost(request.losses, name)
        back = getattr(subject.read(request).options, name)
        carried += [] if lost else [name]
        faults = [f"declared {rule}, and sent"] if rule == "never" and not lost else []
        faults += [f"came back as {back}"] if back != (None if lost else 0.25) else []
        yield Trial(name, tuple(faults), "named as lost" if lost else "carried")
    none = () if carried or rule != "allowed" else ("declared allowed, and all of them are lost",)
    yield Trial("one of them", none, "carried" if carried else "named as lost")


def stop_sequences(subject: Subject) -> Iterator[Trial]:
    """The declared number of stop sequences comes back; one more is a named loss."""
    limit = subject.adapter.capabilities.max_stop_sequences
    given = tuple(f"STOP{number}" for number in range((limit or 0) + 1 if limit is not None else 3))
    request = subject.write([_HI], stop_sequences=given)
    back, lost = subject.read(request).options.stop_sequences, is_option_lost(request.losses, "stop_sequences")
    faults = [] if lost is (limit is not None) else [f"{len(given)} of {limit}: lost {lost}"]
    faults += [] if back == given[:limit] else [f"{given[:limit]} came back as {back}"]
    yield Trial(f"{len(given)} of {limit}", tuple(faults), "carried" if back else "named as lost")


def images(subject: Subject) -> Iterator[Trial]:
    """Images are sent with their data if declared, and are a named loss otherwise."""
    yield from _check_medium(subject, ImageBlock, "supports_images")


def audio(subject: Subject) -> Iterator[Trial]:
    """Audio is sent with its data if declared, and is a named loss otherwise."""
    yield from _check_medium(subject, AudioBlock, "supports_audio")


def video(subject: Subject) -> Iterator[Trial]:
    """Video is sent with its data if declared, and is a named loss otherwise."""
    yield from _check_medium(subject, VideoBlock, "supports_video")


def documents(subject: Subject) -> Iterator[Trial]:
    """Documents are sent with their data if declared, and are a named loss otherwise."""
    yield from _check_medium(subject, DocumentBlock, "supports_documents")


def media_by_url(subject: Subject) -> Iterator[Trial]:
    """A media URL is sent unchanged if declared, and is a named loss otherwise."""
    facts = subject.adapter.capabilities
    if not facts.supports_images:
        raise NotTriedError("the model takes no images, by link or otherwise")
    takes_urls = bool(facts.supports_media_urls) and "url" in facts.media_sources.get("image", ("url",))
    block = ImageBlock(source=MediaSource(kind="url", data=_LINK), media_type=_type(ImageBlock, facts))
    yield _trial(subject, block, "by link", taken=takes_urls)


def media_in_answers(subject: Subject) -> Iterator[Trial]:
    """An image in a tool's answer is sent as declared, inside or right after it; otherwise it is a named loss."""
    facts = subject.adapter.capabilities
    if not (facts.supports_tools and facts.supports_images):
        raise NotTriedError("the model takes no images, or calls no tools")
    image = _block(ImageBlock, "base64", _type(ImageBlock, facts))
    call = ToolUseBlock(id="tu_kit", name="look", input={})
    result = ToolResultBlock(tool_use_id="tu_kit", content=(TextBlock(text="Seen."), image))
    answer = Message(role=Role.TOOL, content=(result,))
    request = subject.write([Message.user("Look."), Message.assistant([call]), answer])
    kinds = {loss.kind for loss in losses_of_message(request.losses, answer)}
    arrived = _arrives(subject, request.body, image)
    support = facts.supports_tool_result_media
    faults = []
    if arrived != bool(support):
        faults.append(f"declared {support}, and it {'arrives' if arrived else 'does not arrive'}")
    if support is ABSENT and LossKind.MEDIA not in kinds:
        faults.append("lost without a report")
    if support is EMULATED and LossKind.FLATTENED not in kinds:
        faults.append("moved after the answer without a report")
    yield Trial(f"in an answer: {support}", tuple(faults), "carried" if arrived else "named as lost")


def _check_medium(subject: Subject, kind: Media, field: str) -> Iterator[Trial]:
    """Try a kind of media in all declared sources and types, and in one that is not declared."""
    facts = subject.adapter.capabilities
    if not getattr(facts, field):
        yield _trial(subject, _block(kind, "base64", _SAMPLES[kind][0]), "by base64", taken=False)
        return
    sources = [each for each in facts.media_sources.get(_name(kind), ("base64",)) if each in ("base64", "url", "text")]
    types, likely = _types(kind, facts), (_type(kind, facts),)
    for source in sources:
        if source == "url" and not facts.supports_media_urls:
            continue
        sent_types: tuple[str | None, ...] = likely
        if source == "base64":
            sent_types = types or likely
        elif source == "text":
            sent_types = ("text/plain" if "text/plain" in (types or ("text/plain",)) else None,)
        for media_type in sent_types:
            yield _trial(subject, _block(kind, source, media_type), f"{media_type} by {source}", taken=True)
    if types and "base64" in sources:
        yield _trial(subject, _block(kind, "base64", _UNKNOWN_TYPE), _UNKNOWN_TYPE, taken=False)


def _name(kind: Media) -> str:
    return kind.model_fields["type"].default  # type: ignore[no-any-return]


def _types(kind: Media, facts: AdapterCapabilities) -> tuple[str, ...]:
    """The declared media types; empty if all are accepted."""
    declared = facts.accepted_media_types.get(_name(kind), ())
    return declared or (facts.accepted_image_media_types if kind is ImageBlock else ())


def _type(kind: Media, facts: AdapterCapabilities) -> str:
    declared, likely = _types(kind, facts), _SAMPLES[kind][0]
    return likely if not declared or likely in declared else declared[0]


def _block(kind: Media, source: str, media_type: str | None) -> ContentBlock:
    likely, sample = _SAMPLES[kind]
    data = {"url": _LINK, "text": "Plain words of the kit."}.get(source, sample)
    if kind is DocumentBlock and media_type != likely and source == "base64":  # some are sent as text
        data = "UGxhaW4gd29yZHMgb2YgdGhlIGtpdC4="
    named = {"title": "offer.pdf"} if kind is DocumentBlock else {"detail": "low"} if kind is ImageBlock else {}
    where = MediaSource.model_validate({"kind": source, "data": data})
    return kind.model_validate({"source": where, "media_type": media_type, **named})


def _trial(subject: Subject, block: ContentBlock, what: str, *, taken: bool) -> Trial:
    roles = subject.adapter.capabilities.media_roles
    role = Role.USER if "user" in roles or not roles else Role(roles[0])
    message = Message(role=role, content=(TextBlock(text="Look at this."), block))
    request = subject.write([message])
    losses = losses_of_message(request.losses, message)
    arrived = _arrives(subject, request.body, block)
    faults = []
    if taken and not arrived:
        faults.append("declared, and not on the wire")
    if taken and arrived and (back := _read_back(subject, request.body, block)) is not None:
        changed = []
        for name in ("media_type", "title", "detail"):
            sent, found = getattr(block, name, None), getattr(back, name, None)
            if sent is not None and found != sent and not (name == "media_type" and found is None):
                changed.append(f"the {name} {sent!r} came back as {found!r}")
        if len(changed) > len(losses):
            faults.append(f"{' and '.join(changed)}, with {len(losses)} losses")
    if not taken:
        if arrived:
            faults.append("on the wire, although it is not declared")
        if not any(loss.kind is LossKind.MEDIA and loss.severity is Severity.WARNING for loss in losses):
            faults.append("not declared, and lost without a report")
        with suppress(CriticalLossError):
            subject.write([message.model_copy(update={"metadata": MessageMetadata(critical=(1,))})])
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
