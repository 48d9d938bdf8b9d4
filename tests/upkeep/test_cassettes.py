"""The report for reviewers of a new recording: the text, and added or removed fields; not ids and times."""

import json

from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.file import dump_exchanges
from tests.upkeep.cassettes import compare, describe

HANDWRITTEN_REPLY = {
    "object": "chat.completion", "created": 1, "model": "m",
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}  # fmt: skip
HANDWRITTEN_STREAM = b"""data: {"choices":[{"index":0,"delta":{"content":"Paris"},"finish_reason":"stop"}]}

data: [DONE]

"""


def recording(response: RecordedResponse) -> str:
    request = RecordedRequest("POST", "/v1/chat/completions", b'{"model": "m", "messages": [{"role": "user"}]}')
    return dump_exchanges([Exchange(request, response)], server="s")


def answer(words: str, identity: str = "chatcmpl-1", **more: object) -> list[str]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": words}}
    body = {"id": identity, **HANDWRITTEN_REPLY, "choices": [choice], **more}
    return describe(recording(RecordedResponse(200, json.dumps(body).encode(), {"content-type": "application/json"})))


def test_only_ids_and_times_differ() -> None:
    """Then there is nothing to review."""
    (sentence,) = compare({"a.yaml": answer("Paris.")}, {"a.yaml": answer("Paris.", "chatcmpl-2", created=2)})
    assert "same" in sentence


def test_other_words_and_fields_are_listed() -> None:
    """Other words and fields are listed, as a diff of lines, under the file's name."""
    before, after = answer("Paris."), answer("Rome.", tier={"name": "x"})
    lines = list(compare({"a.yaml": before, "b.yaml": before}, {"a.yaml": after, "b.yaml": before}))
    assert lines[0] == "### `a.yaml`"
    assert [line for line in lines if line[0] in "+-"] == ["-Paris.", "+Rome.", "+reply field tier.name"]


def test_another_status_is_listed() -> None:
    failed = describe(recording(RecordedResponse(500, b"{}")))
    lines = list(compare({"a.yaml": answer("Paris.")}, {"a.yaml": failed}))
    assert "+1. openai-chat chat.completions -> 500" in lines


def test_added_and_removed_files_are_named() -> None:
    lines = answer("Paris.")
    assert next(compare({}, {"a.yaml": lines})) == "### `a.yaml` is new"
    assert next(compare({"a.yaml": lines}, {})) == "### `a.yaml` is gone"


def test_fields_of_a_stream_are_those_of_its_events() -> None:
    stream = RecordedResponse(200, HANDWRITTEN_STREAM, {"content-type": "text/event-stream"})
    assert "reply field choices[].delta.content" in describe(recording(stream))
