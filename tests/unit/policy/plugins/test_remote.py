"""A policy service in another process, over a real socket, with hand-written answers: only a yes passes."""

import json
import logging
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import TextBlock, ToolResultBlock
from dragoman.canonical.message import Message
from dragoman.policy import Capability, Extensions, Pipeline, PolicyDeniedError
from dragoman.policy.labels import labels_of
from dragoman.policy.plugins import RemotePlugin
from dragoman.testing.faults.server import HANG_UP, RESET, STALL, FaultyServer, HttpReply, ReceivedRequest, json_reply
from tests.unit.canonical.extensions.samples import full

MESSAGE = Message.user("My number is quince4711.")


def run(server: FaultyServer, message: Message = MESSAGE, **settings: Any) -> Extensions | None:
    with httpx.Client(trust_env=False) as client:
        plugin = RemotePlugin(f"{server.url}/judge", client=client, **{"request_timeout": 60, **settings})
        return Pipeline([plugin]).run("cmf.llm_input", message, full()).extensions


def refusal(*script: Any, **settings: Any) -> PolicyDeniedError:
    with FaultyServer(script) as server, pytest.raises(PolicyDeniedError) as raised:
        run(server, **settings)
    return raised.value


@pytest.mark.parametrize("answer", [True, {"allow": True}, {"result": True}, {"result": {"allow": True, "labels": []}}])
def test_a_yes_passes_and_the_input_is_that_of_an_agent(answer: Any) -> None:
    """It holds what the capabilities show, and neither secret headers nor claims."""
    capabilities = (Capability.READ_LABELS, Capability.READ_HEADERS, Capability.READ_CLAIMS)
    with FaultyServer([json_reply(answer)]) as server:
        run(server, capabilities=capabilities, headers={"Authorization": "Bearer x"})
    (received,) = server.requests
    assert (received.method, received.path) == ("POST", "/judge")
    assert received.headers["authorization"] == "Bearer x"
    (view,) = MESSAGE.iter_views("llm_input")
    sent = json.loads(received.body)["input"]
    assert sent.pop("extensions")["labels"] == ["security.labels.one", "security.labels.two"]
    assert sent == view.to_dict()
    assert b"claims" not in received.body
    assert b"authorization" not in received.body.lower()


def test_labels_of_an_answer_are_added() -> None:
    """Of every part, and to those that the data has."""

    def handwritten_service(received: ReceivedRequest) -> HttpReply:
        content = json.loads(received.body)["input"].get("content") or ""
        return json_reply({"allow": True, "labels": ["PII"] if "quince4711" in content else []})

    result = Message.tool("tu_1", [ToolResultBlock(tool_use_id="tu_2", content=(TextBlock(text="quince4711"),))])
    for message in (MESSAGE, result):
        with FaultyServer(handwritten_service) as server:
            assert labels_of(run(server, message)) == labels_of(full()) | {"PII"}


def test_a_no_denies_with_its_reason() -> None:
    denied = refusal(json_reply({"allow": False, "reason": "a\nnumber", "code": "pii", "labels": ["X"]}), name="desk")
    assert (denied.plugin, denied.code) == ("desk", "pii")
    assert "\n" not in denied.reason
    assert refusal(json_reply(False)).code == "remote_denied"


NO_DECISIONS: list[Any] = [
    json_reply({}), json_reply(None), json_reply(1), json_reply("true"), json_reply({"allow": "yes"}), json_reply([]),
    json_reply({"result": None}), json_reply({"allow": True, "labels": "PII"}),
    json_reply({"allow": True, "labels": [1]}), json_reply({"allow": True}, status=500),
    json_reply({"allow": True}, status=302), HttpReply(body=b"{"), HttpReply(before=HANG_UP),
    HttpReply(before=RESET),
]  # fmt: skip


@pytest.mark.parametrize("script", NO_DECISIONS, ids=range(len(NO_DECISIONS)))
def test_anything_else_denies_or_is_ignored_explicitly(script: Any, caplog: Any) -> None:
    """Fail closed by default; nothing of the content is in the reason."""
    denied = refusal(script)
    assert denied.code == "remote_unavailable"
    assert "quince4711" not in str(denied)
    with caplog.at_level(logging.WARNING, logger="dragoman.policy"), FaultyServer([script]) as server:
        assert run(server, on_error="ignore") == full()
    assert "continues without the plugin remote" in caplog.text


def test_a_service_that_does_not_answer_denies() -> None:
    assert refusal(HttpReply(before=STALL), request_timeout=0.2).code == "remote_unavailable"


def test_a_url_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="needs a URL"):
        RemotePlugin("localhost:9000")
