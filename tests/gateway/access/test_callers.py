"""Who may ask what: keys on each route and in each header, models, endpoints, and the door itself."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from dragoman.errors import ConfigurationError
from dragoman_gateway.database import Database
from dragoman_gateway.keys.amounts import parse_budget
from dragoman_gateway.keys.key_store import KeyCache, KeyStore
from dragoman_gateway.keys.records import Allowance
from dragoman_gateway.running.services import requires_keys
from dragoman_gateway.server.command import check_address
from dragoman_gateway.settings import GatewaySettings
from tests.gateway.keyed import Keyed, Start
from tests.gateway.keys.clock import Clock
from tests.gateway.upstream import KEY, PATHS, gateway_before, question, whole_reply

HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
ROUTES = [
    *(("POST", path) for path in PATHS.values()),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/house"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("GET", "/v1/responses/resp_1/input_items"),
]


def ask(setup: Keyed, wire: str, headers: dict[str, str], model: str = "house", **more: Any) -> httpx.Response:
    return setup.bare.post(PATHS[wire], json=question(wire, model, **more), headers=headers)


def test_each_header_is_taken_on_each_wire(start: Start) -> None:
    """A key works in the header of every client, on every wire, and two different keys are a bad request."""
    setup = start(lambda _: whole_reply("chat"))
    for wire in PATHS:
        for header in HEADERS:
            value = f"Bearer {setup.secrets[0]}" if header == "authorization" else setup.secrets[0]
            assert ask(setup, wire, {header: value}).status_code == 200, (wire, header)
        two = {"x-api-key": setup.secrets[0], "authorization": f"Bearer {setup.secrets[1]}"}
        refused = ask(setup, wire, two)
        assert refused.status_code == 400
        assert not any(secret in refused.text for secret in setup.secrets)


def test_a_wrong_key_gets_one_answer_on_every_route(start: Start) -> None:
    """Missing, malformed, unknown and revoked keys get the same 401 on a route, in its wire's shape, and no model is
    asked."""
    setup = start(lambda _: whole_reply("chat"))
    key_id, revoked = setup.create_key()
    setup.keys.revoke(key_id)
    unknown = revoked[:-43] + "x" * 43
    for method, path in ROUTES:
        bodies = set()
        for secret in ("", "nonsense", unknown, revoked):
            headers = {"x-api-key": secret, "anthropic-version": "2023-06-01"} if secret else {}
            reply = setup.bare.request(method, path, headers={**headers, "content-type": "application/json"})
            assert reply.status_code == 401, (method, path, secret)
            bodies.add(reply.json()["error"]["message"])
        assert len(bodies) == 1, path
        assert "dragoman" not in bodies.pop().lower()
    assert setup.server.requests == []


def test_the_official_clients_raise_their_own_errors(start: Start) -> None:
    """A wrong key, a model and an endpoint that a key may not use become the SDKs' typed errors."""
    setup = start(lambda _: whole_reply("chat"))
    _, narrow = setup.create_key(models=("openai-chat:*", "claude-*"), endpoints=("chat",))
    message: Any = {"max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
    with pytest.raises(anthropic.AuthenticationError):
        setup.anthropic("wrong").messages.create(model="house", **message)
    with pytest.raises(openai.AuthenticationError):
        setup.sdk("wrong").responses.create(model="house", input="Hi")
    assert setup.sdk(narrow).chat.completions.create(model="house", messages=message["messages"]).choices
    with pytest.raises(openai.PermissionDeniedError, match="may not use the model") as denied:
        setup.sdk(narrow).chat.completions.create(model="anthropic:m", messages=message["messages"])
    assert denied.value.code == "insufficient_permissions"
    with pytest.raises(anthropic.PermissionDeniedError, match="may not use messages"):
        setup.anthropic(narrow).messages.create(model="house", **message)
    with pytest.raises(anthropic.PermissionDeniedError, match="may not use messages"):
        setup.anthropic(narrow).messages.count_tokens(model="house", messages=message["messages"])
    with pytest.raises(openai.PermissionDeniedError, match="may not use responses"):
        setup.sdk(narrow).responses.retrieve("resp_1")


def test_a_list_of_models_has_those_of_the_key(start: Start) -> None:
    """A key sees the models that it may use, and no others."""
    setup = start(lambda _: whole_reply("chat"), models={"claude-x": "anthropic:claude-x"})
    _, narrow = setup.create_key(models=("claude-*",))
    assert [model.id for model in setup.sdk(narrow).models.list()] == ["claude-x"]
    assert {model.id for model in setup.sdk().models.list()} >= {"claude-x", "house"}


def test_an_admin_key_calls_no_model(start: Start) -> None:
    """A key that may see what others spent is refused on every wire."""
    setup = start(lambda _: whole_reply("chat"))
    _, admin = setup.create_key(admin=True)
    for wire in PATHS:
        assert ask(setup, wire, {"x-api-key": admin}).status_code == 403
    assert setup.server.requests == []


def test_fields_of_a_body_never_change_where_a_request_goes(start: Start) -> None:
    """Fields that other gateways read from a body, such as addresses and keys, have no effect on the way."""
    setup = start(lambda _: whole_reply("chat"))
    mine = {
        "api_base": "http://127.0.0.1:9/v1",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key": "sk-mine",
        "metadata": {"api_base": "http://127.0.0.1:9", "user_api_key": "x"},
        "extra_headers": {"authorization": "Bearer sk-mine"},
    }
    for wire in PATHS:
        fields = mine if wire != "messages" else {**mine, "metadata": {"user_id": "u"}}
        reply = ask(setup, wire, {"x-api-key": setup.secrets[0]}, **fields)
        assert reply.status_code == 200, reply.text
        assert setup.server.requests[-1].headers["authorization"] == f"Bearer {KEY}"


def test_browsers_of_other_sites_get_no_permission(start: Start) -> None:
    """No route has a header of CORS, neither on a preflight nor on a reply."""
    setup = start(lambda _: whole_reply("chat"))
    origin = {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}
    for path in PATHS.values():
        preflight = setup.bare.options(path, headers=origin)
        reply = setup.bare.post(path, json={}, headers=origin)
        for each in (preflight, reply):
            assert not [name for name in each.headers if name.startswith("access-control")]
        assert preflight.status_code == 405


def test_a_gateway_without_keys_listens_to_this_computer_alone() -> None:
    """Without keys the server refuses any other address, whatever the file says; a setting demands keys at once."""
    for host in ("0.0.0.0", "::", "192.0.2.1", "gateway.example"):
        settings = GatewaySettings(host=host, database="sqlite://")
        with pytest.raises(ConfigurationError, match="without keys"):
            check_address(settings, has_keys=requires_keys(settings))
        closed = GatewaySettings.from_table({"host": host, "keys": {"required": True}})
        check_address(closed, has_keys=requires_keys(closed))
    check_address(GatewaySettings(), has_keys=False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which gateways tell the age of what they know of keys."""
    clock = Clock()
    monkeypatch.setattr("dragoman_gateway.running.services.KeyCache", partial(KeyCache, clock=clock.seconds))
    return clock


def seconds_while(asked: Callable[[], bool], clock: Clock) -> float:
    """Return for how long requests pass, up to nine seconds."""
    since = clock.seconds()
    while asked() and clock.seconds() < since + 9:
        clock.advance(0.5)
    return clock.seconds() - since


def test_the_first_key_closes_a_running_gateway(tmp_path: Path, clock: Clock) -> None:
    """Within five seconds, and without a reload; its page then needs an admin key."""
    url = f"sqlite:///{tmp_path / 'gateway.db'}"
    with gateway_before(whole_reply("chat"), models={"house": "openai-chat:m"}, database=url) as (address, _):
        opened = httpx.Client(base_url=address)
        asked = partial(opened.post, PATHS["chat"], json=question("chat", "house"))
        assert (asked().status_code, opened.get("/gateway/").status_code) == (200, 200)
        database = Database(url)
        _, secret = KeyStore(database).create(name="first", allowance=Allowance((parse_budget("1 tokens"),)))
        assert seconds_while(lambda: asked().status_code == 200, clock) < 5
        assert asked().status_code == 401
        assert asked(headers={"x-api-key": secret}).json()["error"]["code"] == "insufficient_quota"
        assert "password" in opened.get("/gateway/").text
        opened.close()
        database.close()


def test_a_key_that_is_revoked_stops_working_on_a_running_gateway(start: Start, clock: Clock) -> None:
    """Two replicas refuse a key within five seconds after it was revoked elsewhere."""
    replicas = [start(lambda _: whole_reply("chat")) for _ in range(2)]
    key_id, secret = replicas[0].create_key()
    for replica in replicas:
        assert ask(replica, "chat", {"x-api-key": secret}).status_code == 200
    replicas[0].keys.revoke(key_id)

    def passes_anywhere() -> bool:
        return 200 in [ask(replica, "chat", {"x-api-key": secret}).status_code for replica in replicas]

    assert seconds_while(passes_anywhere, clock) < 5
