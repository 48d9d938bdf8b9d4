"""A policy judges everything that goes in and comes out, on the client's own wire too."""

import json
import re
from typing import Any

import httpx
import pytest

from dragoman.policy import Extensions, ObjectSecurityProfile, SecurityExtension, Step, Violation, hook
from dragoman.policy.plugins import Finder, Finding, Redaction
from dragoman.testing.faults.server import HttpReply, json_reply, sse_reply
from tests.benchmarks.wires import WIRES
from tests.gateway.keyed import Start
from tests.gateway.upstream import PATHS, PROVIDERS, gateway_before, question, streamed_reply, whole_reply


def staff_numbers(text: str) -> list[Finding]:
    return [Finding(*match.span(), "staff_number") for match in re.finditer(r"S-\d{6}", text)]


def redaction() -> Redaction:
    return Redaction([Finder(staff_numbers, max_length=8)])


CONVERSATION = [
    {"role": "user", "content": "I am S-104233."},
    {"role": "assistant", "content": "Hello, S-104233."},
    {"role": "user", "content": "Who is S-104234?"},
]


@pytest.mark.parametrize("behind", ["messages", "chat"])
@pytest.mark.parametrize("stream", [False, True])
def test_secrets_are_redacted_in_the_whole_conversation_and_in_the_reply(behind: str, stream: bool) -> None:
    text = "S-104234 is new."
    reply = streamed_reply(behind, text[:5], text[5:]) if stream else whole_reply(behind, text)
    settings = {"models": {"house": f"{PROVIDERS[behind]}:m"}, "client": {"policy": [redaction()]}}
    body = {**question("messages", "house", stream=stream), "messages": CONVERSATION}
    with gateway_before(reply, **settings) as (url, server):
        answer = httpx.post(f"{url}/v1/messages", json=body)
        (received,) = server.requests
    assert answer.status_code == 200
    assert b"S-1042" not in received.body
    assert received.body.count(b"[staff_number]") == 3
    assert "S-1042" not in answer.text
    assert "staff_number" in answer.text


def test_what_a_policy_does_not_change_goes_through_as_bytes() -> None:
    settings = {"models": {"house": "anthropic:m"}, "client": {"policy": [redaction()]}}
    sent = json.dumps(question("messages", "house"), indent=1).encode()
    with gateway_before(whole_reply("messages"), **settings) as (url, server):
        httpx.post(f"{url}/v1/messages", content=sent, headers={"content-type": "application/json"})
        (received,) = server.requests
    assert received.body == sent.replace(b'"house"', b'"m"')


@hook("cmf.llm_input", name="no Bern")
def no_bern(step: Step) -> Violation | None:
    return Violation("nobody asks for Bern", code="bern") if "Bern" in step.message.text else None


@pytest.mark.parametrize("wire", PATHS)
def test_a_denied_request_is_refused_in_the_wire_of_the_client(wire: str) -> None:
    settings = {"models": {"house": "openai-chat:m"}, "client": {"policy": [no_bern]}}
    with gateway_before(whole_reply("chat"), **settings) as (url, server):
        replies = [httpx.post(url + PATHS[wire], json=question(wire, "house", stream=each)) for each in (False, True)]
    for reply in replies:
        assert reply.status_code == 400
        assert "nobody asks for Bern" in reply.json()["error"]["message"]
    assert not server.requests


@hook("tool_pre_invoke", name="no writing")
def no_writing(step: Step) -> Violation | None:
    forbidden = any("/etc" in str(call.input) for call in step.message.tool_uses)
    return Violation("nothing writes there", code="path") if forbidden else None


