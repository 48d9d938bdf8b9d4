"""What keys may spend, through the whole gateway: with the SDKs, streamed and whole, on two replicas."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from sqlalchemy import select

from dragoman.testing.faults.server import RESET, HttpReply, Pause, ReceivedRequest, json_reply, sse_reply
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.database.tables import spend
from dragoman_gateway.keys.amounts import parse_budget
from dragoman_gateway.keys.ledger_entries import Amount
from dragoman_gateway.keys.records import Allowance
from tests.gateway.keyed import Keyed, Start, keyed
from tests.gateway.upstream import PATHS, PATIENCE, question, stream_bytes, streamed_reply, whole_reply

CENT = Decimal("0.01")

USED = {
    ("messages", False): 29,
    ("messages", True): 520,
    ("chat", False): 29,
    ("chat", True): 29,
    ("responses", False): 29,
    ("responses", True): 29,
}
"""The tokens of one reply of the server, by its wire and whether it streams."""


def answer(wire: str) -> Any:
    """Return a script that answers whole or streamed, as the request asks. A reply uses 29 tokens."""

    def reply(request: ReceivedRequest) -> HttpReply:
        return streamed_reply(wire) if json.loads(request.body).get("stream") else whole_reply(wire)

    return reply


def ask(setup: Keyed, wire: str, secret: str, **more: Any) -> httpx.Response:
    limit = "max_output_tokens" if wire == "responses" else "max_tokens"
    body = question(wire, more.pop("model", "house"), **{limit: 10, **more})
    headers = {"x-api-key": secret, **more.pop("headers", {})}
    return setup.bare.post(PATHS[wire], json=body, headers=headers)


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("behind", PATHS)
@pytest.mark.parametrize("streamed", [False, True])
def test_every_route_counts_and_refuses_a_spent_budget(start: Start, wire: str, behind: str, streamed: bool) -> None:
    """A reply is booked to the key, its user and its team, on each pair of wires, whole and streamed; a spent budget
    then refuses the request before it reaches a provider."""
    setup = start(answer(behind), behind)
    key_id, secret = setup.create_key("0.30", user="ann", team="research")
    assert ask(setup, wire, secret, stream=streamed).status_code == 200
    spent = setup.spent(f"key:{key_id}")
    tokens = USED[behind, streamed]
    assert spent == Amount(CENT * tokens, tokens)
    assert spent == setup.spent("user:ann") == setup.spent("team:research")
    refused = [ask(setup, each, secret, stream=streamed) for each in PATHS]
    assert [reply.status_code for reply in refused] == [402, 429, 429]
    assert {reply.headers["x-should-retry"] for reply in refused} == {"false"}
    assert len(setup.server.requests) == 1


def test_a_spent_budget_is_not_asked_again_by_the_sdks(start: Start) -> None:
    """With retries on, the official SDKs send one request to a key without budget, and their error says which budget
    it is, what is spent, and when it begins again."""
    setup = start(answer("chat"))
    _, secret = setup.create_key("0.01/month")
    hello: Any = [{"role": "user", "content": "Hi"}]
    with pytest.raises(openai.RateLimitError, match=r"\$0.01/month.*begins again") as raised:
        setup.sdk(secret, max_retries=3).chat.completions.create(model="house", messages=hello)
    assert raised.value.code == "insufficient_quota"
    with pytest.raises(openai.RateLimitError):
        setup.sdk(secret, max_retries=3).responses.create(model="house", input="Hi")
    with pytest.raises(anthropic.APIStatusError, match="budget of this key") as refused:
        setup.anthropic(secret, max_retries=3).messages.create(model="house", messages=hello, max_tokens=10)
    assert refused.value.status_code == 402
    counts = setup.http().get("/metrics").text.splitlines()
    refusals = [line for line in counts if line.startswith("dragoman_requests_total")]
    assert sum(float(line.rpartition(" ")[2]) for line in refusals) == 3
    assert setup.server.requests == []


def test_parallel_requests_on_two_replicas_keep_a_budget(start: Start) -> None:
    """Of twelve parallel requests over two replicas, a budget admits as many as it can pay."""
    slow = whole_reply("chat")
    replicas = [start(lambda _: HttpReply(before=Pause(0.3), headers=slow.headers, body=slow.body)) for _ in range(2)]
    _, secret = replicas[0].create_key("60 tokens")  # each may use some 10 of input and 10 of output
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda i: ask(replicas[i % 2], "chat", secret).status_code, range(12)))
    assert set(replies) == {200, 429}
    assert 2 <= replies.count(200) <= 4
    assert sum(len(replica.server.requests) for replica in replicas) == replies.count(200)


def test_a_label_of_a_client_chooses_no_budget(start: Start) -> None:
    """The field user, the header x-dragoman-user and metadata name a user, and escape neither the key's budget nor its
    user's."""
    setup = start(answer("chat"))
    setup.keys.set_allowance("user:ann", Allowance((parse_budget("0.01"),)))
    _, secret = setup.create_key(user="ann")
    ways: list[dict[str, Any]] = [{}, {"user": "bob"}, {"headers": {"x-dragoman-user": "bob"}}]
    for way in ways:
        assert ask(setup, "chat", secret, **way).status_code == 429
    assert ask(setup, "messages", secret, metadata={"user_id": "bob"}).status_code == 402


