"""Requests are stored behind their answers: what is new in each, many in one transaction, and none is waited for."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient, Message, Store
from dragoman.cli.cost.sources import Repricing, open_sources
from dragoman.errors import ConfigurationError, StoreError
from dragoman.testing.faults.server import RESET, HttpReply, ReceivedRequest, sse_reply
from dragoman_gateway import GatewaySettings
from dragoman_gateway.errors import UnavailableError
from dragoman_gateway.running.deferred_store import DeferredStore
from dragoman_gateway.running.generation import Gateway, Generation
from tests.gateway.app.test_bad_night import wait_until
from tests.gateway.keyed import Start
from tests.gateway.upstream import PATIENCE, gateway_before, question, stream_bytes, streamed_reply, whole_reply


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'chats.db'}") as opened:
        yield opened


CONVERSATION = [
    {"role": "user", "content": "Where is Bern?"},
    {"role": "assistant", "content": "In Switzerland."},
    {"role": "user", "content": "And Paris?"},
]


@pytest.mark.parametrize("wire", ["messages", "chat"])
def test_each_request_is_stored_with_what_is_new_in_it(store: Store, wire: str) -> None:
    with gateway_before(whole_reply("messages"), models={"house": "anthropic:m"}, client={"store": store}) as (url, _):
        path = "/v1/messages" if wire == "messages" else "/v1/chat/completions"
        httpx.post(url + path, json={**question(wire, "house"), "messages": CONVERSATION})
    (record,) = store.list().sessions
    stored = store.load(record.id)
    assert [message.text for message in stored.messages] == ["And Paris?", "In Switzerland."]
    assert stored.model == "anthropic:m"
    assert stored.messages[-1].usage is not None


def test_tool_results_are_stored_without_the_calls_that_the_client_has(store: Store) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain."}
    turns = [*CONVERSATION, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    with gateway_before(streamed_reply("chat"), models={"house": "openai-chat:m"}, client={"store": store}) as (url, _):
        body = {**question("messages", "house", stream=True), "messages": turns}
        assert httpx.post(f"{url}/v1/messages", json=body).status_code == 200
    (record,) = store.list().sessions
    assert [message.role for message in store.load(record.id).messages] == ["tool", "assistant"]


class FailingStore:
    """Fails as a database does that is away: some times, and while ``is_away``."""

    def __init__(self, store: Store, failures: int = 0) -> None:
        self.store = store
        self.is_away = False
        self._failures = iter(range(failures))

    def create_all(self, sessions: list[dict[str, Any]]) -> None:
        if self.is_away or next(self._failures, None) is not None:
            raise StoreError("the database is away") from ConnectionError()
        self.store.create_all(sessions)


def test_what_waits_is_written_when_the_database_is_back(store: Store) -> None:
    behind = DeferredStore(FailingStore(store, 3))  # type: ignore[arg-type]  # it has what is used
    for number in range(10):
        behind.create("a:m", [Message.user(f"question {number}")], session_id=f"s{number}")
    behind.close()
    assert behind.dropped == 0
    assert len(store.list().sessions) == 10


def test_an_end_that_comes_as_the_writer_goes_to_sleep_is_noticed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the gateway would wait for its writer for half a minute, and here for longer than the test."""
    monkeypatch.setattr("dragoman_gateway.running.deferred_store._END_SECONDS", 10 * PATIENCE)

    class Wake(threading.Event):
        def clear(self) -> None:
            """Let the gateway end between the writer's last look and its sleep."""
            ending.start()
            ending.join(0.1)
            super().clear()

    behind = DeferredStore(store)
    behind._wake = Wake()
    ending = threading.Thread(target=behind.close)
    behind.create("a:m", [Message.user("question")], session_id="s1")
    wait_until(lambda: ending.ident is not None)
    ending.join(PATIENCE)
    assert not ending.is_alive()
    assert len(store.list().sessions) == 1


