"""Foreign histories and those of the other platform on Google's wire; its own ids, signatures and answers."""

import base64
import json
from typing import Any

import pytest

from dragoman import AdapterOptions, ImageBlock, Message, TextBlock, ThinkingBlock, ToolDefinition, ToolUseBlock
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import AudioBlock, Citation, DocumentBlock, MediaSource, ProviderBlock
from dragoman.canonical.message import MessageMetadata
from dragoman_adapters.google.adapter import GoogleAdapter
from tests.unit.adapters.google.wire import GEMINI_2, GEMINI_3, VERTEX, body, context, read, reply_of, wire

SIGNED_CALL: dict[str, Any] = {
    "functionCall": {"name": "add", "args": {"x": 1}, "id": "g1"},
    "thoughtSignature": "c2ln",
}
NO_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()
PNG = MediaSource(kind="base64", data="aGk=")


def foreign(*calls: ToolUseBlock, model: str = "anthropic:claude-opus-5-5", text: str = "") -> Message:
    texts = (TextBlock(text=text),) if text else ()
    return Message.assistant((*texts, *calls), metadata=MessageMetadata(model=model, provider=model.partition(":")[0]))


def call(number: int, name: str = "add", **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id=f"tu_{number:026d}", name=name, input=arguments)


def test_a_signature_returns_to_its_issuer_only() -> None:
    """Byte for byte, on a text, an empty text and a call. The other platform and other providers never get it."""
    parts: list[dict[str, Any]] = [
        {"text": "Hm", "thoughtSignature": "dGV4dA=="},
        {"text": "", "thoughtSignature": "ZW1wdHk="},
        SIGNED_CALL,
    ]
    message = reply_of(*parts)
    (made,) = message.tool_uses
    history = (Message.user("Hi"), message, Message.tool(made.id, "2"))
    assert body(*history)["contents"][1]["parts"] == parts
    sent = json.dumps(body(*history, adapter=VERTEX))
    for signature in ("dGV4dA==", "ZW1wdHk=", "c2ln"):
        assert signature not in sent


@pytest.mark.parametrize("adapter", [GEMINI_3, VERTEX], ids=str)
def test_thinking_and_native_blocks_stay_on_their_platform(adapter: GoogleAdapter) -> None:
    """The Gemini API and Vertex AI are different platforms, although they share one wire."""
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"text": "One."},
    ]
    message = reply_of(*parts)
    request = wire(Message.user("Hi"), message, Message.user("And?"), adapter=adapter)
    sent = json.loads(request.body)["contents"][1]["parts"]
    if adapter is GEMINI_3:
        assert (sent, request.losses) == (parts, ())
    else:
        ran = '[google ran its tool code_execution earlier, with {"code":"1"}]'
        assert sent == [{"text": ran}, {"text": "One."}]
        assert {loss.kind for loss in request.losses} == {LossKind.THINKING, LossKind.NATIVE_BLOCK}


def test_foreign_calls_carry_the_placeholder_signature() -> None:
    """On the first call of each step, if the model requires one; the loss says that the form changed."""
    history = (
        Message.user("Hi"),
        foreign(call(1), call(2)), Message.tool(call(1).id, "1"), Message.tool(call(2).id, "2"),
        foreign(call(3), text="Once more."), Message.tool(call(3).id, "3"),
    )  # fmt: skip
    request = wire(*history)
    contents = json.loads(request.body)["contents"]
    calls = [part for content in contents for part in content["parts"] if "functionCall" in part]
    assert [part.get("thoughtSignature") for part in calls] == [NO_SIGNATURE, None, NO_SIGNATURE]
    assert [(loss.kind, loss.severity) for loss in request.losses] == [(LossKind.THINKING, Severity.INFO)] * 2
    assert "thoughtSignature" not in json.dumps(body(*history, adapter=GEMINI_2))


def test_own_unsigned_calls_return_unsigned() -> None:
    """A signing model accepts its own unsigned calls; a newer model needs signatures on an older one's."""
    unsigned = {"functionCall": {"name": "add", "args": {}}}
    for model, expected in (("gemini-3-flash-preview", None), ("gemini-2.5-flash", NO_SIGNATURE)):
        reply = {
            "candidates": [{"content": {"parts": [unsigned], "role": "model"}, "finishReason": "STOP"}],
            "modelVersion": model,
        }
        message = read(reply)
        (made,) = message.tool_uses
        sent = body(Message.user("Hi"), message, Message.tool(made.id, "2"))["contents"][1]["parts"]
        assert [part.get("thoughtSignature") for part in sent] == [expected]


