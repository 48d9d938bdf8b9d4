"""Cassettes of vcrpy: bodies of every kind, and conversations assembled from their requests."""

import base64
import gzip
import json
from typing import Any

import pytest

from dragoman.adapter.registry import adapter_class, providers
from dragoman.canonical.message import MessageStatus
from dragoman.formats import FormatError, from_cassette
from dragoman.formats.importers.cassette import wire_at
from tests.tables import each_row
from tests.unit.formats.dump_files import dump

URL = "https://api.openai.com/v1/chat/completions"
HI = {"role": "user", "content": "Hi."}


def handwritten_reply(text: str) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion", "model": "gpt-4.1", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}  # fmt: skip


def handwritten(messages: list[dict[str, Any]], answer: Any, *, url: str = URL, **response: Any) -> dict[str, Any]:
    """One exchange of Chat Completions."""
    text = json.dumps(handwritten_reply(answer)) if isinstance(answer, str) else json.dumps(answer)
    request = json.dumps({"model": "m", "messages": messages})
    return {
        "request": {"method": "POST", "uri": url, "headers": {}, "body": request},
        "response": {
            "status": {"code": 200, "message": "OK"}, "headers": {"content-type": ["application/json"]},
            "body": {"string": text}, **response,
        },
    }  # fmt: skip


def cassette(*interactions: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "interactions": list(interactions)}


def test_continued_requests_are_one_conversation() -> None:
    """The last request contains the others; one that branches off is another conversation."""
    earlier = [HI, {"role": "assistant", "content": "Ho."}]
    found = from_cassette(
        cassette(
            handwritten([HI], "Ho."),
            handwritten([*earlier, {"role": "user", "content": "A?"}], "A."),
            handwritten([*earlier, {"role": "user", "content": "B?"}], "B."),
            handwritten([{"role": "user", "content": "Else?"}], "Yes."),
        )
    )
    assert [[message.text for message in each.messages] for each in found] == [
        ["Hi.", "Ho.", "A?", "A."], ["Hi.", "Ho.", "B?", "B."], ["Else?", "Yes."],
    ]  # fmt: skip
    assert [each.name for each in found] == ["1", "2", "3"]
    first = found[0].messages[1]
    assert first.usage is not None
    assert first.usage.input_tokens == 3


def test_a_response_with_a_previous_id_continues_it() -> None:
    """Its provider stores the earlier turns."""

    def responses(number: int, text: str, **request: Any) -> dict[str, Any]:
        output = [{"type": "message", "id": "m", "role": "assistant", "status": "completed",
                   "content": [{"type": "output_text", "text": text, "annotations": []}]}]  # fmt: skip
        reply = {"id": f"resp_{number}", "object": "response", "status": "completed", "model": "m", "output": output}
        made = handwritten([], reply, url="https://api.openai.com/v1/responses")
        made["request"]["body"] = json.dumps({"model": "gpt-6.1-sol", **request})
        return made

    (found,) = from_cassette(
        cassette(responses(1, "Ho.", input="Hi."), responses(2, "A.", input="A?", previous_response_id="resp_1"))
    )
    assert [message.text for message in found.messages] == ["Hi.", "Ho.", "A?", "A."]


TEXT = json.dumps(handwritten_reply("Ho."))


@pytest.mark.parametrize(
    ("response", "request_fields"),
    [
        ({"body": {"string": TEXT.encode()}}, {}),
        ({"body": {"base64_string": base64.b64encode(TEXT.encode()).decode()}}, {}),
        ({"parsed_body": json.loads(TEXT)}, {"parsed_body": {"model": "m", "messages": [HI]}}),
        ({"body": {"string": gzip.compress(TEXT.encode())}, "headers": {
            "Content-Encoding": ["gzip"], "Content-Type": ["application/json"]}}, {}),
        ({"body": {"string": TEXT}, "headers": {"Content-Encoding": ["gzip"]}}, {"body": {"string": json.dumps(
            {"messages": [HI]})}}),
        ({"content": TEXT, "status_code": 200, "status": 200}, {}),
    ],
    ids=["bytes", "base64", "parsed", "packed", "said to be packed", "of httpx's older stub"],
)  # fmt: skip
def test_bodies_are_read_as_recorders_write_them(response: dict[str, Any], request_fields: dict[str, Any]) -> None:
    """Bodies are read as recorders write them: texts, bytes, base64, JSON in the cassette itself, compressed or not."""
    made = handwritten([HI], "", **response)
    made["request"] |= request_fields
    (found,) = from_cassette(cassette(made))
    assert [message.text for message in found.messages] == ["Hi.", "Ho."]


def test_cassettes_of_ruby_are_read() -> None:
    """They have another key, and methods in lower case."""
    made = handwritten([HI], "Ho.")
    made["request"] |= {"method": "post", "body": {"encoding": "UTF-8", "string": made["request"]["body"]}}
    (found,) = from_cassette({"http_interactions": [made], "recorded_with": "VCR 6.2.0"})
    assert [message.text for message in found.messages] == ["Hi.", "Ho."]


def test_failures_and_other_hosts_are_skipped() -> None:
    other = {"request": {"method": "GET", "uri": "https://example.org/", "body": None},
             "response": {"status": {"code": 200}, "body": {"string": ""}}}  # fmt: skip
    refused = handwritten([HI], {"error": {"message": "no"}}, status={"code": 429, "message": "no"})
    disguised = handwritten([HI], {"error": {"message": "no", "code": 429}})
    (found,) = from_cassette(cassette(other, refused, disguised, handwritten([HI], "Ho.")))
    assert [message.text for message in found.messages] == ["Hi.", "Ho."]
    assert from_cassette(cassette(refused)) == []


