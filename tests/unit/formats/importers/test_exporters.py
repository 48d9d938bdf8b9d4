"""Histories for other libraries: what is written is read back, apart from the named losses."""

from typing import Any

import pytest

from dragoman import Message, TextBlock, ToolUseBlock
from dragoman.adapter.errors import ConfigurationError, CriticalLossError
from dragoman.canonical.blocks import (
    Citation,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from dragoman.canonical.message import MessageMetadata, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats import (
    from_native,
    read,
    to_hugging_face,
    to_langchain,
    to_litellm,
    to_native,
    to_openai_finetuning,
    to_pydantic_ai,
    to_vercel_ui,
)
from dragoman.formats.registry import get_format
from tests.tables import each_row
from tests.unit.formats.documents import everything

LIBRARIES = ("pydantic-ai", "langchain", "litellm")
CALL = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5"


def history() -> list[Message]:
    """A turn with signed thinking, a call, a failed result, an answer with a source, and usage."""
    usage = Usage(
        input_tokens=10, output_tokens=5, cached_input_tokens=20, cache_creation_input_tokens=7,
        cache_creation_1h_input_tokens=3, reasoning_tokens=2,
    )  # fmt: skip
    named: dict[str, Any] = {"model": "anthropic:claude-opus-5-5", "provider": "anthropic"}
    return [
        Message.system("Be brief."),
        Message.user("Weather?"),
        Message.assistant(
            [
                ThinkingBlock(text="Look.", signature="c2ln"),
                RedactedThinkingBlock(data="c2VhbA=="),
                TextBlock(text="I look."),
                ToolUseBlock(id=CALL, name="weather", input={"city": "Bern"}),
            ],
            metadata=MessageMetadata(**named, usage=usage, stop_reason=StopReason.TOOL_USE),
        ),
        Message.tool(CALL, "No such city.", is_error=True),
        Message.assistant(
            [TextBlock(text="Rain.", citations=(Citation(kind="web", url="https://example.org", title="A"),))],
            metadata=MessageMetadata(**named, stop_reason=StopReason.END_TURN),
        ),
    ]


def round_trip(library: str, messages: list[Message]) -> list[Message]:
    known = get_format(library)
    assert known.read is not None
    assert known.write is not None
    return known.read(known.write(messages, None).data, None)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_history_comes_back(library: str) -> None:
    """Its content, and with the libraries that store them, models, tokens and stop reasons."""
    original, back = history(), round_trip(library, history())
    assert [message.role for message in back] == [message.role for message in original]
    for before, after in zip(original, back, strict=True):
        assert [block.type for block in after.content] == [block.type for block in before.content]
        assert after.text == before.text
    assert back[2].content[:2] == original[2].content[:2]
    assert back[2].tool_uses[0].input == {"city": "Bern"}
    assert back[3].tool_results[0].tool_use_id == back[2].tool_uses[0].id
    cited = back[4].content[0]
    assert isinstance(cited, TextBlock)
    assert [(citation.url, citation.title) for citation in cited.citations] == [("https://example.org", "A")]
    if library != "litellm":
        assert back[2].usage == original[2].usage
        assert [message.metadata.model for message in back] == [message.metadata.model for message in original]
        assert [message.stop_reason for message in back] == [message.stop_reason for message in original]
        assert back[3].tool_results[0].is_error


@pytest.mark.parametrize("library", ["pydantic-ai", "langchain"])
def test_signed_thinking_still_returns_to_its_provider(library: str) -> None:
    """Byte for byte, as the provider's own list had it."""
    listed = [
        {"role": "user", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "c2VhbA=="}, {"type": "text", "text": "Ho."}]},
    ]  # fmt: skip
    messages = round_trip(library, from_native("anthropic", listed, model="claude-opus-5-5"))
    assert to_native("anthropic", messages, model="claude-opus-5-5").data == listed


@each_row("library", (*LIBRARIES, "hf", "vercel-ui"))
def test_everything_can_be_written(library: str) -> None:
    """What has no form is a loss of the message that it was in."""
    write = get_format(library).write
    assert write is not None
    written = write(everything(), None)
    assert written.data
    assert {loss.message_id for loss in written.losses} <= {message.id for message in everything()}
    assert any("channel" in loss.reason for loss in written.losses)