def test_an_id_that_was_never_issued_is_not_sent() -> None:
    """An issued id is sent with both; calls of others get new ids."""
    bare, issued = reply_of({"functionCall": {"name": "add", "args": {}}}), reply_of(SIGNED_CALL)
    for message, expected in ((bare, [None, None]), (issued, ["g1", "g1"])):
        (made,) = message.tool_uses
        contents = body(Message.user("Hi"), message, Message.tool(made.id, "2"))["contents"]
        found = [contents[1]["parts"][0]["functionCall"], contents[2]["parts"][0]["functionResponse"]]
        assert [each.get("id") for each in found] == expected
    contents = body(Message.user("Hi"), foreign(call(1)), Message.tool(call(1).id, "2"))["contents"]
    ids = {contents[1]["parts"][0]["functionCall"]["id"], contents[2]["parts"][0]["functionResponse"]["id"]}
    assert len(ids) == 1
    assert call(1).id not in ids


def test_answers_without_ids_keep_the_order_of_their_calls() -> None:
    """Nothing else distinguishes two calls of one name, whichever tool finished first."""
    part = {"functionCall": {"name": "add", "args": {}}}
    message = reply_of(part, {"functionCall": {"name": "now", "args": {}}}, part)
    first, other, second = (made.id for made in message.tool_uses)
    answers = [Message.tool(second, "second"), Message.tool(other, "noon"), Message.tool(first, "first")]
    sent = body(Message.user("Hi"), message, *answers)["contents"][2]["parts"]
    said_in_order = [(each["functionResponse"]["name"], each["functionResponse"]["response"]) for each in sent]
    assert said_in_order == [("add", {"output": "first"}), ("now", {"output": "noon"}), ("add", {"output": "second"})]


def test_an_answer_has_the_name_of_its_tool_and_its_failure() -> None:
    """``output`` has the result of a tool, ``error`` the reason of its failure; several texts become one."""
    history = (Message.user("Hi"), foreign(call(1), call(2, "now")))
    failed = Message.tool(call(1).id, "no such file", is_error=True)
    worked = Message.tool(call(2).id, (TextBlock(text="a"), TextBlock(text="b")))
    sent = body(*history, failed, worked)["contents"][2]
    answers = [part["functionResponse"] for part in sent["parts"]]
    assert sent["role"] == "user"
    assert [(each["name"], each["response"]) for each in answers] == [
        ("add", {"error": "no such file"}), ("now", {"output": "a\nb"}),
    ]  # fmt: skip


def test_media_in_an_answer_are_sent_if_supported() -> None:
    """Inside the answer on Gemini 3; after all answers if the model or the answer cannot hold them."""
    image = ImageBlock(source=PNG, media_type="image/png")
    sound = AudioBlock(source=PNG, media_type="audio/wav")
    first = Message.tool(call(1).id, (TextBlock(text="Here:"), image, sound))
    history = (Message.user("Hi"), foreign(call(1), call(2)), first, Message.tool(call(2).id, "ok"))
    inline = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    audio_part = {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}}
    newer = body(*history, Message.user("So?"))["contents"][2]["parts"]
    assert [next(iter(part)) for part in newer] == ["functionResponse", "functionResponse", "inlineData", "text"]
    assert (newer[0]["functionResponse"]["parts"], newer[2]) == ([inline], audio_part)
    older = body(*history, adapter=GEMINI_2)["contents"][2]["parts"]
    assert [next(iter(part)) for part in older] == ["functionResponse", "functionResponse", "inlineData", "inlineData"]
    assert older[2:] == [inline, audio_part]