def test_the_same_request_id_twice_is_charged_twice(start: Start) -> None:
    """A request id that a client chooses neither joins two requests nor hides one."""
    setup = start(answer("chat"))
    key_id, secret = setup.create_key("1000000")
    for _ in range(2):
        headers = {"x-request-id": "same", "idempotency-key": "same", "x-api-key": secret}
        reply = setup.bare.post(PATHS["chat"], json=question("chat", "house"), headers=headers)
        assert reply.status_code == 200
    once = ask(start(answer("chat")), "chat", setup.create_key("1000000", name="other")[1])
    assert once.status_code == 200
    assert setup.spent(f"key:{key_id}").tokens == 2 * setup.spent(f"key:{setup.keys.find('other').id}").tokens


def test_a_model_without_a_price_is_refused_under_a_budget(start: Start) -> None:
    """An unpriced model under a budget in dollars is refused, and without one it is asked."""
    setup = start(answer("chat"))
    _, limited = setup.create_key("5")
    refused = ask(setup, "chat", limited, model="free")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert ask(setup, "chat", setup.secrets[0], model="free").status_code == 200


@pytest.mark.parametrize("wire", ["chat", "responses"])
@pytest.mark.parametrize("behind", PATHS)
def test_a_request_without_a_maximum_fits_under_a_small_budget(start: Start, wire: str, behind: str) -> None:
    """A stated default is reserved, on the own wire and on another, and nothing in the request changes."""
    setup = start(answer(behind), behind)
    body = question(wire, "house")
    assert not any("max" in name for name in body)
    asked = []
    for allowance in ((), ("50",)):  # 4,096 tokens of output are $40.96; the model can write more than 100,000
        _, secret = setup.create_key(*allowance)
        assert setup.bare.post(PATHS[wire], json=body, headers={"x-api-key": secret}).status_code == 200
        asked.append(json.loads(setup.server.requests[-1].body))
    assert asked[0] == asked[1]
    _, small = setup.create_key("30")
    assert setup.bare.post(PATHS[wire], json=body, headers={"x-api-key": small}).status_code in (402, 429)


@pytest.mark.parametrize("wire", PATHS)
def test_a_budget_that_is_only_reserved_is_429_and_a_spent_one_is_final(start: Start, wire: str) -> None:
    """Of twenty requests at once, some find no room. They come back after `retry-after`, and all are answered."""
    setup = start(answer(wire), wire)
    key_id, secret = setup.create_key("12")  # a reply costs 29 cents, and reserves some dollars

    def until_answered(_: int) -> list[int]:
        statuses = []
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            reply = ask(setup, wire, secret, **{"max_output_tokens" if wire == "responses" else "max_tokens": 300})
            statuses.append(reply.status_code)
            if reply.status_code == 200:
                break
            assert "x-should-retry" not in reply.headers, reply.text
            assert reply.headers["retry-after"] == "1"
            assert "insufficient_quota" not in reply.text
            time.sleep(0.05)
        return statuses

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(until_answered, range(20)))
    assert [each[-1] for each in statuses] == [200] * 20
    assert {status for each in statuses for status in each[:-1]} == {429}
    assert setup.spent(f"key:{key_id}").tokens == 20 * USED[wire, False]


def read_stream(setup: Keyed, wire: str, secret: str, received: list[bytes], **more: Any) -> None:
    body = question(wire, "house", stream=True, **more)
    with setup.bare.stream("POST", PATHS[wire], json=body, headers={"x-api-key": secret}) as reply:
        received.extend(reply.iter_raw())


