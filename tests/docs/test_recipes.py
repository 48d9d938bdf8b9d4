"""The programs of docs/recipes.md run, each as its framework runs it, with hand-written replies.

Django and Celery are not installed with the development tools:
install them, and this file runs these, too.
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dragoman import Store
from dragoman.canonical.message import MessageStatus
from dragoman.testing import block_network
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply, sse_reply

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r'^```python title="([\w.]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))
WORDS = ("It ", "rains", ".")
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "stop_sequence": None,
    "content": [{"type": "text", "text": "It rains."}], "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 3},
}  # fmt: skip


def events(words: tuple[str, ...]) -> list[dict[str, Any]]:
    pieces = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": each}} for each in words
    ]
    return [
        {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *pieces,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]


def reply(request: ReceivedRequest) -> HttpReply:
    if b'"stream":true' not in request.body:
        return json_reply(MESSAGE)
    return sse_reply(b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events(WORDS)))


@pytest.fixture(autouse=True)
def store_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A provider on loopback, and the URL of a store."""
    url = f"sqlite:///{tmp_path / 'chats.db'}"
    with FaultyServer(reply) as server:
        for name, value in {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "none",
            "MODEL": "anthropic:claude-haiku-4-5",
            "STORE": url,
        }.items():
            monkeypatch.setenv(name, value)
        yield url


def load(name: str) -> ModuleType:
    """The program as a module."""
    module = ModuleType(Path(name).stem)
    sys.modules[module.__name__] = module
    exec(compile(PROGRAMS[name], name, "exec"), module.__dict__)
    return module


def stored(url: str, session_id: str) -> list[str]:
    with Store(url) as store:
        return [message.text for message in store.load(session_id).messages]


def test_every_program_is_run_here() -> None:
    """A program without a test is not known to run."""
    here = Path(__file__).read_text(encoding="utf-8")
    assert PROGRAMS
    assert [name for name in PROGRAMS if f'"{name}"' not in here] == []


Send = Callable[[dict[str, Any]], Any]


async def request_asgi(app: Any, path: str, body: object, *, leave_after: int | None = None) -> tuple[int, bytes]:
    """Send one POST as a server does. ``leave_after``: the browser goes away after so many pieces."""
    sent = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    gone = asyncio.Event()
    status, pieces = 0, []

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(event: dict[str, Any]) -> None:
        nonlocal status
        status = event.get("status", status)
        if event.get("body"):
            pieces.append(event["body"])
        if leave_after is not None and len(pieces) >= leave_after:
            gone.set()
            await asyncio.sleep(0.01)  # the server sees it before it sends more

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": path,
        "raw_path": path.encode(), "query_string": b"", "headers": [(b"content-type", b"application/json")],
        "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    return status, b"".join(pieces)


async def use_chats(app: Any, url: str) -> None:
    async with app.router.lifespan_context(app):
        status, body = await request_asgi(app, "/chats", None)
        session_id = json.loads(body)["id"]
        assert status == 200
        status, body = await request_asgi(app, f"/chats/{session_id}", {"prompt": "Is it raining?"})
        lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
        assert (status, lines[-1]) == (200, "[DONE]")
        assert "".join(json.loads(line)["text"] for line in lines[:-1]) == "It rains."
        assert stored(url, session_id)[-2:] == ["Is it raining?", "It rains."]
        _, body = await request_asgi(app, f"/chats/{session_id}", {"prompt": "And now?"}, leave_after=1)
        assert b"DONE" not in body
    with Store(url) as store:
        found = store.load(session_id)
    last = (*found.messages, *found.attempts)[-1]
    assert last.metadata.status is MessageStatus.CANCELLED


@pytest.mark.exhaustive
def test_fastapi(store_url: str) -> None:
    """A stream reaches the browser, and one that the browser leaves is kept as cancelled."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    asyncio.run(use_chats(load("chats_fastapi.py").app, store_url))


def test_django(store_url: str) -> None:
    pytest.importorskip("django", reason="django is not installed")
    import django
    from django.conf import settings

    program = load("chats_django.py")
    if not settings.configured:
        settings.configure(ROOT_URLCONF="chats_django", ALLOWED_HOSTS=["*"], SECRET_KEY="none", MIDDLEWARE=[])
        django.setup()
    from django.test import Client as Browser

    browser = Browser()
    started = browser.post("/chats", data={"prompt": "Hi"}, content_type="application/json").json()
    assert started["text"] == "It rains."
    answer = browser.post(f"/chats/{started['id']}", data={"prompt": "And now?"}, content_type="application/json")
    assert b"".join(answer.streaming_content) == b"It rains."
    assert stored(store_url, started["id"])[-2:] == ["And now?", "It rains."]
    program.client().close()


def test_celery(store_url: str) -> None:
    """A task that runs twice asks once."""
    pytest.importorskip("celery", reason="celery is not installed")
    program = load("chats_celery.py")
    for _ in range(2):
        assert program.summarize.apply(args=["It was wet."], task_id="job-1").get() == "It rains."
    assert len(stored(store_url, "sess_job-1")) == 2
    program.client().close()


def test_notebook() -> None:
    async def cell() -> None:
        program = load("cell.py")
        assert program.answer == "It rains."
        found = await program.compare("Is it raining?", "anthropic:claude-haiku-4-5")
        assert found == {"anthropic:claude-haiku-4-5": "It rains."}

    asyncio.run(cell())


def test_lambda() -> None:
    program = load("lambda_function.py")
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000)
    first = program.handler({"body": json.dumps({"prompt": "Is it raining?"})}, context)
    assert first["statusCode"] == 200, first
    conversation = json.loads(first["body"])["conversation"]
    body = json.dumps({"prompt": "And now?", "conversation": conversation})
    second = program.handler({"body": body}, context)
    assert json.loads(second["body"])["text"] == "It rains."
    assert len(json.loads(second["body"])["conversation"]) > len(conversation)
    hurry = SimpleNamespace(get_remaining_time_in_millis=lambda: 1_000.001)
    assert program.handler({"body": body}, hurry)["statusCode"] == 504
    program.client.close()


def test_pytest() -> None:
    """Without a network, as the fixture of the file demands."""
    program = load("test_stock.py")
    with block_network():
        program.test_the_model_gets_the_stock()