TOOLS: dict[str, list[dict[str, Any]]] = {
    "messages": [{"name": "write", "input_schema": {"type": "object"}}],
    "chat": [{"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "write", "parameters": {"type": "object"}, "strict": False}],
}


def handwritten_call(arguments: str) -> HttpReply:
    """A whole reply of Chat Completions that calls a tool."""
    call = {"id": "call_0", "type": "function", "function": {"name": "write", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
    return json_reply({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_denied_call_never_reaches_the_client(wire: str, stream: bool) -> None:
    """Neither on the client's own wire nor on another one; an allowed call does."""
    settings = {"models": {"house": "openai-chat:m"}, "client": {"policy": [no_writing]}}
    body = {**question(wire, "house", stream=stream), "tools": TOOLS[wire]}
    for path, allowed in (("/etc/passwd", False), ("/tmp/note", True)):
        arguments = json.dumps({"path": path, "text": "x" * 200})
        reply = sse_reply(b"".join(WIRES["chat"].call_stream([arguments]))) if stream else handwritten_call(arguments)
        with gateway_before(reply, **settings) as (url, _):
            answer = httpx.post(url + PATHS[wire], json=body)
        assert (answer.text.count("x") >= 200) is allowed
        assert ("nothing writes there" in answer.text) is not allowed
        assert answer.status_code == (200 if allowed else 400)


@pytest.mark.parametrize("wire", PATHS)
def test_plugins_know_who_asks(wire: str, start: Start) -> None:
    """The user, team and key, and the headers of the request without those that hold a key. None of them is sent."""
    seen: list[Any] = []

    @hook("cmf.llm_input", capabilities=["read_subject", "read_teams", "read_headers"])
    def note(step: Step) -> None:
        assert step.extensions.security is not None
        assert step.extensions.http is not None
        subject, headers = step.extensions.security.subject, step.extensions.http.headers
        assert subject is not None
        seen.append((str(subject.type), subject.id, sorted(subject.teams), headers.get("x-ward")))
        assert not {"authorization", "x-api-key", "cookie"} & {name.lower() for name in headers}

    keyed = start(whole_reply(wire), models={"house": f"{PROVIDERS[wire]}:m"}, client={"policy": [note]})
    ids = [keyed.create_key(user="ada", team="lab"), keyed.create_key()]
    for _, secret in ids:
        headers = {"authorization": f"Bearer {secret}", "x-ward": "7", "cookie": "a=b"}
        assert httpx.post(keyed.url + PATHS[wire], json=question(wire, "house"), headers=headers).status_code == 200
    expected = {("user", "ada", ("lab",), "7"), ("service", ids[1][0], (), "7")}
    assert {(kind, who, tuple(teams), ward) for kind, who, teams, ward in seen} == expected
    assert all(b"x-ward" not in str(request.headers).encode() for request in keyed.server.requests)


@pytest.mark.parametrize("wire", PATHS)
def test_roles_and_permissions_are_those_of_the_key(wire: str, start: Start) -> None:
    """Plugins see them, and object profiles ask for them. A client cannot choose them."""
    seen: list[tuple[list[str], list[str]]] = []

    @hook("cmf.llm_input", capabilities=["read_subject", "read_roles", "read_permissions"])
    def note(step: Step) -> None:
        assert step.extensions.security is not None
        subject = step.extensions.security.subject
        assert subject is not None
        seen.append((sorted(subject.roles), sorted(subject.permissions)))

    profile = {"write": ObjectSecurityProfile(permissions=["files.write"])}
    own = Extensions(security=SecurityExtension(objects=profile))
    client = {"policy": [note], "extensions": own}
    keyed = start(handwritten_call("{}"), models={"house": "openai-chat:m"}, client=client)
    body = {**question(wire, "house"), "tools": TOOLS[wire]}
    statuses = []
    for fields in ({"roles": ("staff",), "permissions": ("files.write",)}, {}):
        _, secret = keyed.create_key(user="ada", **fields)
        headers = {"authorization": f"Bearer {secret}", "x-dragoman-user": "root", "x-roles": "admin"}
        statuses.append(httpx.post(keyed.url + PATHS[wire], json=body, headers=headers).status_code)
    assert set(map(str, seen)) == {str((["staff"], ["files.write"])), str(([], []))}
    assert statuses == [200, 400]


RESULTS: dict[str, dict[str, Any]] = {
    "messages": {"max_tokens": 9, "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ward 7"}]},
    ]},
    "chat": {"messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "write", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "call_1", "content": "ward 7"},
    ]},
    "responses": {"input": [
        {"role": "user", "content": "Look."},
        {"type": "function_call", "call_id": "call_1", "name": "write", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "ward 7"},
    ]},
}  # fmt: skip


@pytest.mark.parametrize("wire", PATHS)
def test_results_that_a_client_sends_pass_their_hook(wire: str) -> None:
    """The tools are the client's, and what they found came from outside all the same."""

    @hook("tool_post_invoke", name="wards")
    def no_ward(step: Step) -> Violation | None:
        found = any("ward 7" in text for text in step.texts())
        return Violation("no wards", code="ward") if found else None

    settings = {"models": {"house": "openai-chat:m"}, "client": {"policy": [no_ward]}}
    with gateway_before(whole_reply("chat"), **settings) as (url, server):
        answer = httpx.post(url + PATHS[wire], json={"model": "house", "tools": TOOLS[wire], **RESULTS[wire]})
    assert answer.status_code == 400
    assert "no wards" in answer.text
    assert not server.requests


def test_data_policies_of_the_client_hold_in_the_gateway(start: Start) -> None:
    """What the client sets beside the subject of the key stays."""
    rules = {"write": ObjectSecurityProfile(permissions=["write"])}
    own = Extensions(security=SecurityExtension(objects=rules, classification="internal"))
    seen: list[Any] = []

    @hook("cmf.llm_input", capabilities=["read_subject", "read_objects"])
    def note(step: Step) -> None:
        seen.append(step.extensions.security)

    keyed = start(
        whole_reply("messages"), models={"house": "anthropic:m"}, client={"policy": [note], "extensions": own}
    )
    _, secret = keyed.create_key(user="ada")
    headers = {"authorization": f"Bearer {secret}"}
    assert (
        httpx.post(f"{keyed.url}/v1/messages", json=question("messages", "house"), headers=headers).status_code == 200
    )
    (security,) = seen
    assert (security.subject.id, security.classification, [*security.objects]) == ("ada", "internal", ["write"])


def test_what_is_stored_is_judged_for_who_asked(start: Start) -> None:
    """A plugin that lets one user through lets that user's responses be stored."""

    @hook("cmf.llm_input", capabilities=["read_subject", "read_headers"])
    def ada_only(step: Step) -> Violation | None:
        subject, http = step.extensions.security and step.extensions.security.subject, step.extensions.http
        may = subject and subject.id == "ada" and http and http.headers.get("x-ward") == "7"
        return None if may else Violation("only Ada")

    keyed = start(whole_reply("responses"), models={"house": "openai:m"}, client={"policy": [ada_only]})
    _, secret = keyed.create_key(user="ada")
    headers = {"authorization": f"Bearer {secret}", "x-ward": "7"}
    made = httpx.post(f"{keyed.url}/v1/responses", json=question("responses", "house"), headers=headers).json()
    assert httpx.get(f"{keyed.url}/v1/responses/{made['id']}", headers=headers).status_code == 200


def test_embeddings_and_counts_know_who_asks_too(start: Start) -> None:
    seen: list[str] = []

    @hook("cmf.llm_input", capabilities=["read_subject", "read_headers"])
    def ada_only(step: Step) -> Violation | None:
        subject = step.extensions.security and step.extensions.security.subject
        seen.append("" if subject is None else subject.id)
        assert step.extensions.http is not None
        assert step.extensions.http.headers.get("x-ward") == "7"
        return None if subject and subject.id == "ada" else Violation("only Ada")

    models = {"house": "anthropic:m", "vectors": "openai:text-embedding-3-small"}
    keyed = start(whole_reply("messages"), models=models, client={"policy": [ada_only]})
    for user in ("ada", "bob"):
        _, secret = keyed.create_key(user=user)
        headers, before = {"authorization": f"Bearer {secret}", "x-ward": "7"}, len(keyed.server.requests)
        for path, body in (
            ("/v1/embeddings", {"model": "vectors", "input": "Hi"}),
            ("/v1/messages/count_tokens", question("messages", "house")),
        ):
            answer = httpx.post(keyed.url + path, json=body, headers=headers)
            assert user == "ada" or answer.status_code == 400, answer.text
        assert len(keyed.server.requests) - before == (2 if user == "ada" else 0)
    assert set(seen) == {"ada", "bob"}