def test_a_gateway_that_must_store_answers_nothing_without_its_store(store: Store) -> None:
    """From the first failure on, and until what waits is written; an open one answers."""
    failing = FailingStore(store)
    generations = {
        outage: Generation(GatewaySettings(store_outage=outage), AsyncClient()) for outage in ("open", "closed")
    }
    behind = DeferredStore(failing)  # type: ignore[arg-type]  # it has what is used
    for each in generations.values():
        each.deferred_store = behind
    closed = Gateway(generations["closed"])
    closed.enter()
    failing.is_away = True
    behind.create("a:m", [Message.user("Hi")], session_id="s1")
    wait_until(lambda: not behind.is_available)
    with pytest.raises(UnavailableError) as raised:
        closed.enter()
    assert raised.value.status == 503
    assert Gateway(generations["open"]).enter() is generations["open"]
    failing.is_away = False
    wait_until(lambda: behind.is_available)
    assert closed.enter() is generations["closed"]
    behind.close()
    assert len(store.list().sessions) == 1


class BlockedStore:
    """Waits until it is released."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self.stored = 0

    def create_all(self, sessions: list[dict[str, Any]]) -> None:
        self.begun.set()
        self.released.wait(PATIENCE)
        self.stored += len(sessions)


class CountingStore:
    """Notes how many requests each transaction has. The first one waits until it is released."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self.transactions: list[int] = []

    def create_all(self, sessions: list[dict[str, Any]]) -> None:
        self.begun.set()
        self.released.wait(PATIENCE)
        self.transactions.append(len(sessions))


def test_while_more_waits_the_writer_does_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog is written as fast as the database takes it, many requests in each transaction."""
    slept: list[float] = []
    counting = CountingStore()
    behind = DeferredStore(counting)  # type: ignore[arg-type]  # it has what is used
    monkeypatch.setattr("dragoman_gateway.running.deferred_store.time.sleep", slept.append)
    behind.create("a:m", [Message.user("first")])
    assert counting.begun.wait(PATIENCE)
    for number in range(1_200):
        behind.create("a:m", [Message.user(f"question {number}")])
    counting.released.set()
    behind.close()
    assert counting.transactions == [1, 500, 500, 200]
    assert slept == [0.2]  # when the first one arrived, and not between


def test_new_requests_wait_while_the_store_cannot_keep_up() -> None:
    """So the backlog is bounded by what is in flight, and what waits is some fraction of a second old."""
    blocked = BlockedStore()
    behind = DeferredStore(blocked)  # type: ignore[arg-type]  # it has what is used

    async def scenario() -> None:
        behind.create("a:m", [Message.user("first")])
        await behind.wait_for_room()
        await asyncio.to_thread(blocked.begun.wait, PATIENCE)
        await asyncio.sleep(0.3)
        assert behind.age > 0.25
        waiting = asyncio.create_task(behind.wait_for_room())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        blocked.released.set()
        await asyncio.wait_for(waiting, PATIENCE)
        assert (behind.backlog, behind.age) == (0, 0.0)

    asyncio.run(scenario())
    behind.close()


def test_nobody_waits_for_a_store_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen server would hold up each request: they go on, and what they said waits."""
    monkeypatch.setattr("dragoman_gateway.running.deferred_store._STUCK_SECONDS", 0.1)
    monkeypatch.setattr("dragoman_gateway.running.deferred_store._AGE_THAT_HOLDS", 0.01)
    blocked = BlockedStore()
    behind = DeferredStore(blocked)  # type: ignore[arg-type]  # it has what is used
    behind.create("a:m", [Message.user("first")])
    assert blocked.begun.wait(PATIENCE)
    asyncio.run(behind.wait_for_room())
    assert (behind.is_available, behind.backlog) == (False, 1)
    blocked.released.set()
    behind.close()
    assert (behind.is_available, behind.dropped) == (True, 0)


def test_requests_that_waited_too_long_for_the_store_are_told_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_gateway.running.deferred_store._LONGEST_HOLD", 0.1)
    monkeypatch.setattr("dragoman_gateway.running.deferred_store._AGE_THAT_HOLDS", 0.01)
    monkeypatch.setattr("dragoman_gateway.running.deferred_store._STUCK_SECONDS", PATIENCE)
    blocked = BlockedStore()
    behind = DeferredStore(blocked)  # type: ignore[arg-type]  # it has what is used
    behind.create("a:m", [Message.user("first")])
    assert blocked.begun.wait(PATIENCE)
    with pytest.raises(UnavailableError) as raised:
        asyncio.run(behind.wait_for_room())
    assert (raised.value.status, raised.value.retry_after) == (503, 2)
    blocked.released.set()
    behind.close()