def test_a_truncated_stream_is_a_partial_reply() -> None:
    """Its message has that status."""
    whole = dump("vcr_anthropic_stream.yaml").decode()
    end = whole.index("event: message_delta")
    start = whole.index("    headers:", end)
    (found,) = from_cassette(whole[:end] + "'\n" + whole[start : whole.index("- request:", start)] + "version: 1\n")
    assert found.messages[-1].metadata.status is not MessageStatus.COMPLETE
    assert found.messages[-1].thinking == "Two cities."


def test_a_reply_has_its_time() -> None:
    made = handwritten([HI], "Ho.")
    made["response"]["headers"]["Date"] = ["Sun, 01 Nov 2026 12:00:00 GMT"]
    (found,) = from_cassette(cassette(made))
    assert found.messages[-1].created_at.isoformat() == "2026-11-01T12:00:00+00:00"


@each_row(
    "provider",
    [name for name in providers() if adapter_class(name).endpoint.base_url.startswith("https://")],
)
def test_every_installed_provider_is_recognised_by_its_host(provider: str) -> None:
    """A new adapter needs its row."""
    base = adapter_class(provider).endpoint.base_url.lower().replace("{", "a-").replace("}", "")
    paths = {
        "anthropic": "/v1/messages", "openai": "/responses", "google": "/v1beta/models/m:generateContent",
        "google-vertex": "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent",
        "google-interactions": "/v1beta/interactions", "cohere": "/v2/chat", "ollama": "/api/chat",
        "bedrock": "/model/m/converse", "anthropic-bedrock": "/v1/messages", "anthropic-foundry": "/v1/messages",
        "anthropic-vertex": "/publishers/anthropic/models/m:rawPredict", "bedrock-invoke": "/model/m/invoke",
    }  # fmt: skip
    wire = wire_at(base + paths.get(provider, "/chat/completions"))
    assert wire is not None
    # InvokeModel has one address for the bodies of all vendors.
    assert wire.provider == ("bedrock" if provider == "bedrock-invoke" else provider)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://me.openai.azure.com/openai/deployments/gpt-4.1/chat/completions?api-version=1",
         ("azure-openai", "gpt-4.1")),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com/model/eu.anthropic.claude%3A0/converse-stream",
         ("bedrock", "eu.anthropic.claude:0")),
        ("http://localhost:8080/v1/chat/completions", ("openai-chat", None)),
        ("http://localhost:11434/v1/chat/completions", ("ollama-openai", None)),
        ("https://api.openai.com.evil.example/v1/embeddings", None),
        ("https://api.openai.com/v1/models", None),
        ("http://[broken/v1/messages", None),
    ],
)  # fmt: skip
def test_addresses_name_providers_and_models(url: str, expected: tuple[str, str | None] | None) -> None:
    """Some contain the model; unknown ones have no provider."""
    wire = wire_at(url)
    assert (wire and (wire.provider, wire.model)) == expected


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ("interactions: [", "$"),
        ("interactions:\n- !!python/object/apply:os.system ['true']\n", "$"),
        ("a: " + "[" * 1_000, "$"),
        ("interactions: 5\n", "$.interactions"),
        ("interactions:\n- request: 5\n  response: {}\n", "$.interactions[0].request"),
        (cassette({"request": {}, "response": {}}), "$.interactions[0].request"),
        (cassette({"request": {"method": "POST", "uri": URL}, "response": {}}), "$.interactions[0].response.status"),
        (cassette(handwritten([HI], "Ho.", body={"string": 5})), "$.interactions[0].response.body.string"),
        (cassette(handwritten([HI], "Ho.", body={"string": "{"})), "$.interactions[0].response.body"),
        (cassette({**handwritten([HI], "Ho."), "request": {"method": "POST", "uri": URL, "body": "x"}}),
         "$.interactions[0].request.body"),
        (cassette(handwritten([{"role": 5}], "Ho.")), "$.interactions[0].request.body"),
        (cassette(), "$"),
        ({"exchanges": []}, "$"),
        (5, "$"),
    ],
)  # fmt: skip
def test_a_broken_cassette_is_refused(document: Any, path: str) -> None:
    """With the exchange at fault; no YAML tag makes an object, and depth is bounded."""
    with pytest.raises(FormatError) as caught:
        from_cassette(document)
    assert caught.value.path == path


def test_aliases_that_repeat_headers_are_read() -> None:
    """Recorders write them for equal lists."""
    text = "a: &a [application/json]\ninteractions:\n"
    text += (
        "- {request: {method: POST, uri: '"
        + URL
        + "', headers: {accept: *a}, parsed_body: {messages: ["
        + ("{role: user, content: Hi.}]}}, response: {status: {code: 200}, headers: {content-type: *a}, parsed_body: ")
    )
    (found,) = from_cassette(text + json.dumps(handwritten_reply("Ho.")) + "}}\n")
    assert [message.text for message in found.messages] == ["Hi.", "Ho."]


def test_expanding_aliases_are_refused() -> None:
    """A few lines that expand to gigabytes, and cycles."""
    with pytest.raises(FormatError, match="contains itself"):
        from_cassette("interactions: &a [*a]\n")
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    exchange = "interactions:\n- request: {method: POST, uri: '" + URL + "', parsed_body: *a11}\n"
    with pytest.raises(FormatError):
        from_cassette("\n".join(lines) + "\n" + exchange + "  response: {status: {code: 200}, body: {string: ''}}\n")
