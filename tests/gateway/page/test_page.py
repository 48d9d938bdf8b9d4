"""Who sees the page, what it shows, and that nothing that others wrote becomes part of it."""

import base64
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from dragoman import Message, Store
from dragoman.messages import CostStatus, MessageMetadata, Usage
from dragoman.testing.faults.server import HttpReply, ReceivedRequest, json_reply
from dragoman_gateway.endpoints.dashboard.render import content_security_policy, render_report, render_sign_in
from dragoman_gateway.endpoints.dashboard.report import Spend, read_store
from dragoman_gateway.endpoints.dashboard.routes import COOKIE
from tests.gateway.app.test_deferred_store import wait_until
from tests.gateway.keyed import Start
from tests.gateway.page.sample import sample_report
from tests.gateway.upstream import PATIENCE, WIRES, gateway_before, question, whole_reply

HOSTILE = "</td></style><script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='x\x1b[31m"
PATHS = ("/gateway/", "/gateway/conversations/ses_1")


class Tags(HTMLParser):
    """The tags of a page, the names of their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self._texts: list[str] = []
        self._tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        if self._tag != "style":
            self._texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())


def test_hostile_names_are_text() -> None:
    plain, hostile = (
        Tags(render_report(sample_report(), signed_in=True)),
        render_report(sample_report(HOSTILE), signed_in=True),
    )
    found = Tags(hostile)
    assert found.tags == plain.tags
    assert found.attributes == plain.attributes
    assert found.text.count("<script>alert(1)</script>") > 20
    assert "\x1b" not in hostile
    refused = Tags(render_sign_in(refused=HOSTILE))
    assert not {"script", "img"} & refused.tags


def test_the_figures_are_shown_and_what_is_unknown_is_not_a_number() -> None:
    text = Tags(render_report(sample_report(), signed_in=False)).text
    assert "anthropic:claude-sonnet-5-5 15 1 " in text
    assert "laptop key_3fq0c2" in text
    assert "anthropic claude-sonnet-5-5 OverloadedError 1 " in text
    assert "2026-11-20 80 90,000 $7.00" in text
    assert "at least $3.00" in text
    assert "Sign out" not in text


def test_the_policy_allows_the_style_of_the_page_alone() -> None:
    policy = content_security_policy()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    page = Tags(render_report(sample_report(), signed_in=True))
    assert "style" not in page.attributes
    assert "script" not in page.tags


@pytest.mark.parametrize("path", PATHS)
def test_without_an_admin_key_there_is_nothing_but_a_form(start: Start, path: str) -> None:
    running = start(whole_reply("chat"))
    basics = [{"authorization": value} for value in ("Basic !!", b"Basic \xe9")]
    for headers in ({}, {"x-api-key": "drg_wrong"}, *basics, {"cookie": f"{COOKIE}=x"}):
        refused = running.bare.get(path, headers=headers)
        assert refused.status_code == 401
        assert 'type="password"' in refused.text
        assert "frame-ancestors 'none'" in refused.headers["content-security-policy"]
    plain = running.http(0).get(path)
    assert plain.status_code == 403
    assert "<table" not in plain.text
    both = running.bare.get(path, headers={"authorization": "Bearer drg_one", "x-api-key": "drg_other"})
    assert both.status_code == 400
    assert "The request has two different API keys" in both.text  # and not that one of them is wrong


def test_an_admin_sees_the_spend_of_others(start: Start) -> None:
    running = start(whole_reply("chat"))
    admin = running.create_key(name="boss", admin=True)[1]
    assert running.http(0).post("/v1/chat/completions", json=question("chat", "house")).status_code == 200
    assert running.http(0).post("/v1/chat/completions", json=question("chat", "unknown")).status_code == 404
    token = base64.b64encode(f"anyone:{admin}".encode()).decode()
    page = running.bare.get("/gateway/", headers={"authorization": f"Basic {token}"})
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["content-security-policy"] == content_security_policy()
    text = Tags(page.text).text
    assert "answered 2 errors 1" in text
    assert "openai-chat:m 1 0" in text
    assert "no model 1 1" in text
    assert "one key_" in text
    assert admin not in page.text
    assert running.bare.get("/gateway/?days=hostile&after=hostile").status_code == 401
    led = running.bare.get("/", headers={"accept": "text/html,*/*;q=0.8"})
    assert (led.status_code, led.headers["location"]) == (307, "/gateway/")
    assert running.bare.get("/").status_code == 200


def test_budgets_show_what_is_estimated_reserved_and_left_of_all_replicas(start: Start) -> None:
    """A reply of another model, whose price is unknown, is booked as an estimate at one replica; the other one answers
    a request that has reserved."""
    release = threading.Event()

    def waits(request: ReceivedRequest) -> HttpReply:
        release.wait(PATIENCE)
        return whole_reply("chat")

    unknown = json_reply({**WIRES["chat"].text_reply("Yes."), "model": "free"})
    first, second = start(unknown), start(waits)
    key_id, secret = first.create_key("3.00", name="laptop")
    _, admin = first.create_key(name="boss", admin=True)
    body = question("chat", "house", max_tokens=10)
    assert first.http(secret).post("/v1/chat/completions", json=body).status_code == 200
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(second.http(secret).post, "/v1/chat/completions", json=body, timeout=PATIENCE)
        wait_until(lambda: bool(second.server.requests))
        page = first.http(admin).get("/gateway/").text
        scopes = {each["scope"]: each for each in first.http(secret).get("/gateway/spend").json()["data"]}
        release.set()
        assert running.result().status_code == 200
    scope = scopes[f"key:{key_id}"]
    assert scope["spent"] == {"usd": "0.29", "tokens": 29, "estimated_usd": "0.29"}
    (budget,) = scope["budgets"]
    reserved, left = Decimal(scope["reserved"]["usd"]), Decimal(budget["left"]["usd"])
    assert reserved > 0
    assert left == Decimal("2.71") - reserved
    shown = " ".join(f"${amount:.2f}" for amount in (Decimal("0.29"), Decimal("0.29"), reserved, left))
    assert f"key laptop {key_id} $3.00 {shown}" in Tags(page).text


def test_the_form_sets_a_cookie_that_scripts_and_other_sites_cannot_use(start: Start) -> None:
    running = start(whole_reply("chat"))
    admin = running.create_key(admin=True)[1]
    for key, status in ((running.secrets[0], 403), ("wrong", 401), ("x" * 5000, 413)):
        refused = running.bare.post("/gateway/sign-in", data={"key": key})
        assert refused.status_code == status
        assert "set-cookie" not in refused.headers
    other = running.bare.post("/gateway/sign-in", data={"key": "wrong"}, headers={"x-api-key": admin})
    assert other.status_code == 401  # the cookie would keep the key of the form, and not the one that was checked
    signed_in = running.bare.post("/gateway/sign-in", data={"key": admin})
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/gateway/")
    assert re.search(r"HttpOnly.*Path=/gateway.*SameSite=strict", signed_in.headers["set-cookie"])
    assert running.bare.get("/gateway/").status_code == 200
    assert running.bare.post("/gateway/sign-out").status_code == 303
    assert running.bare.get("/gateway/").status_code == 401


def test_without_keys_the_page_is_for_this_computer_alone(opened: ExitStack) -> None:
    url, _ = opened.enter_context(gateway_before(whole_reply("chat"), models={}))
    assert httpx.get(f"{url}/gateway/").status_code == 200
    for headers in ({"host": "evil.example"}, {"x-forwarded-for": "192.0.2.7"}, {"forwarded": "for=192.0.2.7"}):
        assert httpx.get(f"{url}/gateway/", headers=headers).status_code == 403


def test_a_stored_conversation_is_a_page(opened: ExitStack, tmp_path: Path) -> None:
    store = opened.enter_context(Store(f"sqlite:///{tmp_path / 'chats.db'}"))
    talk = [Message.user(f"Where is Bern? {HOSTILE[:-5]}"), Message.assistant("In Switzerland.")]
    store.create("a:m", talk, session_id="ses_1", title="<b>Bern</b>")
    client = {"store": store}
    url, _ = opened.enter_context(gateway_before(whole_reply("chat"), models={}, client=client))
    overview = httpx.get(f"{url}/gateway/").text
    assert '<a href="/gateway/conversations/ses_1">' in overview
    assert "&lt;b&gt;Bern&lt;/b&gt;" in overview
    page = httpx.get(f"{url}/gateway/conversations/ses_1")
    assert page.status_code == 200
    assert "In Switzerland." in page.text
    assert "<script>alert(1)" not in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert httpx.get(f"{url}/gateway/conversations/none").status_code == 404
    assert httpx.get(f"{url}/gateway/?after=hostile").status_code == 503


def test_a_store_with_more_replies_than_a_page_reads_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_gateway.endpoints.dashboard.report.MAX_REPLIES", 2)
    usage = Usage(input_tokens=10, output_tokens=1, cost_usd=Decimal("0.5"), cost_status=CostStatus.PRICED)
    reply = Message.assistant("No.", metadata=MessageMetadata(provider="a", model="a:m", usage=usage))
    with Store(f"sqlite:///{tmp_path / 'chats.db'}") as store:
        for number in range(3):
            store.create("a:m", [reply.model_copy(update={"id": f"msg_{number}"})])
            stored = read_store(store, datetime(2020, 1, 1, tzinfo=UTC), None)
            assert stored.complete == (number < 2)
    assert stored.by_model == {"a:m": Spend(Decimal(1), 22, 2)}
    text = render_report(replace(sample_report(), stored=stored), signed_in=False)
    assert "the figures are lower bounds" in text
