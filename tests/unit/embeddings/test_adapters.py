"""What is particular to one adapter: images, inputs that a provider cut, counts in headers."""

import json
from typing import Any

import pytest

from dragoman.adapter.operations.embeddings import plan_requests
from dragoman.adapter.wire import WireResponse
from dragoman.blocks import ImageBlock, MediaSource
from dragoman.embeddings import EmbeddingOptions, embedding_adapter
from dragoman.errors import RequestError

PIXELS = "iVBORw0KGgo="
IMAGE = ImageBlock(source=MediaSource(kind="base64", data=PIXELS), media_type="image/png")


def body(model: str, inputs: Any, **options: Any) -> Any:
    return json.loads(embedding_adapter(model).to_wire(inputs, EmbeddingOptions(**options)).body)


def test_images_stand_in_each_wire() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": PIXELS}}
    cohere = body("cohere:embed-v4.0", [IMAGE])
    assert (cohere["images"], cohere["input_type"]) == ([f"data:image/png;base64,{PIXELS}"], "image")
    assert "texts" not in cohere
    assert body("google:gemini-embedding-2", [IMAGE])["requests"][0]["content"] == {"parts": [part]}
    assert body("google-vertex:gemini-embedding-2", [IMAGE])["content"] == {"parts": [part]}
    titan = body("bedrock:amazon.titan-embed-image-v1", [IMAGE], dimensions=256)
    assert titan == {"inputImage": PIXELS, "embeddingConfig": {"outputEmbeddingLength": 256}}
    nova = body("bedrock:amazon.nova-2-multimodal-embeddings-v1:0", [IMAGE])["singleEmbeddingParams"]
    assert nova["image"] == {"format": "png", "source": {"bytes": PIXELS}}


def test_texts_and_images_of_cohere_are_sent_apart() -> None:
    """A request holds texts or one image; the order of the inputs is kept."""
    plan = plan_requests(embedding_adapter("cohere:embed-v4.0"), ["a", "b", IMAGE, IMAGE, "c"], EmbeddingOptions())
    assert plan.requests == [[0, 1], [2], [3], [4]]


def test_vertex_reports_what_it_cut() -> None:
    predict = embedding_adapter("google-vertex:text-embedding-005")
    values = [
        {"embeddings": {"values": [0.5], "statistics": {"token_count": 4, "truncated": number == 1}}}
        for number in range(2)
    ]
    reply = WireResponse(200, json.dumps({"predictions": values}).encode())
    found = predict.from_wire_response(reply, ["a", "b"], EmbeddingOptions())
    assert (found.truncated, found.usage and found.usage.input_tokens) == ((1,), 8)
    single = WireResponse(200, json.dumps({"embedding": {"values": [0.5]}, "truncated": True}).encode())
    content = embedding_adapter("google-vertex:gemini-embedding-001")
    assert content.from_wire_response(single, ["a"], EmbeddingOptions()).truncated == (0,)


def test_bedrock_counts_tokens_in_a_header() -> None:
    """A header that is not a number is no count."""
    adapter = embedding_adapter("bedrock:cohere.embed-v4:0")
    data = json.dumps({"embeddings": {"float": [[0.5]]}}).encode()
    for value, expected in (("17", 17), ("", None), ("x", None), ("9" * 40, None)):
        reply = WireResponse(200, data, {"X-Amzn-Bedrock-Input-Token-Count": value})
        usage = adapter.from_wire_response(reply, ["a"], EmbeddingOptions()).usage
        assert (usage and usage.input_tokens) == expected


def test_a_model_that_is_not_known_there_is_refused() -> None:
    """The body of InvokeModel is the model's own; a name that does not fit into a path is none."""
    with pytest.raises(RequestError, match="Titan, Nova or Cohere"):
        body("bedrock:anthropic.claude-opus-5-5", ["a"])
    with pytest.raises(RequestError, match="does not fit into a path"):
        body("google:../x", ["a"])