def test_neighbours_of_one_role_are_one_content() -> None:
    """User and model take turns, and the user begins."""
    history = (foreign(text="Hello."), Message.user("A"), Message.user("B"), foreign(text="C"), Message.user("D"))
    contents = body(*history)["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "model", "user"]
    assert contents[2]["parts"] == [{"text": "A"}, {"text": "B"}]


def test_instructions_have_a_field_and_late_ones_are_the_users() -> None:
    """There is no system role inside the conversation."""
    sent = body(Message.system("One."), Message.developer("Two."), Message.user("Hi"), Message.system("Late."))
    assert sent["systemInstruction"] == {"parts": [{"text": "One."}, {"text": "Two."}]}
    assert sent["contents"] == [{"role": "user", "parts": [{"text": "Hi"}, {"text": "Late."}]}]


@pytest.mark.parametrize(
    "history", [(), (Message.system("One."),), (Message.user(""),)], ids=["none", "system", "empty"]
)
def test_a_request_always_has_contents(history: tuple[Message, ...]) -> None:
    """A placeholder text of the user is sent if nothing else is left."""
    assert body(*history)["contents"] == [{"role": "user", "parts": [{"text": "Continue."}]}]


def test_other_fields_of_a_block_are_losses_or_sent() -> None:
    """Sources and malformed arguments are losses; title and note come before a document, plain text becomes text."""
    cited = TextBlock(text="Yes.", citations=(Citation(kind="web", url="https://a.example"),))
    malformed = ToolUseBlock(id=call(1).id, name="add", raw_input='{"x": ')
    report = DocumentBlock(source=MediaSource(kind="text", data="All well."), title="Report", context="By me.")
    history = [
        Message.user((report, TextBlock(text=""))),
        Message.assistant((cited, malformed), metadata=MessageMetadata(model="openai:x", provider="openai")),
        Message.tool(call(1).id, (report,)),
    ]
    request = wire(*history)
    contents = json.loads(request.body)["contents"]
    assert contents[0]["parts"] == [{"text": "Report\nBy me."}, {"text": "All well."}]
    assert contents[2]["parts"][0]["functionResponse"]["response"] == {"output": "All well."}
    kinds = {loss.kind for loss in request.losses}
    assert {LossKind.CITATIONS, LossKind.INVALID_INPUT, LossKind.FLATTENED, LossKind.EMPTY_TEXT} <= kinds


def test_media_by_url_and_by_file_keep_their_address() -> None:
    """An unknown type is guessed from the name, with the same result on every machine."""
    link = ImageBlock(source=MediaSource(kind="url", data="https://a.example/b.webp?c=1"))
    kept = DocumentBlock(source=MediaSource(kind="file_id", data="gs://bucket/f.pdf", provider="google"))
    sharp = ImageBlock(source=PNG, media_type="image/png", detail="high")
    assert body(Message.user((link, kept, sharp)))["contents"][0]["parts"] == [
        {"fileData": {"mimeType": "image/webp", "fileUri": "https://a.example/b.webp?c=1"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://bucket/f.pdf"}},
        {
            "inlineData": {"mimeType": "image/png", "data": "aGk="},
            "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
        },
    ]
    assert "gs://" not in json.dumps(body(Message.user((kept,)), adapter=VERTEX))


def test_functions_share_one_entry_and_native_tools_stay_with_google() -> None:
    """Google's own tools are a loss for other providers, and tools of other providers are a loss here."""
    native = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "tools": [{"googleMaps": {}}]}
    messages, maps, _ = GEMINI_3.from_wire_request(native, context(GEMINI_3))
    tools = [*maps, ToolDefinition(name="a"), ToolDefinition(name="b", description="B.")]
    schema = {"type": "object", "properties": {}}
    request = GEMINI_3.to_wire(messages, tools, AdapterOptions())
    assert json.loads(request.body)["tools"] == [
        {"googleMaps": {}},
        {
            "functionDeclarations": [
                {"name": "a", "parametersJsonSchema": schema},
                {"name": "b", "description": "B.", "parametersJsonSchema": schema},
            ]
        },
    ]
    other = VERTEX.to_wire(messages, tools, AdapterOptions())
    assert [loss.kind for loss in other.losses] == [LossKind.TOOLS]
    assert len(json.loads(other.body)["tools"]) == 1


def test_foreign_thinking_is_left_out() -> None:
    thought = ThinkingBlock(text="hm", signature="sig")
    message = Message.assistant(
        (thought, TextBlock(text="Yes."), ProviderBlock(provider="anthropic", kind="x", data={})),
        metadata=MessageMetadata(model="anthropic:claude", provider="anthropic"),
    )
    assert body(Message.user("Hi"), message, Message.user("So?"))["contents"][1]["parts"] == [{"text": "Yes."}]


def test_a_longer_history_starts_with_the_shorter_one() -> None:
    """Contents that were sent before are sent again unchanged."""
    message = reply_of(SIGNED_CALL)
    (made,) = message.tool_uses
    history = [
        Message.user("Hi"), message, Message.tool(made.id, "2"), reply_of({"text": "Two.", "thoughtSignature": "eA=="}),
        Message.user("And?"), foreign(call(1)), Message.tool(call(1).id, "3"), foreign(text="Three."),
        Message.user("Bye"),
    ]  # fmt: skip
    whole = body(*history)["contents"]
    for end in (1, 3, 5, 7, 9):
        shorter = body(*history[:end])["contents"]
        assert shorter == whole[: len(shorter)]