def test_broken_arguments_are_kept() -> None:
    """Where a library has a place for them; LiteLLM gets an object with them."""
    messages = [Message.assistant([ToolUseBlock(id=CALL, name="f", raw_input='{"a')])]
    for library in ("pydantic-ai", "langchain"):
        assert round_trip(library, messages)[0].tool_uses[0].raw_input == '{"a'
    assert round_trip("litellm", messages)[0].tool_uses[0].input == {"raw_input": '{"a'}
    assert to_litellm(messages).losses


def test_signatures_of_gemini_travel() -> None:
    listed = [
        {"role": "user", "parts": [{"text": "Hi."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]},
    ]  # fmt: skip
    messages = from_native("google", listed, model="gemini-3.5-pro")
    written = to_pydantic_ai(messages).data
    assert written[1]["parts"][0]["provider_details"] == {"thought_signature": "c2ln"}
    for library in ("pydantic-ai", "langchain"):
        again = to_native("google", round_trip(library, messages), model="gemini-3.5-pro").data
        assert isinstance(again, list)
        assert again[1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_a_provider_s_own_block_goes_into_langchain() -> None:
    """As a non-standard block, which the provider's package sends back."""
    native = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    reply = Message.assistant(
        [ProviderBlock(provider="anthropic", kind="server_tool_use", data=native)],
        metadata=MessageMetadata(model="anthropic:claude-opus-5-5", provider="anthropic"),
    )
    assert to_langchain([reply]).data[0]["data"]["content"] == [{"type": "non_standard", "value": native}]
    assert round_trip("langchain", [reply])[0].content == reply.content


@each_row("library", (*LIBRARIES, "hf"))
def test_a_critical_block_is_not_left_out(library: str) -> None:
    """The writer refuses."""
    block = ProviderBlock(provider="mistral", kind="theirs", data={"a": 1})
    message = Message.assistant([block], metadata=MessageMetadata(critical=(0,)))
    write = get_format(library).write
    assert write is not None
    with pytest.raises(CriticalLossError):
        write([message], None)


def test_results_of_a_user_are_tool_messages() -> None:
    """Some programs write both into one message."""
    mixed = Message.tool(CALL, "a").model_copy(
        update={"content": (ToolResultBlock(tool_use_id=CALL, content="a"), TextBlock(text="And?"))}
    )
    for library in LIBRARIES:
        back = round_trip(library, [Message.assistant([ToolUseBlock(id=CALL, name="f")]), mixed])
        assert [str(message.role) for message in back] == ["assistant", "tool", "user"]


def test_a_row_of_a_data_set_comes_back() -> None:
    """Thinking, calls and results; models, usage, signatures and the failure are named."""
    written = to_hugging_face(history())
    assert written.data.count("\n") == 1
    result = read(written.data)
    assert result.format == "hf"
    assert [message.role for message in result.messages] == [message.role for message in history()]
    reply, answer = result.messages[2:4]
    assert [block.type for block in reply.content] == ["thinking", "text", "tool_use"]
    assert (reply.tool_uses[0].input, answer.tool_results[0].is_error) == ({"city": "Bern"}, False)
    reasons = " ".join(loss.reason for loss in written.losses)
    assert all(word in reasons for word in ("signature", "redacted_thinking", "usage", "flag for errors", "citation"))


def test_langchain_s_messages_are_written_as_constructors() -> None:
    """Both forms are read alike."""
    written = to_langchain(history(), form="dumpd").data
    assert [each["id"][-1] for each in written] == [
        "SystemMessage", "HumanMessage", "AIMessage", "ToolMessage", "AIMessage"]  # fmt: skip
    assert all(each["type"] == "constructor" and None not in each["kwargs"].values() for each in written)
    result = read(written)
    assert result.format == "langchain"
    assert [message.content for message in result.messages][:2] == [message.content for message in history()][:2]
    assert result.messages[2].usage == history()[2].usage
    form: Any = "pickle"
    with pytest.raises(ConfigurationError):
        to_langchain(history(), form=form)


def test_pydantic_ai_gets_files_of_the_providers_that_it_knows() -> None:
    """A file of another one is left out, because its validator refuses the whole history."""
    for provider, owner in {"anthropic": "anthropic", "google-vertex": "google-cloud", "chatgpt": None}.items():
        source = MediaSource(kind="file_id", data="file-1", provider=provider)
        written = to_pydantic_ai([Message.user([TextBlock(text="Hi."), ImageBlock(source=source)])])
        prompt = written.data[0]["parts"][0]["content"]
        found = None if prompt == "Hi." else prompt[1]["provider_name"]
        assert found == owner
        assert any("left out" in loss.reason for loss in written.losses) is (owner is None)


def test_a_user_interface_gets_one_message_for_all_steps() -> None:
    """With the outputs of the tools; read again, it is the history, with usage and model of the last step."""
    written = to_vercel_ui(history())
    assert [message["role"] for message in written.data] == ["system", "user", "assistant"]
    parts = written.data[2]["parts"]
    assert [part["type"] for part in parts] == [
        "step-start", "reasoning", "reasoning", "text", "tool-weather", "step-start", "text", "source-url"]  # fmt: skip
    assert (parts[4]["state"], parts[4]["errorText"]) == ("output-error", "No such city.")
    original, result = history(), read(written.data)
    assert (result.format, result.losses) == ("vercel-ui", ())
    assert [message.role for message in result.messages] == [message.role for message in original]
    assert result.messages[2].content[:3] == original[2].content[:3]
    assert [message.metadata.model for message in result.messages] == [each.metadata.model for each in original]
    assert result.messages[3].tool_results[0].tool_use_id == result.messages[2].tool_uses[0].id
    assert result.messages[3].tool_results[0].is_error
    assert {str(loss.kind) for loss in written.losses} == {"usage", "citations", "stop_reason"}


def test_a_text_after_a_call_stays_in_its_step() -> None:
    """And a result that answers no call of the turn is not text of the assistant."""
    call = ToolUseBlock(id=CALL, name="f", input={})
    messages = [
        Message.user("Go."), Message.assistant([call, TextBlock(text="I call.")]), Message.tool(CALL, "1."),
        Message.tool("tu_01M7YJFK7P2ZFT4X2CGGZPP6M9", "2."), Message.assistant("Done."),
    ]  # fmt: skip
    back = read(to_vercel_ui(messages).data).messages
    assert [(str(message.role), message.text) for message in back] == [
        ("user", "Go."), ("assistant", "I call."), ("tool", ""), ("user", "2."), ("assistant", "Done.")]  # fmt: skip
    late = [*messages[:2], Message.assistant("Wait."), messages[2]]
    assert [str(loss.kind) for loss in to_vercel_ui(late).losses] == ["misplaced_block"]


def test_what_a_user_interface_cannot_show_is_named() -> None:
    """A result without its call, a call without a result, a signature of nobody, a message without content."""
    usage = Usage(input_tokens=3, output_tokens=2, cached_input_tokens=1, reasoning_tokens=1)
    messages = [
        Message.tool(CALL, "Rain."),
        Message.assistant([ThinkingBlock(text="Hm.", signature="c2ln"), RedactedThinkingBlock(data="c2VhbA==")]),
        Message.user([ImageBlock(source=MediaSource(kind="url", data="https://example.org/a.png"))]),
        Message.assistant([RedactedThinkingBlock(data="c2VhbA==")]),
        Message.user("Go."),
        Message.assistant([ToolUseBlock(id=CALL, name="f", raw_input='{"a')], metadata=MessageMetadata(usage=usage)),
    ]
    written = to_vercel_ui(messages)
    assert [message["role"] for message in written.data] == ["user", "assistant", "user", "user", "assistant"]
    assert {str(loss.kind) for loss in written.losses} >= {
        "orphan_result",
        "thinking",
        "role",
        "empty_message",
        "media",
    }
    back = read(written.data, "vercel-ui").messages
    assert (back[-1].tool_uses[0].raw_input, back[-1].usage) == ('{"a', usage)
    assert written.data[-1]["parts"][1]["state"] == "input-available"


def test_training_data_are_rows_of_chat_completions() -> None:
    """One line, which is read again with the calls and their results."""
    written = to_openai_finetuning(history())
    assert written.data.endswith("}\n")
    assert written.data.count("\n") == 1
    back = read(written.data, "openai-finetuning").messages
    assert [message.role for message in back] == [message.role for message in history()]
    assert back[3].tool_results[0].tool_use_id == back[2].tool_uses[0].id
    assert "thinking" in {str(loss.kind) for loss in written.losses}
