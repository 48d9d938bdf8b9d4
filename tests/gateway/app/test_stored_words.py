"""What a policy takes out or denies is nowhere: in no database, log, trace or file of the gateway."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import EventBus, Store
from tests.gateway.app.test_policy import no_bern, redaction
from tests.gateway.upstream import PATHS, PATIENCE, PROVIDERS, gateway_before, question, streamed_reply, whole_reply

ASKED, ANSWERED, DENIED = "S-104234", "S-104299", "zebra-77"


def body_of(wire: str, text: str, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(question(wire, "house", **more)).replace("Where is Bern?", text))
    if wire == "responses":
        return {**body, "store": True, "instructions": f"Ask {ASKED}.", "metadata": {"who": ASKED}}
    return body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("behind", ["its own wire", "another wire"])
@pytest.mark.parametrize("wire", PATHS)
def test_no_word_that_a_policy_takes_out_is_stored(
    wire: str, behind: str, stream: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    provider = PROVIDERS[wire] if behind == "its own wire" else PROVIDERS["messages" if wire == "chat" else "chat"]
    upstream = next(name for name, each in PROVIDERS.items() if each == provider)
    text = f"{ANSWERED} is new."
    reply = streamed_reply(upstream, text[:5], text[5:]) if stream else whole_reply(upstream, text)
    events: list[str] = []
    bus, store = EventBus(), Store(f"sqlite:///{tmp_path / 'chats.db'}")
    bus.subscribe(lambda event: events.append(repr(event)), name="all")
    client = {"policy": [redaction(), no_bern], "store": store, "events": bus}
    settings = {"models": {"house": f"{provider}:m"}, "database": f"sqlite:///{tmp_path / 'gateway.db'}"}
    with gateway_before(reply, client=client, **settings) as (url, server):
        asked = [body_of(wire, f"Who is {ASKED}?", stream=stream)]
        denied = [body_of(wire, f"Bern {DENIED}?", stream=stream)]
        if wire == "responses":
            asked.append({**asked[0], "background": True})
            denied.append({**denied[0], "background": True})
        for body in asked:
            answer = httpx.post(url + PATHS[wire], json=body)
            assert answer.status_code == 200, answer.text
            if body.get("background") and not stream:
                _wait(f"{url}/v1/responses/{answer.json()['id']}")
        for body in denied:
            assert httpx.post(url + PATHS[wire], json=body).status_code == 400
        sent = b" ".join(request.body for request in server.requests)
    bus.flush()
    store.close()
    files = b"".join(each.read_bytes() for each in sorted(tmp_path.iterdir()))
    for word in (ASKED, ANSWERED, DENIED):
        assert word.encode() not in sent
        assert word.encode() not in files, word
        assert word not in caplog.text
        assert word not in " ".join(events)
    assert b"staff_number" in files


def _wait(url: str) -> None:
    ends = time.monotonic() + PATIENCE
    while httpx.get(url).json()["status"] in ("queued", "in_progress"):
        assert time.monotonic() < ends
        time.sleep(0.02)
