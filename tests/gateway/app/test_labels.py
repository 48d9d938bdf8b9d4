"""A conversation through the gateway keeps its labels from turn to turn, whatever its client makes of it."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from dragoman.policy import Extensions, Step, hook
from dragoman.policy.labels import with_labels
from dragoman.policy.plugins import Finder, LabelledModels, Redaction
from dragoman.testing.faults.server import json_reply
from dragoman_gateway.running import services
from dragoman_gateway.stored.call_state import ConversationLabels
from tests.gateway.app.test_policy import redaction, staff_numbers
from tests.gateway.keyed import Start
from tests.gateway.upstream import PATHS, gateway_before, whole_reply

MODELS = {"house": "anthropic:m", "cloud": "openai-chat:m"}
"""The house may see labelled content, and the cloud may not."""


@hook("llm_input", "tool_post_invoke", name="wards", capabilities=["append_labels"], mode="concurrent")
def wards(step: Step) -> Extensions | None:
    """Label what names a ward."""
    found = any("ward" in text for text in step.texts())
    return with_labels(step.extensions, {"PHI"}) if found else None


POLICY = {"policy": [wards, LabelledModels({"PHI": ["anthropic:m"]})]}
SETTINGS: dict[str, Any] = {"models": MODELS, "client": POLICY}


def said(wire: str, model: str, *texts: str, stream: bool = False) -> dict[str, Any]:
    """Return a request: the first text is the user's, the next one an answer, and so on."""
    turns = [{"role": "assistant" if index % 2 else "user", "content": text} for index, text in enumerate(texts)]
    if wire == "responses":
        return {"model": model, "input": turns, "stream": stream}
    return {"model": model, "messages": turns, "stream": stream, **({"max_tokens": 9} if wire == "messages" else {})}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", PATHS)
def test_a_follow_up_has_the_labels_of_the_turns_before(wire: str, stream: bool) -> None:
    """Also if the client has taken the labelled words out, or has moved what it keeps."""
    with gateway_before(whole_reply("messages", "A. Jones lies there."), **SETTINGS) as (url, server):
        first = said(wire, "house", "Who lies in ward 3?", stream=False)
        assert httpx.post(url + PATHS[wire], json=first).status_code == 200
        for history in (
            ("Who lies in ward 3?", "A. Jones lies there.", "Since when?"),
            ("Who is it?", "A. Jones lies there.", "Since when?"),
            ("Hello.", "Hi.", "And?", "A. Jones lies there.", "Since when?"),
        ):
            before = len(server.requests)
            denied = httpx.post(url + PATHS[wire], json=said(wire, "cloud", *history, stream=stream))
            assert denied.status_code == 400, history
            assert len(server.requests) == before
            assert httpx.post(url + PATHS[wire], json=said(wire, "house", *history)).status_code == 200
        fresh = httpx.post(url + PATHS[wire], json=said(wire, "cloud", "Where is Bern?"))
        assert fresh.status_code != 400


CALLED: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "messages": lambda call, result: {"max_tokens": 9, "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "write", "input": {"all": True}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": result}]},
    ]},
}  # fmt: skip


def test_a_call_is_known_by_its_id_however_its_client_edits_it() -> None:
    """An agent adds defaults to the arguments, and clears the result."""
    call = {"type": "tool_use", "id": "toolu_9", "name": "write", "input": {}}
    reply = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [call],
        "stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    tools = [{"name": "write", "input_schema": {"type": "object"}}]
    with gateway_before(json_reply(reply), **SETTINGS) as (url, server):
        first = {**said("messages", "house", "Look into ward 3."), "tools": tools}
        answer = httpx.post(f"{url}/v1/messages", json=first).json()
        assert answer["content"][0]["id"] == "toolu_9"
        follow_up = {**CALLED["messages"]("toolu_9", "[cleared]"), "tools": tools}
        before = len(server.requests)
        assert httpx.post(f"{url}/v1/messages", json={"model": "cloud", **follow_up}).status_code == 400
        assert len(server.requests) == before
        other = copy.deepcopy(follow_up)
        other["messages"] = [{"role": "user", "content": "Hello."}]
        assert httpx.post(f"{url}/v1/messages", json={"model": "cloud", **other}).status_code != 400


@pytest.mark.parametrize("unknown", ["label", "refuse"])
def test_answers_that_nothing_recognises(unknown: str, start: Start) -> None:
    """They may be edited ones of any conversation of the key: of no other key, and of none without labels."""
    keyed = start(whole_reply("messages", "A. Jones."), unknown_history=unknown, **SETTINGS)
    strange = said("messages", "cloud", "Hello.", "An answer of somebody.", "And?")

    def ask(key: int, body: dict[str, Any]) -> int:
        return keyed.http(key).post("/v1/messages", json=body).status_code

    assert ask(0, strange) not in (400, 403)
    assert ask(0, said("messages", "house", "Who lies in ward 3?")) == 200
    others = said("messages", "cloud", "Hello.", "Another answer of somebody.", "And?")
    assert ask(0, others) == (400 if unknown == "label" else 403)
    assert ask(0, {**others, "model": "house"}) == (200 if unknown == "label" else 403)
    assert ask(0, said("messages", "cloud", "Hello.")) not in (400, 403)
    assert ask(1, others) not in (400, 403)


