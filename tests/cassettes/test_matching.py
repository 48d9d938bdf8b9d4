"""Requests match by meaning; `python -m tests.cassettes.matching` tries far more."""

import json
from typing import Any

import pytest

from dragoman.testing import Cassette, CassetteMissError
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.matcher import differences
from tests import exchanges
from tests.cassettes import matching

SAMPLE = 150


def record_request(body: Any, path: str = "/v1/messages", **more: Any) -> RecordedRequest:
    return RecordedRequest("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), **more)


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **more}


def two_call_history(name: str, result_of: str | None = None) -> dict[str, Any]:
    """A history in which two calls are answered; the second result names one of them."""
    calls = [{"type": "tool_use", "id": f"{name}{n}", "name": "f", "input": {"id": "mine", "n": n}} for n in (1, 2)]
    results = [
        {"type": "tool_result", "tool_use_id": f"{name}1", "content": "a"},
        {"type": "tool_result", "tool_use_id": result_of or f"{name}2", "content": "b"},
    ]
    return chat(
        {"role": "user", "content": "q"}, {"role": "assistant", "content": calls}, {"role": "user", "content": results}
    )


@pytest.mark.exchanges
def test_rewrites_hit_and_edits_miss() -> None:
    exchanges.load_or_skip("anthropic")
    wrong = [what for *what, as_it_must, which in matching.trial(SAMPLE, seed=3) if not as_it_must for what in [which]]
    assert wrong == []


def test_ids_may_differ_and_their_links_may_not() -> None:
    """The same history with other ids matches; a result of another call is another history."""
    assert differences(record_request(two_call_history("a")), record_request(two_call_history("b"))) == []
    assert differences(record_request(two_call_history("a")), record_request(two_call_history("b", "b1")))


def test_ids_of_the_caller_count() -> None:
    """A value in a tool's input is not a generated id."""
    other = two_call_history("a")
    other["messages"][1]["content"][0]["input"]["id"] = "yours"
    assert differences(record_request(two_call_history("a")), record_request(other))


def test_a_difference_has_its_path() -> None:
    """Long texts are cut around the difference, and an inserted item shifts no other."""
    long = "x" * 500
    ours, theirs = (chat({"role": "user", "content": [{"type": "text", "text": long + end}]}) for end in ("a", "b"))
    (line,) = differences(record_request(ours), record_request(theirs))
    assert line.startswith("$.messages[0].content[0].text: …x")
    assert len(line) < 400
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    (line,) = differences(record_request(chat(turns[0], turns[2])), record_request(chat(*turns)))
    assert line == "$.messages[1]: absent -> {'content': 'b', 'role': 'assistant'}"


def test_a_difference_shows_no_secret() -> None:
    """Logs of tests are public."""
    key = "sk-" + "ant-" + "9f8e7d6c5b4a" * 3
    (line,) = differences(
        record_request(chat({"role": "user", "content": "q"})), record_request(chat({"role": "user", "content": key}))
    )
    assert key not in line
    assert "***" in line


@pytest.mark.parametrize(
    ("other", "hit"),
    [
        (record_request(chat(), "/v1/messages?beta=true"), True),
        (record_request(chat(), "/proxy/v1/messages"), True),
        (record_request(chat(), host="api.anthropic.com"), True),
        (record_request(chat(), host="replayed.invalid"), True),
        (record_request(chat(), "/v1/messages/count_tokens"), False),
        (record_request(chat(), host="api.openai.com"), False),
        (record_request(chat(), "/v1/messages?trace=1"), False),
        (record_request(chat(stream=True)), False),
        (record_request(chat(stream=False)), True),
        (record_request(chat(temperature=1)), False),
    ],
)
def test_provider_and_operation_count(other: RecordedRequest, hit: bool) -> None:
    """Unknown hosts and prefixes of a path do not."""
    tape = record_request(chat(), provider="anthropic")
    assert (differences(tape, other) == []) is hit


def test_the_model_in_the_path_counts() -> None:
    """Gemini and Bedrock name it there."""
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}]}
    one, same, other = (
        record_request(body, f"{prefix}/models/{model}:generateContent")
        for prefix, model in (("/v1beta", "a"), ("/v1", "a"), ("/v1beta", "b"))
    )
    assert differences(one, same) == []
    assert differences(one, other)


def multipart(boundary: str, text: str, name: str = "purpose") -> bytes:
    lines = [f"--{boundary}", f'Content-Disposition: form-data; name="{name}"', "", text, f"--{boundary}--", ""]
    return "\r\n".join(lines).encode()


def test_the_boundary_of_a_form_does_not_count() -> None:
    """Its parts do: names, file names, types and contents."""
    tape = record_request(multipart("aaaa", "batch"), "/v1/files")
    assert differences(tape, record_request(multipart("bbbbbb", "batch"), "/v1/files")) == []
    assert differences(tape, record_request(multipart("aaaa", "batcH"), "/v1/files"))
    assert differences(tape, record_request(multipart("aaaa", "batch", "name"), "/v1/files"))


def test_each_exchange_is_played_once_in_any_order() -> None:
    """Equal exchanges are played in the order of their recording; the miss after them states their number."""
    texts = ["a", "b", "a"]
    tape = Cassette(
        "s",
        [
            Exchange(record_request(chat({"role": "user", "content": text})), RecordedResponse(200, str(n).encode()))
            for n, text in enumerate(texts)
        ],
    )
    order = [tape.play(record_request(chat({"role": "user", "content": text}))).response.body for text in "baa"]
    assert order == [b"1", b"0", b"2"]
    with pytest.raises(CassetteMissError, match="recorded 2 times, but is sent again"):
        tape.play(record_request(chat({"role": "user", "content": "a"})))
    assert tape.unplayed == 0
    assert tape.remaining == []
