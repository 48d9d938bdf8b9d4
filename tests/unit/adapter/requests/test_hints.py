"""What a history asks of the provider's own machinery: places up to which to cache, and documents to cite."""

import json
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.canonical.blocks import ContentBlock, DocumentBlock, MediaSource, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import MessageMetadata
from dragoman.messages import read_message, write_message

CLAUDE, BEDROCK = "anthropic:claude-sonnet-4-5", "bedrock:us.anthropic.claude-sonnet-4-6"
PAPER = DocumentBlock(source=MediaSource(kind="text", data="Rain."), media_type="text/plain", title="a", citations=True)
MARKER = {"type": "ephemeral", "ttl": "5m"}
POINT = {"cachePoint": {"type": "default"}}


def marked(*content: ContentBlock, after: tuple[int, ...] = (0,), role: str = "user") -> Message:
    return Message(role=role, content=content, metadata=MessageMetadata(cache_breakpoints=after))


def send(model: str, *messages: Message, **options: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the body, and the kinds and reasons of the losses."""
    wire = get_adapter(model).to_wire(messages, [], AdapterOptions(**options))
    return json.loads(wire.body), [(loss.kind, loss.reason) for loss in wire.losses]


RULES = marked(TextBlock(text="Be short."), role="system")
LONG = marked(TextBlock(text="A long text."), TextBlock(text="A question."))


def test_anthropic_gets_a_marker_on_the_block() -> None:
    """In the system prompt and in messages, for as long as the option says."""
    body, losses = send(CLAUDE, RULES, LONG)
    assert body["system"] == [{"type": "text", "text": "Be short.", "cache_control": MARKER}]
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "A long text.", "cache_control": MARKER}, {"type": "text", "text": "A question."},
    ]  # fmt: skip
    assert losses == []
    body, _ = send(CLAUDE, LONG, prompt_cache="1h")
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_bedrock_gets_a_marker_after_the_block() -> None:
    body, losses = send(BEDROCK, RULES, LONG)
    assert body["system"] == [{"text": "Be short."}, POINT]
    assert body["messages"][0]["content"] == [{"text": "A long text."}, POINT, {"text": "A question."}]
    assert losses == []


def test_the_option_and_a_marker_at_one_place_are_one_marker() -> None:
    """The last block is marked by both."""
    body, _ = send(BEDROCK, RULES, marked(TextBlock(text="Hi")), prompt_cache="5m")
    assert body["messages"][0]["content"] == [{"text": "Hi"}, POINT]
    assert body["system"] == [{"text": "Be short."}, POINT]


def test_no_more_markers_than_a_request_may_have() -> None:
    """The first ones count, so that an earlier request stays the beginning of a later one."""
    for model, name in ((CLAUDE, "cache_control"), (BEDROCK, "cachePoint")):
        body, losses = send(model, RULES, *[marked(TextBlock(text=f"{number}")) for number in range(6)])
        assert json.dumps(body).count(f'"{name}"') == 4
        assert losses == [("option", "cache_breakpoints: the request has as many markers as the provider takes")] * 3


def test_the_number_of_markers_is_that_of_the_whole_history() -> None:
    """The number of markers is that of the whole history, also if the beginning of the history comes from the cache of
    encoded messages.
    """
    adapter, options = get_adapter(CLAUDE), AdapterOptions()
    history = [RULES]
    for number in range(6):
        history += [marked(TextBlock(text=f"{number}")), Message.assistant("Yes.")]
    session = options.with_context(RequestContext.for_model(CLAUDE))
    for count in range(2, len(history), 2):
        cached = adapter.to_wire(history[:count], [], session)
        fresh = adapter.to_wire(history[:count], [], options)
        assert cached.body == fresh.body
        assert [loss.reason for loss in cached.losses] == [loss.reason for loss in fresh.losses]


def test_blocks_that_take_no_marker_are_losses() -> None:
    """Thinking is never marked, and a block that became something else is not the marked one."""
    thinking = ThinkingBlock(text="Hm", signature="s")
    own = MessageMetadata(model="anthropic:claude-sonnet-4-5", provider="anthropic", cache_breakpoints=(0,))
    _, losses = send(CLAUDE, Message.user("Hi"), Message.assistant((thinking, TextBlock(text="4")), metadata=own))
    assert losses == [("option", "cache_breakpoints: no marker follows a block of the type thinking")]
    foreign = own.model_copy(update={"model": "openai:gpt-5", "provider": "openai"})
    _, losses = send(CLAUDE, Message.user("Hi"), Message.assistant((thinking, TextBlock(text="4")), metadata=foreign))
    assert ("option", "cache_breakpoints: its block is not sent as it is") in losses


@pytest.mark.parametrize(
    "model",
    ["openai:gpt-5.4", "openai-chat:gpt-4.1", "google:gemini-2.5-flash", "cohere:command-a-03-2025",
     "ollama:qwen3:4b", "bedrock:us.meta.llama3-3-70b-instruct-v1:0", "google-interactions:gemini-3-flash-preview"],
)  # fmt: skip
def test_elsewhere_markers_are_a_loss(model: str) -> None:
    """The severity is info: the answer does not depend on it. The text is the same."""
    plain = Message.user([TextBlock(text="A long text."), TextBlock(text="A question.")])
    wire = get_adapter(model).to_wire([LONG], [], AdapterOptions())
    assert wire.body == get_adapter(model).to_wire([plain], [], AdapterOptions()).body
    found = [(loss.severity, loss.block_index) for loss in wire.losses if loss.kind == "option"]
    assert found == [("info", 0)]


def test_documents_are_cited_by_providers_that_can() -> None:
    """Elsewhere it is a loss, also of a document in a tool's answer."""
    body, losses = send(CLAUDE, Message.user([PAPER]))
    assert (body["messages"][0]["content"][0]["citations"], losses) == ({"enabled": True}, [])
    body, losses = send(BEDROCK, Message.user([TextBlock(text="Read."), PAPER]))
    assert body["messages"][0]["content"][1]["document"]["citations"] == {"enabled": True}
    assert "citations" not in [kind for kind, _ in losses]
    call = Message.assistant([ToolUseBlock(id="c", name="read")])
    for history in ([Message.user([PAPER])], [Message.user("Hi"), call, Message.tool("c", [PAPER])]):
        _, losses = send("google:gemini-2.5-flash", *history)
        assert ("citations", "whether answers cite a document is not sent") in losses


def test_both_are_read_from_requests() -> None:
    """They go back unchanged, and reach the other provider."""
    content = [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Rain."},
         "citations": {"enabled": True}, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Rain?"},
    ]  # fmt: skip
    request = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    messages, tools, options = get_adapter(CLAUDE).from_wire_request(request, RequestContext.for_model(CLAUDE))
    (message,) = messages
    assert message.metadata.cache_breakpoints == (0,)
    assert isinstance(message.content[0], DocumentBlock)
    assert message.content[0].citations is True
    assert json.loads(get_adapter(CLAUDE).to_wire(messages, tools, options).body) == request
    body, _ = send(BEDROCK, *messages)
    assert body["messages"][0]["content"][0]["document"]["citations"] == {"enabled": True}
    converse = {"messages": [{"role": "user", "content": [{"text": "A long text."}, POINT, {"text": "?"}]}]}
    read, _, _ = get_adapter(BEDROCK).from_wire_request(converse, RequestContext.for_model(BEDROCK))
    assert read[0].metadata.cache_breakpoints == (0,)
    assert json.loads(get_adapter(BEDROCK).to_wire(read, [], AdapterOptions()).body)["messages"] == converse["messages"]
    body, _ = send(CLAUDE, *read)
    assert body["messages"][0]["content"][0] == {"type": "text", "text": "A long text.", "cache_control": MARKER}


def test_both_are_stored_with_the_message() -> None:
    message = marked(PAPER)
    assert read_message(write_message(message)) == message
