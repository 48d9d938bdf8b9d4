"""What a client writes into its requests about itself does not count: it differs whenever the client runs again."""

import json
from typing import Any

import pytest

from dragoman import ConfigurationError
from dragoman.testing import Cassette, CassetteMissError
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.labels import Labels
from dragoman.testing.cassettes.matcher import differences


def request(path: str, body: Any) -> RecordedRequest:
    return RecordedRequest("POST", path, json.dumps(body).encode())


def claude(session: str, date: str, number: str, question: str = "Fix it.", **more: str) -> RecordedRequest:
    """A request as Claude Code 2.1.197 writes it, shortened."""
    spool = f"/tmp/claude-0/-work/{session}/tasks/{number}.output"
    told = f"Command running in background with ID: {number}. Output is being written to: {spool}. You will be notified"
    reminder = f"<system-reminder>\nToday's date is {date}.\n</system-reminder>"
    billing = f"x-anthropic-billing-header: cc_version=2.1.197.{number}; cc_entrypoint=cli;"
    search = f"- The current month is November {date[:4]} — use this when searching for recent information."
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "make &", **more}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": told}
    texts = [{"type": "text", "text": text} for text in (reminder, question)]
    body = {
        "model": "m",
        "max_tokens": 9,
        "metadata": {"user_id": json.dumps({"device_id": "d", "session_id": session})},
        "system": [{"type": "text", "text": billing}],
        "tools": [{"name": "WebSearch", "description": search, "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": texts},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
    }
    return request("/v1/messages?beta=true", body)


def codex(session: str, date: str, number: str, question: str = "Fix it.", **more: str) -> RecordedRequest:
    """A request as Codex 0.171.0 writes it, shortened."""
    told = (
        f"Chunk ID: {number}\nWall time: 0.{number} seconds\nProcess running with session ID {number}\n"
        "Original token count: 8\nOutput:\nnothing yet"
    )
    place = f"<cwd>/work</cwd>\n<current_date>{date}</current_date>\n<timezone>Place/{session}</timezone>"
    arguments = json.dumps({"cmd": "make", **more})
    texts = [{"type": "input_text", "text": text} for text in (place, question)]
    body = {
        "model": "m",
        "prompt_cache_key": session,
        "client_metadata": {"session_id": session, "x-codex-turn-metadata": json.dumps({"turn_id": number})},
        "input": [
            *({"type": "message", "role": "user", "id": f"msg_{session}", "content": [text]} for text in texts),
            {"type": "function_call", "call_id": "call_1", "name": "exec_command", "arguments": arguments},
            {"type": "function_call_output", "id": f"fco_{number}", "call_id": "call_1", "output": told},
        ],
    }
    return request("/v1/responses", body)


def gemini(session: str, date: str, number: str, question: str = "Fix it.", **more: str) -> RecordedRequest:
    """A request as Gemini CLI 0.61.0 writes it, shortened."""
    told = f"Output: nothing yet\nBackground PIDs: {number}, {number}9\nProcess Group PGID: {number}\n"
    reminder = f"Today's date is {date} (formatted according to the user's locale)."
    call = {"id": f"run_shell_command_{number}_0", "name": "run_shell_command"}
    contents = [
        {"role": "user", "parts": [{"text": reminder}, {"text": question}]},
        {"role": "model", "parts": [{"functionCall": {**call, "args": {"command": "make", **more}}}]},
        {"role": "user", "parts": [{"functionResponse": {**call, "response": {"output": told}}}]},
    ]
    return request("/v1beta/models/m:streamGenerateContent?alt=sse", {"contents": contents})


FIRST = ("11ff8321-e251-4e37-a56f-d11b9a4e5e99", "2026-11-28", "1")
AGAIN = ("bd9d8560-98ae-4e37-a56f-d11b9a4e5e11", "2027-01-02", "22")
CLIENTS = [claude, codex, gemini]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_same_task_matches_on_another_day(client: Any) -> None:
    assert differences(client(*FIRST), client(*AGAIN)) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_asked_counts_down_to_the_character(client: Any) -> None:
    """A date, a number of a process and an id count too, where the client does not write them about itself."""
    recorded = client(*FIRST, question="Is 2026-11-28 a Saturday? Ask process 1.", pid="1", id=FIRST[0])
    assert differences(
        recorded, client(*AGAIN, question="Is 2027-01-02 a Saturday? Ask process 1.", pid="1", id=FIRST[0])
    )
    assert differences(
        recorded, client(*AGAIN, question="Is 2026-11-28 a Saturday? Ask process 2.", pid="1", id=FIRST[0])
    )
    assert differences(
        recorded, client(*AGAIN, question="Is 2026-11-28 a Saturday? Ask process 1.", pid="2", id=FIRST[0])
    )
    assert differences(
        recorded, client(*AGAIN, question="Is 2026-11-28 a Saturday? Ask process 1.", pid="1", id=AGAIN[0])
    )


def test_a_label_of_one_s_own_does_not_count() -> None:
    def asked(build: str, note: str) -> RecordedRequest:
        messages = [{"role": "user", "content": f"[build {build}] {note}"}]
        return request(
            "/v1/messages", {"model": "m", "max_tokens": 9, "metadata": {"build": build}, "messages": messages}
        )

    recorded = [Exchange(asked("17", "Fix it."), RecordedResponse(200, b"{}"))]
    own = Labels.known(["metadata.build"], [r"^\[build ([0-9]+)\]"])
    assert Cassette("", recorded, labels=own).play(asked("18", "Fix it."))
    for labels, note in ((own, "Fix that."), (Labels(), "Fix it."), (None, "Fix it.")):
        with pytest.raises(CassetteMissError):
            Cassette("", recorded, labels=labels).play(asked("18", note))


def test_all_of_a_match_is_hidden_without_groups_and_a_group_that_took_no_part_is_not() -> None:
    assert Labels(patterns=["pid [0-9]+"]).remove(["a pid 17 b"]) == ["a <label> b"]
    assert Labels(patterns=["(?:from ([a-z]+) )?to ([a-z]+)"]).remove("to b, from a to b") == (
        "to <label>, from <label> to <label>"
    )
    assert Labels(["a.b"]).remove({"a": {"b": 1}, "c": 2}) == {"c": 2}
    assert Labels(["a.b"]).remove({"a": [1], "c": 2}) == {"a": [1], "c": 2}


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not a regular expression"):
        Labels(patterns=["("])
