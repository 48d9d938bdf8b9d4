"""Images that a model generates: routers return them in a field of their own (openrouter.ai/docs, image generation)."""

import json
from typing import Any

import pytest

from dragoman import RequestContext
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock
from dragoman.canonical.events import MessageComplete, MessageStart
from dragoman.canonical.message import Message
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    adapter,
    encode_request,
    handwritten_chunk,
    handwritten_reply,
    read,
    reply_of,
    stream_message,
)

PIXEL = "iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
BLOCK = ImageBlock(source=MediaSource(kind="base64", data=PIXEL), media_type="image/png")
MESSAGE = {"role": "assistant", "content": "A dot.", "images": [IMAGE, IMAGE]}


def test_generated_images_are_blocks() -> None:
    """Behind the text, whole and streamed, and the raw reply does not hold them again."""
    whole = read(handwritten_reply(MESSAGE))
    assert whole.content == (TextBlock(text="A dot."), BLOCK, BLOCK)
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "A dot."},
        *({"content": "", "images": [{**IMAGE, "index": number}]} for number in range(2)),
    ]
    streamed = stream_message([*map(handwritten_chunk, deltas), handwritten_chunk({}, "stop"), DONE])
    assert streamed.content == whole.content
    for message in (whole, streamed):
        assert PIXEL not in json.dumps(message.metadata.provider_raw)


def test_a_field_of_another_form_stays_in_the_raw_reply() -> None:
    """Nothing is guessed about it, and the reply is read."""
    for images in (["dot.png"], {"url": "dot.png"}, [{"type": "image_url"}], [IMAGE, None]):
        message = read(handwritten_reply({"content": "A dot.", "images": images}))
        assert message.content == (TextBlock(text="A dot."),)
        assert (message.metadata.provider_raw or {})["message"] == {"images": images}
        streamed = stream_message(
            [handwritten_chunk({"images": images}), handwritten_chunk({"content": "."}, "stop"), DONE]
        )
        assert streamed.content == (TextBlock(text="."),)
        assert "images" in (streamed.metadata.provider_raw or {})["message"]


def test_the_next_request_shows_generated_images_to_the_model() -> None:
    """In a message of the user: the wire takes none of the assistant."""
    answer = read(handwritten_reply(MESSAGE))
    body, wire = encode_request([Message.user("Draw."), answer, Message.user("Bluer.")])
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "user"]
    assert body["messages"][2]["content"] == [IMAGE, IMAGE]
    assert {str(loss.kind) for loss in wire.losses} == {"flattened"}


@pytest.mark.parametrize("model", ["openai-chat:gpt-4.1", "google:gemini-2.5-flash-image"])
def test_clients_get_generated_images(model: str) -> None:
    """Clients get generated images: whole and streamed, from this wire's provider and from others."""
    message = reply_of(model, [TextBlock(text="A dot."), BLOCK])
    if model.startswith("openai-chat"):
        message = read(handwritten_reply({**MESSAGE, "images": [IMAGE]}))
    written = adapter().to_wire_response(message, RequestContext(model=model))
    assert json.loads(written.body)["choices"][0]["message"]["images"] == [IMAGE]
    events = MessageStart(message.id, model), MessageComplete(message)
    frames = b"".join(adapter().iter_encoded(events, RequestContext(model=model))).split(b"\n\n")
    deltas = [json.loads(frame[6:])["choices"][0]["delta"] for frame in frames if frame[6:7] == b"{"]
    assert [delta["images"] for delta in deltas if "images" in delta] == [[IMAGE]]


def test_an_image_that_only_its_provider_reads_is_a_loss() -> None:
    """A client could not load it."""
    stored = ImageBlock(source=MediaSource(kind="file_id", data="file_1", provider="google"))
    model = "google:gemini-2.5-flash-image"
    written = adapter().to_wire_response(reply_of(model, [stored]), RequestContext(model=model))
    assert "images" not in json.loads(written.body)["choices"][0]["message"]
    assert [str(loss.kind) for loss in written.losses] == ["media"]
