"""A webhook is called once when a share of a budget is spent, and no answer waits for it."""

import json
import threading
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigurationError
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply
from dragoman_gateway import GatewaySettings
from tests.gateway.app.test_deferred_store import wait_until
from tests.gateway.keyed import Start
from tests.gateway.upstream import PATIENCE, question, whole_reply

CHAT = "/v1/chat/completions"


def test_each_share_is_reported_once_by_all_replicas(start: Start) -> None:
    """A reply costs 29 cents."""
    with FaultyServer(json_reply({})) as hook:
        alerts: Any = {"url": hook.url, "at": [0.5, 0.9], "seconds": PATIENCE}
        replicas = [start(whole_reply("chat"), alerts=alerts) for _ in range(2)]
        key_id, secret = replicas[0].create_key("3.00", name="laptop", team="research")
        for number in range(10):
            body = question("chat", "house", max_tokens=10)
            assert replicas[number % 2].http(secret).post(CHAT, json=body).status_code == 200
        wait_until(lambda: len(hook.requests) == 2)
        replicas[0].spent(f"key:{key_id}")
        alerts = [json.loads(request.body) for request in hook.requests]
    assert sorted(alert["share"] for alert in alerts) == ["0.5", "0.9"]
    assert {alert["scope"] for alert in alerts} == {f"key:{key_id}"}
    assert {alert["budget"] for alert in alerts} == {"$3.00"}
    for alert in alerts:
        used = sum(Decimal(alert[name]["usd"]) for name in ("spent", "reserved", "left"))
        assert (used, alert["left"]["tokens"]) == (Decimal(3), None)
    assert secret not in json.dumps(alerts)


def test_no_answer_waits_for_the_webhook_and_it_is_asked_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_gateway.keys.alerts._PAUSES", (0.0, 0.0))
    release, longer = threading.Event(), 10 * PATIENCE  # than any answer is waited for

    def answer(request: ReceivedRequest) -> HttpReply:
        release.wait(longer)
        return json_reply({}, status=500)

    with FaultyServer(answer) as hook, ExitStack() as stack:
        stack.callback(release.set)
        running = start(whole_reply("chat"), alerts={"url": hook.url, "at": [0.01], "seconds": longer})
        secret = running.create_key("1000 tokens")[1]
        assert running.http(secret).post(CHAT, json=question("chat", "house", max_tokens=9)).status_code == 200
        wait_until(lambda: len(hook.requests) == 1)
        assert running.http(secret).post(CHAT, json=question("chat", "house", max_tokens=9)).status_code == 200
        release.set()
        wait_until(lambda: 'dragoman_dropped{kind="alert"} 1.0' in running.bare.get("/metrics").text)
        assert 'dragoman_dropped{kind="alert"} 1.0' in running.bare.get("/metrics").text
        assert len({json.loads(request.body)["id"] for request in hook.requests}) == 1
        assert len(hook.requests) == 3


@pytest.mark.parametrize(
    "alerts", [{"url": "ftp://x"}, {"url": "https://x", "at": []}, {"url": "https://x", "at": [1.2]}, {"at": [0.5]}]
)
def test_wrong_settings_are_refused(alerts: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=r"gateway\.alerts"):
        GatewaySettings.from_table({"alerts": alerts}, Path("dragoman.toml"))


def test_the_address_is_not_shown() -> None:
    settings = GatewaySettings.from_table({"alerts": {"url": "https://hooks.example/secret-part"}})
    assert "secret-part" not in repr(settings)