def test_a_count_asks_nobody_who_may_not_see_the_conversation() -> None:
    settings = {"models": {**MODELS, "other": "anthropic:other"}, "client": POLICY}
    with gateway_before(whole_reply("messages", "A. Jones."), **settings) as (url, server):
        first = said("messages", "house", "Who lies in ward 3?")
        assert httpx.post(f"{url}/v1/messages", json=first).status_code == 200
        before = len(server.requests)
        follow_up = said("messages", "other", "Who?", "A. Jones.", "So?")
        assert httpx.post(f"{url}/v1/messages/count_tokens", json=follow_up).status_code == 400
        assert len(server.requests) == before


COMPACTED: dict[str, Any] = {
    "id": "resp_1", "object": "response.compaction", "created_at": 1, "model": "m",
    "output": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "opaque"}],
    "usage": {
        "input_tokens": 5, "output_tokens": 7, "total_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    },
}  # fmt: skip


def test_a_compacted_conversation_keeps_its_labels() -> None:
    """The summary that the item stands for is labelled, and other conversations are not."""
    models = {"house": "openai-chat:m", "cloud": "openai:x"}
    policy = {"policy": [wards, LabelledModels({"PHI": ["openai-chat:m"]})]}
    with gateway_before(whole_reply("chat", "A. Jones."), models=models, client=policy) as (url, server):
        first = {"model": "house", "input": "Who lies in ward 3?"}
        compacted = httpx.post(f"{url}/v1/responses/compact", json=first)
        assert compacted.status_code == 200, compacted.text
        items = compacted.json()["output"]
        before = len(server.requests)
        asked = [*items, {"role": "user", "content": "Since when?"}]
        for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"):
            denied = httpx.post(url + path, json={"model": "cloud", "input": asked})
            assert denied.status_code == 400, denied.text
        assert len(server.requests) == before
        free = httpx.post(f"{url}/v1/responses", json={"model": "cloud", "input": "Where is Bern?"})
        assert free.status_code != 400


def test_an_item_that_only_a_provider_can_read_is_refused_under_a_policy() -> None:
    """No plugin can judge it, so that it neither leaves nor comes back."""
    settings = {"models": {"house": "openai:m"}, "client": POLICY}
    with gateway_before(json_reply(COMPACTED), **settings) as (url, server):
        compacted = httpx.post(f"{url}/v1/responses/compact", json={"model": "house", "input": "Hi"})
        assert (compacted.status_code, "unknown_part" in compacted.text) == (400, True)
        asked = [*COMPACTED["output"], {"role": "user", "content": "And?"}]
        again = httpx.post(f"{url}/v1/responses", json={"model": "house", "input": asked})
        assert (again.status_code, "unknown_part" in again.text) == (400, True)
        assert len(server.requests) == 1


class Counting(ConversationLabels):
    """Counts what requests ask of the database."""

    asked: ClassVar[list[str]] = []

    async def find(self, owner: str, keys: Any) -> dict[str, frozenset[str]]:
        self.asked.append("read")
        return await super().find(owner, keys)

    async def note(self, owner: str, keys: Any, labels: frozenset[str]) -> None:
        self.asked.append("write")
        await super().note(owner, keys, labels)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ([redaction()], []),
        ([Redaction([Finder(staff_numbers, max_length=8)], label="PII")], ["write"]),
        (POLICY["policy"], ["read", "write"]),
    ],
)
def test_labels_that_nothing_reads_cost_nothing(
    policy: list[Any], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read and one write for each request at most: none without labels and without anybody who reads them."""
    monkeypatch.setattr(services, "ConversationLabels", Counting)
    Counting.asked.clear()
    body = said("messages", "house", "Hello.", "I know S-104233.", "And?")
    with gateway_before(whole_reply("messages"), models=MODELS, client={"policy": policy}) as (url, _):
        assert httpx.post(f"{url}/v1/messages", json=body).status_code == 200
    assert Counting.asked == expected


def test_labels_are_found_when_a_policy_begins_to_read_them(tmp_path: Path) -> None:
    """They were noted while nothing read them."""
    settings = {"models": MODELS, "database": f"sqlite:///{tmp_path / 'gateway.db'}"}
    labels = {"policy": [wards]}
    with gateway_before(whole_reply("messages", "A. Jones."), client=labels, **settings) as (url, _):
        first = said("messages", "house", "Who lies in ward 3?")
        assert httpx.post(f"{url}/v1/messages", json=first).status_code == 200
    with gateway_before(whole_reply("messages", "A. Jones."), client=POLICY, **settings) as (url, server):
        follow_up = said("messages", "cloud", "Who is it?", "A. Jones.", "Since when?")
        assert httpx.post(f"{url}/v1/messages", json=follow_up).status_code == 400
        assert not server.requests
