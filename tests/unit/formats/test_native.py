"""Message lists of the providers' own clients, through our adapters."""

import json

import pytest

from dragoman import Message
from dragoman.adapter.errors import UnknownProviderError
from dragoman.canonical.blocks import ThinkingBlock
from dragoman.canonical.message import MessageMetadata
from dragoman.formats import FormatError, from_native, to_native
from tests.unit.formats.documents import everything
from tests.unit.formats.hostile import HANDWRITTEN_NATIVE


@pytest.mark.parametrize("provider", list(HANDWRITTEN_NATIVE))
def test_a_list_is_rewritten_unchanged(provider: str) -> None:
    """In its own format, whichever role is last."""
    whole = HANDWRITTEN_NATIVE[provider]
    for end in range(1, len(whole) + 1):
        written = to_native(provider, from_native(provider, json.dumps(whole[:end])))
        assert written.data == whole[:end]
        assert written.losses == ()


@pytest.mark.parametrize(
    ("provider", "native"),
    [
        ("anthropic", {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi."}]}),
        ("openai", {"instructions": "Be brief.", "input": [{"role": "user", "content": "Hi."}]}),
        ("bedrock", {"system": [{"text": "Be brief."}], "messages": [{"role": "user", "content": [{"text": "Hi."}]}]}),
        (
            "google",
            {
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [{"role": "user", "parts": [{"text": "Hi."}]}],
            },
        ),
    ],
)
def test_instructions_outside_the_list_stay_there(provider: str, native: object) -> None:
    """If a wire has them outside of its messages, an object holds both."""
    read = from_native(provider, native)
    assert [str(message.role) for message in read] == ["system", "user"]
    assert to_native(provider, read).data == native


def test_a_whole_request_is_read() -> None:
    """Its model is the model of its replies."""
    request = {"model": "gpt-6-luna", "temperature": 1, "messages": [{"role": "assistant", "content": "Hi."}]}
    assert from_native("openai-chat", request)[0].metadata.model == "openai-chat:gpt-6-luna"
    named = from_native("openai-chat", request, model="gpt-4.1")
    assert named[0].metadata.model == "openai-chat:gpt-4.1"


def test_a_responses_input_may_be_a_text() -> None:
    """The only format that need not be a list."""
    assert from_native("openai", {"input": "Hi."})[0].text == "Hi."


def test_unanswered_calls_stay_open() -> None:
    """A request would need answers; a history that ends with calls is kept."""
    history = everything()[1:3]
    for provider in HANDWRITTEN_NATIVE:
        written = to_native(provider, history)
        assert "stands behind the history" not in json.dumps(written.data)
        assert "interrupted_call" not in {str(loss.kind) for loss in written.losses}


def test_losses_are_those_of_the_adapter() -> None:
    """There is one encoder."""
    losses = to_native("openai-chat", everything()).losses
    assert {"thinking", "native_block"} <= {str(loss.kind) for loss in losses}
    ids = {message.id for message in everything()}
    assert {loss.message_id for loss in losses} <= ids


@pytest.mark.parametrize("data", [{"contents": []}, {"messages": 5}, 5, None, "{}", "[5]"])
def test_anything_but_a_list_is_refused(data: object) -> None:
    """The error names what is expected."""
    with pytest.raises(FormatError):
        from_native("openai-chat", data)


def test_an_unknown_provider_is_named() -> None:
    with pytest.raises(UnknownProviderError):
        from_native("nobody", [])
    with pytest.raises(UnknownProviderError):
        to_native("nobody", [Message.user("Hi.")])


def test_a_list_without_a_model_belongs_to_an_unnamed_one() -> None:
    """Only its provider gets its thinking back."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    listed = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "Ho."}]},
    ]
    history = from_native("anthropic", listed)
    assert history[1].metadata.model == "anthropic:unnamed"
    written = to_native("anthropic", history)
    assert (written.data, written.losses) == (listed, ())
    assert [str(loss.kind) for loss in to_native("openai-chat", history).losses] == ["thinking"]


@pytest.mark.parametrize("provider", list(HANDWRITTEN_NATIVE))
def test_an_empty_last_message_takes_nothing_with_it(provider: str) -> None:
    """The message before it stays, also on wires that join neighbouring turns."""
    thought = Message.assistant([ThinkingBlock(text="Hm.")], metadata=MessageMetadata(model="groq:openai/gpt-oss-20b"))
    written = to_native(provider, [Message.system("Be brief."), Message.user("Hi."), thought, thought])
    assert "Hi." in json.dumps(written.data)
    assert "stands behind the history" not in json.dumps(written.data)


def test_a_text_that_was_the_whole_input_becomes_a_list() -> None:
    """A history is a list, also if a request would be a text alone."""
    assert to_native("openai", from_native("openai", {"input": "Hi."})).data == [{"role": "user", "content": "Hi."}]


_REASONED = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"},
    {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [
        {"type": "output_text", "text": "Ho.", "annotations": []}]},
]  # fmt: skip


@pytest.mark.parametrize("model", [None, "gpt-6.1-sol", "o3"])
def test_encrypted_reasoning_comes_back_without_a_model(model: str | None) -> None:
    """To the model that spoke; of a list that names none, to one that reads thinking."""
    history = from_native("openai", _REASONED, model=model)
    written = to_native("openai", history)
    assert (written.data, written.losses) == (_REASONED, ())
    assert to_native("openai", history, model="gpt-4o").losses


def test_the_model_that_spoke_last_decides() -> None:
    """The thinking of others is left out as in a request to it."""
    history = [*from_native("openai", _REASONED, model="o3"), *from_native("openai", _REASONED[:1])]
    other = Message.assistant("Hm.", metadata=MessageMetadata(model="anthropic:claude-opus-5-5"))
    assert to_native("openai", [*history, other]).data[:3] == _REASONED
