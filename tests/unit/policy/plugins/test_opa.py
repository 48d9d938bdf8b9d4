"""The plugin of Open Policy Agent over a real socket, with hand-written answers: only a yes passes."""

import json
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.policy import Capability, Extensions, Hook
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.pipeline import Pipeline
from dragoman.policy.plugins import OpaPolicy
from dragoman.testing.faults.server import HANG_UP, RESET, STALL, FaultyServer, HttpReply, ReceivedRequest, json_reply
from tests.unit.canonical.extensions.samples import full
from tests.unit.canonical.message_view.test_view import block

CALL = ToolUseBlock(id="tu_1", name="execute_sql", input={"query": "SELECT 1"})

HANDWRITTEN_YES = json_reply({"result": True})


def permitted_extensions() -> Extensions:
    """The sample, whose caller has the permission that its tool requires."""
    sample = full().model_dump(mode="json", exclude_none=True)
    sample["security"]["subject"]["permissions"] += sample["security"]["objects"]["execute_sql"]["permissions"]
    return Extensions.model_validate(sample)


def run(server: FaultyServer, *parts: ContentBlock, hook: Hook = Hook.TOOL_PRE_INVOKE, **settings: Any) -> None:
    with httpx.Client(trust_env=False) as client:
        plugin = OpaPolicy(server.url, "app/allow", client=client, **{"request_timeout": 60, **settings})
        Pipeline([plugin]).run(hook, Message.assistant(list(parts or [CALL]), session_id="s"), permitted_extensions())


def refusal(*script: Any, **settings: Any) -> PolicyDeniedError:
    with FaultyServer(script) as server, pytest.raises(PolicyDeniedError) as raised:
        run(server, **settings)
    assert raised.value.plugin == "opa"
    return raised.value


def test_a_yes_passes() -> None:
    """A yes passes, as a bare decision, and as an object."""
    for answer in ({"result": True}, {"result": {"allow": True, "reason": "fine"}, "decision_id": "1"}):
        with FaultyServer([json_reply(answer)]) as server:
            run(server)
        assert [(each.method, each.path) for each in server.requests] == [("POST", "/v1/data/app/allow")]


def test_opa_plugin_sends_the_documented_input() -> None:
    """The view as the specification defines it, with what the capabilities show and no more."""
    for capabilities, labels in (
        ((), None),
        ((Capability.READ_LABELS,), ["security.labels.one", "security.labels.two"]),
    ):
        with FaultyServer([HANDWRITTEN_YES]) as server:
            run(server, capabilities=capabilities, headers={"Authorization": "Bearer x"})
        (received,) = server.requests
        body_input = json.loads(received.body)["input"]
        assert (body_input["kind"], body_input["name"], body_input["hook"]) == (
            "tool_call",
            "execute_sql",
            "tool_pre_invoke",
        )
        assert body_input["arguments"] == {"query": "SELECT 1"}
        assert body_input["extensions"].get("labels") == labels
        assert "headers" not in body_input["extensions"]
        assert received.headers["authorization"] == "Bearer x"
        assert received.headers["content-type"] == "application/json"


def test_content_and_arguments_can_be_withheld() -> None:
    """Then neither leaves the process."""
    with FaultyServer([HANDWRITTEN_YES]) as server:
        run(server, include_content=False, include_arguments=False)
    assert b"SELECT" not in server.requests[0].body


def test_every_part_is_judged() -> None:
    """The first no is enough."""

    def handwritten_agent(received: ReceivedRequest) -> HttpReply:
        return json_reply({"result": json.loads(received.body)["input"]["kind"] != "image"})

    result = ToolResultBlock(tool_use_id="tu_1", content=(block("text"), block("image"), block("text")))
    with FaultyServer(handwritten_agent) as server, pytest.raises(PolicyDeniedError):
        run(server, block("text"), result, block("text"), hook=Hook.TOOL_POST_INVOKE)
    kinds = [json.loads(each.body)["input"]["kind"] for each in server.requests]
    assert kinds == ["text", "tool_result", "text", "image"]


@pytest.mark.parametrize(
    ("result", "code", "reason"),
    [
        (False, "opa_denied", "the policy does not allow it"),
        ({"allow": False}, "opa_denied", "the policy does not allow it"),
        ({"allow": False, "reason": "no SQL\nhere", "code": "sql"}, "sql", "no SQL\\nhere"),
        ({"allow": False, "reason": 7, "code": ""}, "opa_denied", "the policy does not allow it"),
    ],
)
def test_a_no_is_a_violation(result: Any, code: str, reason: str) -> None:
    """With the policy's own reason and code, if it gives any."""
    denied = refusal(json_reply({"result": result}))
    assert (denied.code, denied.reason) == (code, reason)


HANDWRITTEN_FAULTS: list[Any] = [
    json_reply({}), json_reply({"result": None}), json_reply({"result": "true"}), json_reply({"result": 1}),
    json_reply({"result": {}}), json_reply({"result": {"allow": "yes"}}), json_reply({"result": [True]}),
    json_reply([True]), json_reply({"result": True}, status=500), json_reply({"result": True}, status=404),
    json_reply({"result": True}, status=201), HttpReply(before=RESET), HttpReply(before=HANG_UP),
    HttpReply(length=100, body=b"{"),
    HttpReply(steps=(b'{"result": true}', RESET)),
]  # fmt: skip


@pytest.mark.parametrize("answer", HANDWRITTEN_FAULTS)
def test_any_other_answer_denies(answer: Any) -> None:
    """Any other answer denies: an undefined decision, another type, another status, a broken connection."""
    assert refusal(answer).code == "opa_unavailable"


def test_malformed_json_denies() -> None:
    """However deep or long it is."""
    for body in (b"", b"true", b"{", b'{"result": tru', b"[" * 200_000, b"\xff\xfe"):
        assert refusal(HttpReply(body=body)).code == "opa_unavailable", body[:20]
    assert refusal(HttpReply(body=b'{"result": true}' + b" " * 2_000_000)).code == "opa_unavailable"


def test_redirects_are_not_followed() -> None:
    """A decision comes from the configured agent only."""
    elsewhere = HttpReply(status=307, headers={"location": "/v1/data/other"})
    assert refusal(elsewhere, HANDWRITTEN_YES).code == "opa_unavailable"


def test_an_unreachable_agent_denies() -> None:
    """Nothing listens at the port, or no answer comes in time."""
    with FaultyServer([HANDWRITTEN_YES]) as server:
        url = server.url
    message = Message.assistant([CALL], session_id="s")
    for at in (url, "http://127.0.0.1:1"):
        with pytest.raises(PolicyDeniedError) as raised:
            Pipeline([OpaPolicy(at, "app/allow")]).run(Hook.TOOL_PRE_INVOKE, message)
        assert raised.value.code == "opa_unavailable"
    assert refusal(HttpReply(before=STALL), request_timeout=0.2).code == "opa_unavailable"


@pytest.mark.parametrize(
    ("url", "path"), [("localhost:8181", "a"), ("ftp://h", "a"), ("http://h", ""), ("http://h", "/")]
)
def test_an_invalid_agent_url_is_refused(url: str, path: str) -> None:
    """When the plugin is made."""
    with pytest.raises(ConfigurationError):
        OpaPolicy(url, path)