@pytest.mark.parametrize("wire", PATHS)
def test_a_budget_that_ends_in_a_stream_ends_it_with_the_wire_s_error(start: Start, wire: str) -> None:
    """A stream that outgrows what was reserved ends in the error of the client's wire, and is charged what was sent:
    the next one finds no money."""
    long = sse_reply(stream_bytes("messages", *(f"word number {number} " for number in range(200))))
    setup = start(lambda _: long, "messages", keys={"reserve_output": 20})
    key_id, secret = setup.create_key("0.60")
    limit = "max_output_tokens" if wire == "responses" else "max_tokens"
    received: list[bytes] = []
    with pytest.raises(httpx.RemoteProtocolError):
        read_stream(setup, wire, secret, received, **{limit: 4_000})
    text = b"".join(received)
    assert b"word number 3" in text
    assert b"word number 199" not in text
    assert b"budget of this key" in text
    errors = {"messages": b"event: error", "chat": b'data: {"error"', "responses": b"event: response.failed"}
    assert errors[wire] in text
    delivered = sum(len(f"word number {number} ") for number in range(200) if b"word number %d " % number in text)
    assert setup.spent(f"key:{key_id}").tokens >= delivered // 4
    assert ask(setup, wire, secret, stream=True).status_code in (402, 429)


@pytest.mark.parametrize("wire", PATHS)
def test_a_stream_that_breaks_is_charged_what_the_provider_reported(start: Start, wire: str) -> None:
    """A cut stream costs the tokens that its start reported, and one that never began costs nothing."""
    frames = stream_bytes("messages", *"abcdefgh").split(b"\n\n")
    replies: Iterator[HttpReply] = iter([sse_reply(b"\n\n".join(frames[:6]) + b"\n\n", RESET), HttpReply(before=RESET)])
    setup = start(lambda _: next(replies), "messages")
    key_id, secret = setup.create_key("100")
    with pytest.raises(httpx.RemoteProtocolError):
        ask(setup, wire, secret, stream=True)
    assert ask(setup, wire, secret, stream=True).status_code >= 500
    assert setup.spent(f"key:{key_id}").tokens == 29  # and not the 500 of output that the end would have reported


def test_a_limit_says_when_to_come_back(start: Start) -> None:
    """A key above its limit gets 429 with retry-after, and its provider is not asked."""
    setup = start(answer("chat"), keys={"max_wait": 0})
    _, secret = setup.create_key(limits=("1/hour",))
    for wire in PATHS:
        replies = [ask(setup, wire, secret) for _ in range(2)]
        assert replies[-1].status_code == 429
        assert 3_500 < int(replies[-1].headers["retry-after"]) <= 3_600
    assert len(setup.server.requests) == 1


def test_a_frozen_redis_holds_up_no_request(start: Start) -> None:
    """A Redis that accepts connections and never answers lets requests pass soon, counted as not limited; a limit that
    is declared closed refuses with 503."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # the system accepts them
        setup = start(answer("chat"), keys={"counters": f"redis://127.0.0.1:{frozen.getsockname()[1]}/0"})
        _, opened = setup.create_key(limits=("1/hour",))
        _, closed = setup.create_key(limits=("100/hour closed",))
        replies = [ask(setup, "chat", opened) for _ in range(4)]
        refused = ask(setup, "chat", closed)
    assert [reply.status_code for reply in replies] == [200] * 4
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


def test_what_was_spent_is_stored_before_the_gateway_ends(tmp_path: Path) -> None:
    """Spend that waits to be written is written when the gateway stops."""
    with keyed(tmp_path) as begin:
        setup = begin(answer("chat"))
        key_id, secret = setup.create_key()
        assert ask(setup, "chat", secret).status_code == 200
    database = Database(f"sqlite:///{tmp_path / 'gateway.db'}")
    rows = database.run(lambda connection: connection.execute(select(spend.c.scope, spend.c.tokens)).all())
    database.close()
    assert [row.scope for row in rows] == [f"key:{key_id}"]


def test_spend_is_shown_as_refusals_count_it(start: Start) -> None:
    """A key sees its own spend and that of its user and team, an admin key sees all, and the number of a refusal is
    the number that is shown."""
    setup = start(answer("chat"))
    key_id, secret = setup.create_key("0.30/month", user="ann")
    _, admin = setup.create_key(admin=True)
    assert ask(setup, "chat", secret).status_code == 200
    shown = {each["scope"]: each for each in setup.http(secret).get("/gateway/spend").json()["data"]}
    assert set(shown) == {f"key:{key_id}", "user:ann"}
    (budget,) = shown[f"key:{key_id}"]["budgets"]
    assert (budget["budget"], budget["spent"]) == ("$0.30/month", {"usd": "0.29", "tokens": 29})
    assert budget["left"] == {"usd": "0.01", "tokens": None}
    assert "$0.2900 are spent" in ask(setup, "chat", secret).json()["error"]["message"]
    everyone = {each["scope"] for each in setup.http(admin).get("/gateway/spend").json()["data"]}
    assert f"key:{key_id}" in everyone
    assert len(everyone) >= 4
    assert setup.http("wrong").get("/gateway/spend").status_code == 401


def test_without_the_database_requests_pass_and_responses_wait(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database does not answer, known keys work, responses wait to be stored, budgets refuse with 503, and
    ids and histories are refused as not checkable."""

    async def gone(*_: Any) -> Any:
        raise DatabaseUnavailableError("gone")

    setup = start(answer("chat"))
    _, limited = setup.create_key("1000000")
    made = setup.sdk().responses.create(model="house", input="Hi")
    assert ask(setup, "chat", limited).status_code == 200
    monkeypatch.setattr(Database, "read", gone)
    monkeypatch.setattr(Database, "write", gone)
    assert ask(setup, "chat", setup.secrets[0]).status_code == 200
    late = ask(setup, "responses", setup.secrets[0])
    refused = [
        ask(setup, "chat", limited),
        ask(setup, "responses", setup.secrets[0], previous_response_id=made.id),
        ask(setup, "responses", setup.secrets[0], background=True),
        ask(setup, "responses", setup.secrets[0], conversation="conv_1"),
        setup.http().get(f"/v1/responses/{made.id}"),
        setup.http().get("/gateway/spend"),
    ]
    assert [reply.status_code for reply in refused] == [503] * len(refused)
    assert {reply.headers["retry-after"] for reply in refused} == {"5"}
    monkeypatch.undo()
    end = time.monotonic() + PATIENCE
    while (
        read := setup.http().get(f"/v1/responses/{late.json()['id']}")
    ).status_code == 404 and time.monotonic() < end:
        time.sleep(0.1)
    assert read.json()["output"] == late.json()["output"]
    assert 'dragoman_dropped{kind="response"} 0.0' in setup.http().get("/metrics").text