def test_above_the_capacity_the_oldest_are_dropped_and_counted() -> None:
    blocked = BlockedStore()
    behind = DeferredStore(blocked, capacity=4)  # type: ignore[arg-type]  # it has what is used
    behind.create("a:m", [Message.user("first")])
    assert blocked.begun.wait(PATIENCE)
    for number in range(9):
        behind.create("a:m", [Message.user(f"question {number}")])
    blocked.released.set()
    behind.close()
    assert (blocked.stored, behind.dropped) == (5, 5)


def test_one_request_that_cannot_be_stored_holds_up_no_other(store: Store) -> None:
    taken = store.create("a:m", [Message.user("first")], session_id="s3")
    behind = DeferredStore(store)
    for number in range(6):
        behind.create("a:m", [Message.user(f"question {number}")], session_id=f"s{number}")
    behind.close()
    assert behind.dropped == 1
    assert {record.id for record in store.list().sessions} == {f"s{number}" for number in range(6)}
    assert store.load(taken.id).messages[0].text == "first"


def test_an_error_that_nobody_foresaw_costs_its_own_request_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the writer would end with it, and nothing would be stored from then on."""
    create_all = store.create_all

    def fail_for_one(sessions: list[dict[str, Any]]) -> None:
        if any(each["session_id"] == "s3" for each in sessions):
            raise RuntimeError("unforeseen") from ValueError("not of the database")
        create_all(sessions)

    monkeypatch.setattr(store, "create_all", fail_for_one)
    behind = DeferredStore(store)
    for number in range(6):
        behind.create("a:m", [Message.user(f"question {number}")], session_id=f"s{number}")
    behind.close()
    assert (behind.dropped, behind.backlog, behind.is_available) == (1, 0, True)
    assert len(store.list().sessions) == 5
    assert "fail_for_one" in caplog.text  # where it came from


def test_a_gateway_that_ends_does_not_storm_a_database_that_is_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_gateway.running.deferred_store._END_SECONDS", 1.0)
    tries: list[float] = []

    class AwayStore(FailingStore):
        def create_all(self, sessions: list[dict[str, Any]]) -> None:
            tries.append(time.monotonic())
            super().create_all(sessions)

    failing = AwayStore(store)
    failing.is_away = True
    behind = DeferredStore(failing)  # type: ignore[arg-type]  # it has what is used
    behind.create("a:m", [Message.user("question")])
    behind.close()
    assert behind.dropped == 1
    assert len(tries) < 10


class OrderedStore:
    """Refuses the request s1, and does not answer after s0 while ``is_away``."""

    def __init__(self) -> None:
        self.is_away = True
        self.stored: list[str] = []

    def create_all(self, sessions: list[dict[str, Any]]) -> None:
        names = [each["session_id"] for each in sessions]
        if "s1" in names:
            raise StoreError("the session cannot be stored")
        if self.is_away and names != ["s0"]:
            raise StoreError("the database is away") from ConnectionError()
        self.stored += names


def test_what_waits_again_keeps_its_order() -> None:
    """The age is that of the oldest, and the oldest is dropped if there are too many, whichever was tried last."""
    ordered = OrderedStore()
    behind = DeferredStore(ordered, capacity=8)  # type: ignore[arg-type]  # it has what is used
    for number in range(8):
        behind.create("a:m", [Message.user("question")], session_id=f"s{number}")
        if number == 2:  # the oldest that will wait again
            answered_at = time.monotonic()
            time.sleep(0.05)
    wait_until(lambda: not behind.is_available)
    assert (ordered.stored, behind.dropped, behind.backlog) == (["s0"], 1, 6)
    now = time.monotonic()
    assert behind.age >= now - answered_at
    for number in range(8, 11):
        behind.create("a:m", [Message.user("question")], session_id=f"s{number}")
    ordered.is_away = False
    behind.close()
    assert behind.dropped == 2
    assert {*ordered.stored} == {"s0", *(f"s{number}" for number in range(3, 11))}


class SlowCount(int):
    """Lets other threads in while it is added to."""

    def __add__(self, other: int) -> "SlowCount":
        time.sleep(0.005)
        return SlowCount(int(self) + other)


def test_no_dropped_request_is_missed_because_two_threads_count() -> None:
    blocked = BlockedStore()
    behind = DeferredStore(blocked, capacity=1)  # type: ignore[arg-type]  # it has what is used
    behind.create("a:m", [Message.user("first")])
    assert blocked.begun.wait(PATIENCE)
    behind.dropped = SlowCount(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: behind.create("a:m", [Message.user(f"question {number}")]), range(9)))
    blocked.released.set()
    behind.close()
    assert (blocked.stored, behind.dropped) == (2, 8)


def test_a_place_that_broke_off_and_the_one_that_answered_are_both_stored(store: Store) -> None:
    begun = stream_bytes("messages").split(b"\n\n")[0] + b"\n\n"

    def answer(request: ReceivedRequest) -> HttpReply:
        return sse_reply(begun, RESET) if b'"first"' in request.body else streamed_reply("messages")

    places = [{"model": "anthropic:first"}, {"model": "anthropic:second", "weight": 0}]
    with gateway_before(answer, models={"house": places}, client={"store": store}) as (url, _):
        reply = httpx.post(f"{url}/v1/messages", json=question("messages", "house", stream=True))
        assert b"message_stop" in reply.content
        page = httpx.get(f"{url}/metrics").text
    records = {record.model: store.load(record.id) for record in store.list().sessions}
    assert [message.text for message in records["anthropic:second"].messages] == ["Where is Bern?", "In Switzerland."]
    assert len(records["anthropic:first"].attempts) == 1
    assert 'dragoman_dropped{kind="request"} 0.0' in page


def test_the_cost_of_a_store_by_key_and_tag(start: Start, store: Store, tmp_path: Path) -> None:
    running = start(whole_reply("chat"), client={"store": store})
    key = running.keys.find("one").id
    for number, tag in enumerate(("night", "", "night", "x " * 90 + "x")):
        headers = {"x-dragoman-tag": tag} if tag else {}
        reply = running.http(number // 3).post("/v1/chat/completions", json=question("chat", "house"), headers=headers)
        assert reply.status_code == 200
    wait_until(lambda: len(store.list().sessions) == 4)
    (source,) = open_sources([str(tmp_path / "chats.db")])
    lines = {line.key: line.replies for line in source.lines(["key", "tag"], Repricing())}
    other = running.keys.find("two").id
    assert lines == {(key, None): 1, (key, "night"): 2, (other, ("x " * 90)[:100]): 1}
    priced = source.lines(["tag"], Repricing(at=datetime.now(UTC)))
    assert {line.key[0]: line.replies for line in priced}["night"] == 2


def test_the_cost_of_a_store_by_team_user_and_model(start: Start, store: Store, tmp_path: Path) -> None:
    """Those of the key, and the model that the provider names: what the client says of itself chooses none."""
    running = start(whole_reply("chat"), client={"store": store})
    _, secret = running.create_key(name="three", user="ann", team="research")
    for key in (secret, secret, 0):
        body = question("chat", "house", user="bob")
        assert running.http(key).post("/v1/chat/completions", json=body).status_code == 200
    wait_until(lambda: len(store.list().sessions) == 3)
    (source,) = open_sources([str(tmp_path / "chats.db")])
    lines = {line.key: line.replies for line in source.lines(["team", "user", "model"], Repricing())}
    model = "openai-chat:gpt-5.2"
    assert lines == {("research", "ann", model): 2, (None, None, model): 1}


@pytest.mark.parametrize("group", ["key", "tag"])
def test_other_sources_have_no_keys_and_tags(tmp_path: Path, group: str) -> None:
    (tmp_path / "chats.jsonl").write_text(Message.assistant("No.").model_dump_json() + "\n", encoding="utf-8")
    (source,) = open_sources([str(tmp_path / "chats.jsonl")])
    with pytest.raises(ConfigurationError, match=f"only a store knows what to group by {group}"):
        list(source.lines([group], Repricing()))
