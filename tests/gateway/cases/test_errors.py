"""Errors: in the client's own form, with words and headers that clients act on."""

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.cases.talk import PATHS, Talk
from tests.gateway.scripted import JSON, Answer, chat_events, reply, sse
from tests.laws.wires import handwritten_anthropic, handwritten_chat
from tests.tables import each_row
from tests.unit.local.scripted_runtime import ScriptedRuntime

OVERFLOWS: list[tuple[str, int, Any, tuple[int, int]]] = [
    ("chat-model", 400, {"error": {"message": "This model's maximum context length is 128000 tokens. However, your "
     "messages resulted in 130000 tokens.", "type": "invalid_request_error", "code": "context_length_exceeded"}},
     (130000, 128000)),
    ("mistral-model", 400, {"object": "error", "type": "BadRequestError", "code": 400, "message": "This model's "
     "maximum context length is 32768 tokens. However, you requested 40000 tokens in the messages."}, (40000, 32768)),
    ("google-model", 400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count "
     "(1200000) exceeds the maximum number of tokens allowed (1048576)."}}, (1200000, 1048576)),
]  # fmt: skip


def fails(status: int, body: Any, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer([json.dumps(body).encode()], status=status, media_type=JSON, headers=named)


def error(message: str, kind: str = "server_error", code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def test_a_stream_that_breaks_ends_in_an_error_on_every_wire(talk: Talk) -> None:
    """After content: no end that looks complete, and the connection breaks off behind the error."""
    whole = handwritten_chat.WIRE.stream(reply("It rains", " in Bern."))
    half = whole[: whole.index(b" in Bern.") - 4]
    for cut in (False, True):
        talk.upstream.script = lambda _, cut=cut: Answer([half], cut=cut)  # type: ignore[misc]
        for wire, model in (("anthropic", "chat-model"), ("openai", "chat-model"), ("openai-chat", "mistral-model")):
            answered = talk.ask(wire, model)
            assert b"It rains" in answered.raw, wire
            assert b'"error"' in answered.raw, wire
            for end in (b"message_stop", b"response.completed", b"[DONE]", b'"finish_reason":"stop"'):
                assert end not in answered.raw, wire
            assert answered.broken, wire


def test_an_error_before_any_content_has_its_true_status(talk: Talk) -> None:
    """Although the provider had said 200, and its first frame was the error."""
    overflow = error("maximum context length is 100000 tokens, you sent 120000", "invalid_request_error",
                     "context_length_exceeded")  # fmt: skip
    talk.upstream.answer_in_turn(Answer(sse(overflow, "[DONE]")))
    assert talk.ask("anthropic", "chat-model").status == 400
    overloaded = b"".join(handwritten_anthropic.WIRE.errors[0][:1])
    talk.upstream.answer_in_turn(Answer([overloaded]))
    assert talk.ask("openai-chat", "messages-model").status == 503


@pytest.mark.parametrize("pieces", [[], [b": hello\n\n"], [b"data: [DONE]\n\n"]], ids=["nothing", "comment", "done"])
def test_an_empty_stream_is_an_error(talk: Talk, pieces: list[bytes]) -> None:
    talk.upstream.answer_in_turn(Answer(pieces))
    answered = talk.ask("anthropic", "chat-model")
    assert answered.status >= 500
    assert answered.body["type"] == "error"


def test_an_error_beside_empty_choices_is_an_error(talk: Talk) -> None:
    talk.upstream.answer_in_turn(
        Answer(chat_events({"content": "A"}, {"choices": [], **error("the worker died")}, finish=None, done=False))
    )
    answered = talk.ask("openai", "chat-model")
    assert answered.events[-1]["type"] == "response.failed"
    assert "the worker died" in answered.events[-1]["response"]["error"]["message"]


@each_row(("model", "status", "body", "counts"), OVERFLOWS)
def test_an_overflow_has_the_words_that_clients_parse(
    model: str, status: int, body: Any, counts: tuple[int, int]
) -> None:
    """An overflow has the words that clients parse with both counts, from the words of every provider, so that the
    client compacts its conversation.
    """
    from dragoman import RequestContext, get_adapter
    from tests.gateway.scripted import MODELS

    known = get_adapter(MODELS[model]).error(status, json.dumps(body).encode(), {})
    context = RequestContext.for_model(MODELS[model], prices=None)
    written = get_adapter("anthropic:client").to_wire_response(known, context)
    message = json.loads(written.body)["error"]["message"]
    assert message == f"prompt is too long: {counts[0]} tokens > {counts[1]} maximum"
    assert written.status == 400


def test_an_overflow_reaches_the_client_through_the_gateway(talk: Talk) -> None:
    _, status, body, _ = OVERFLOWS[0]
    talk.upstream.answer_in_turn(fails(status, body))
    for answered in talk.both("anthropic", "chat-model"):
        assert answered.status == 400
        assert answered.body["error"]["message"] == "prompt is too long: 130000 tokens > 128000 maximum"
    talk.upstream.answer_in_turn(fails(400, OVERFLOWS[2][2]))
    assert talk.ask("openai", "google-model").body["error"]["code"] == "context_length_exceeded"


def test_an_overflow_of_the_embedded_model_is_said_on_every_wire(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An overflow of the embedded model is said on every wire at once, whole and streamed alike, in the words and codes
    of the wire: the model never runs.
    """
    runtime = ScriptedRuntime(window=201)
    runtime.install(monkeypatch, tmp_path)
    model, text = "local:smollm2-135m", "word " * 249
    messages = {"model": model, "messages": [{"role": "user", "content": text}]}
    google: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    asked: list[tuple[str, Any, str]] = [
        ("/v1/messages", messages | {"max_tokens": 9}, '"message":"prompt is too long: 250 tokens > 200 maximum"'),
        ("/v1/chat/completions", messages, '"code":"context_length_exceeded"'),
        ("/v1/responses", {"model": model, "input": text}, '"code":"context_length_exceeded"'),
        (f"/v1beta/models/{model}:generateContent", google, "The input token count exceeds the maximum"),
        (f"/v1beta/models/{model}:streamGenerateContent?alt=sse", google, "The input token count exceeds the maximum"),
        ("/api/chat", messages, "exceeds the available context size"),
    ]
    for path, body, words in asked:
        for stream in ({"stream": True}, {"stream": False}) if "beta" not in path else ({},):
            answered = talk.post("", path, body | stream)
            assert answered.status == 400, (path, stream, answered.raw)
            assert words in answered.raw.decode().replace('": "', '":"'), (path, stream)
            assert "250 tokens" in answered.raw.decode(), (path, stream)
    assert runtime.configs == []


def test_the_wait_of_a_provider_is_forwarded(talk: Talk) -> None:
    talk.upstream.answer_in_turn(fails(429, error("slow down", "requests", "rate_limit_exceeded"), retry_after="7"))
    assert talk.ask("anthropic", "chat-model").headers["retry-after"] == "7"
    talk.upstream.answer_in_turn(fails(429, error("slow down"), retry_after_ms="1500"))
    assert talk.ask("anthropic", "chat-model").headers["retry-after"] == "2"


@each_row(
    ("status", "kind", "expected"),
    [
        (400, "invalid_request_error", "BadRequestError"),
        (401, "invalid_api_key", "AuthenticationError"),
        (403, "permission", "PermissionDeniedError"),
        (404, "model_not_found", "NotFoundError"),
        (429, "rate_limit_exceeded", "RateLimitError"),
        (500, "server_error", "InternalServerError"),
    ],
)
def test_the_sdk_of_the_client_reads_each_error_as_its_own_class(status: int, kind: str, expected: str) -> None:
    """The body is an error of the client's API, and not of the provider's."""
    import httpx2

    from dragoman import RequestContext, get_adapter

    known = get_adapter("openai-chat:gpt-4.1").error(status, json.dumps(error("no", kind, kind)).encode(), {})
    context = RequestContext.for_model("openai-chat:gpt-4.1", prices=None)
    for adapter, ask in (("anthropic", _ask_messages), ("openai", _ask_responses)):
        written = get_adapter(f"{adapter}:client").to_wire_response(known, context)
        response = httpx2.Response(written.status, content=written.body, headers={"content-type": JSON})
        transport = httpx2.MockTransport(lambda _, response=response: response)  # type: ignore[misc]
        with pytest.raises((anthropic.APIStatusError, openai.APIStatusError)) as caught:
            ask(httpx2.Client(transport=transport))
        assert type(caught.value).__name__ == expected, adapter


def _ask_messages(http: Any) -> None:
    client = anthropic.Anthropic(api_key="x", base_url="http://127.0.0.1", http_client=http, max_retries=0)
    client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "Hi"}])


def _ask_responses(http: Any) -> None:
    openai.OpenAI(api_key="x", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0).responses.create(
        model="m", input="Hi"
    )


def test_an_error_of_anthropic_keeps_the_class_that_its_sdk_finds_by_the_details(talk: Talk) -> None:
    details = {"error_code": "ramp_limit_exceeded", "limit": 5}
    inner = {"type": "rate_limit_error", "message": "too fast", "details": details}
    talk.upstream.answer_in_turn(fails(429, {"type": "error", "error": inner}))
    client = anthropic.Anthropic(api_key="x", base_url=talk.address, max_retries=0)
    for stream in (False, True):
        with pytest.raises(anthropic.RampLimitExceededError) as caught:
            client.messages.create(
                model="messages-model", max_tokens=9, messages=[{"role": "user", "content": "Hi"}], stream=stream
            )
        assert dict(caught.value.details or {}) == details


def test_errors_of_the_gateway_itself_have_the_form_of_the_wire(talk: Talk) -> None:
    """A body that is not JSON, a field that is missing, an unknown model: never the other vendor's form."""
    for wire, path in PATHS.items():
        bodies = [b"{", b"[]", b"{}", b'{"model": 5}', b'{"model": "nobody"}', b"\xff"]
        for body in bodies if wire == "openai" else [*bodies, b'{"model": "chat-model"}']:
            answered = talk.post(wire, path, body)
            assert 400 <= answered.status < 500, (wire, body, answered.raw)
            assert ("type" in answered.body) is (wire == "anthropic"), (wire, body)
            assert isinstance(answered.body["error"]["message"], str)
            assert not any(word in answered.raw for word in (b"Traceback", b"None", b"Error:", b"site-packages"))


def test_no_key_of_a_provider_is_in_any_reply(talk: Talk) -> None:
    """Whatever the provider answers, even if it repeats the key."""
    key = "sk-provider-openai-chat"
    for status in (400, 401, 404, 500):
        talk.upstream.answer_in_turn(fails(status, error(f"Incorrect API key provided: {key}")))
        for answered in talk.both("anthropic", "chat-model"):
            assert key.encode() not in answered.raw, status
            assert key not in str(answered.headers)