def test_a_gateway_that_stores_nothing_says_so(start: Start) -> None:
    """With storing turned off, a response says that it is not stored, and cannot be read or continued."""
    setup = start(answer("chat"), responses={"keep": False})
    made = setup.sdk().responses.create(model="house", input="Hi")
    assert setup.http().get(f"/v1/responses/{made.id}").status_code == 404
    assert ask(setup, "responses", setup.secrets[0], previous_response_id=made.id).status_code == 400
    assert ask(setup, "responses", setup.secrets[0], background=True).status_code == 400


def unread(wire: str, secret: str, setup: Keyed, **more: Any) -> httpx.Response:
    """Ask with content that only a provider of tomorrow knows."""
    kind = "input_text" if wire == "responses" else "text"
    content = [{"role": "user", "content": [{"type": kind, "text": 7}]}]
    return ask(setup, wire, secret, **{"input" if wire == "responses" else "messages": content}, **more)


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_goes_through_unread_unless_an_estimate_needs_it(start: Start, wire: str, streamed: bool) -> None:
    """A key without budgets and limits leaves its request to the provider, and is booked what the reply used; a budget
    and a limit of tokens read it."""
    setup = start(answer(wire), wire)
    key_id, free = setup.create_key(name="free")
    assert unread(wire, free, setup, stream=streamed, store=False).status_code == 200
    tokens = USED[wire, streamed]
    assert setup.spent(f"key:{key_id}") == Amount(CENT * tokens, tokens)
    for secret in (setup.create_key("5")[1], setup.create_key(limits=("1000 tokens/minute",))[1]):
        assert unread(wire, secret, setup, stream=streamed, store=False).status_code == 400
    assert len(setup.server.requests) == 1


def test_the_counts_of_a_stream_are_asked_for_and_hidden(start: Start) -> None:
    """A stream of Chat Completions is booked exactly, and its client gets what it asked for."""
    setup = start(answer("chat"))
    key_id, secret = setup.create_key("5")
    for asked, shown in (({}, False), ({"stream_options": {"include_usage": True}}, True)):
        reply = ask(setup, "chat", secret, stream=True, **asked)
        assert reply.text.endswith("data: [DONE]\n\n")
        assert ('"usage":{"' in reply.text.replace(" ", "")) is shown
        assert json.loads(setup.sent())["stream_options"] == {"include_usage": True}
    assert setup.spent(f"key:{key_id}").tokens == 2 * USED["chat", True]


@pytest.mark.parametrize("wire", PATHS)
def test_a_reply_without_counts_costs_its_estimated_input(start: Start, wire: str) -> None:
    whole = {name: value for name, value in json.loads(whole_reply(wire).body or b"").items() if name != "usage"}
    setup = start(lambda _: json_reply(whole), wire)
    spent = []
    for budgets in (("5",), ()):
        key_id, secret = setup.create_key(*budgets, name=f"{len(budgets)}")
        assert ask(setup, wire, secret, store=False).status_code == 200
        spent.append(setup.spent(f"key:{key_id}").tokens)
    assert spent[0] == spent[1] > 0
