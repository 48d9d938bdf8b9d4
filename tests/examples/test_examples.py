"""Every program of examples/ runs as a person would run it: on the embedded model, or on a recording."""

import csv
import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import OverloadedError
from dragoman.testing import ScriptedProvider, scripted_reply
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply, sse_reply
from tests.docs.test_recipes import reply as handwritten_reply

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LOCAL = "local:smollm2-135m"
LONGEST, SHORTEST = 100, 20

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example in an empty folder, and return what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODEL", LOCAL)

    def run_example(name: str, *arguments: str, stdin: str = "", **environment: str) -> str:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def test_there_are_ten_programs_with_a_head() -> None:
    """The head says what it shows and how to run it; and each is named in a test and in the page of the examples."""
    programs = sorted(EXAMPLES.glob("*.py"))
    assert len(programs) == 10
    page, tests = (each.read_text(encoding="utf-8") for each in (ROOT / "docs" / "examples.md", Path(__file__)))
    for program in programs:
        lines = program.read_text(encoding="utf-8").splitlines()
        assert SHORTEST <= len(lines) <= LONGEST, program
        assert re.match(r'"""[A-Z].*\.$', lines[0]), program
        assert lines[1:4:2] == ["", '"""'], program
        assert re.match(r"It shows .*: `.*`$", lines[2]), program
        assert f"examples/{program.name}" in page, program
        assert f'"{program.name}"' in tests, program


def test_the_chat_reads_files_of_its_folder_and_goes_on_later(run: Run, tmp_path: Path) -> None:
    """A path that leaves the folder is an error that the model reads. The second run has the first one's messages."""
    (tmp_path / "port.txt").write_text("8080", encoding="utf-8")
    calls = ({"path": "port.txt"}, {"path": "../secret.txt"})
    script = (*(scripted_reply(calls={"read_file": each}) for each in calls), "It is 8080.")
    with ScriptedProvider(*script) as provider:
        assert "It is 8080." in run("chat.py", stdin="Which port?\n\n", MODEL=provider.model)
        assert f"{provider.model}, messages so far: 7." in run("chat.py", stdin="\n")
    assert provider.requests[1].tool_results == ["8080"]
    assert "outside of the folder" in str(provider.requests[2].tool_results[-1])


@pytest.mark.exhaustive
@pytest.mark.live_local
def test_letters_become_rows(run: Run) -> None:
    """The embedded model is held to the schema by a grammar, so every row is valid, whatever it says."""
    rows = list(csv.DictReader(io.StringIO(run("extract.py", stdin="Two lamps, please.\n"))))
    assert len(rows) == 1
    assert all(row["problem"] or (1 <= int(row["quantity"]) <= 1000 and row["urgency"]) for row in rows)


def test_the_web_service_streams_and_keeps_each_user_within_a_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One request starts a chat, and the next one streams. Nobody continues a chat of others or spends too much."""
    testclient = pytest.importorskip("fastapi.testclient")
    monkeypatch.chdir(tmp_path)
    with FaultyServer(handwritten_reply) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        app = runpy.run_path(str(EXAMPLES / "app_fastapi.py"))["app"]
        with testclient.TestClient(app) as browser:
            ann, eve = {"x-user": "ann"}, {"x-user": "eve"}
            chat = browser.post("/chats", json={"prompt": "Is it raining?"}, headers=ann).json()
            events = browser.post(f"/chats/{chat['id']}", json={"prompt": "Still?"}, headers=ann).text
            stolen = browser.post(f"/chats/{chat['id']}", json={"prompt": "Hi."}, headers=eve)
            app.state.budget.add_spend("ann", usd=Decimal("0.50"))
            refused = browser.post("/chats", json={"prompt": "And now?"}, headers=ann)
    assert chat["text"] == "It rains."
    received = [json.loads(each.removeprefix("data: ")) for each in events.strip().split("\n\n")]
    assert "".join(each["text"] for each in received[:-1]) == "It rains."
    assert received[-1]["cost"].startswith("$0.")
    assert stolen.status_code == 404
    assert (refused.status_code, refused.json()) == (402, {"error": "your budget is spent"})


@pytest.mark.live_local
def test_the_fallback_answers_when_the_first_model_fails(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """The fallback answers when the first model fails: an overloaded provider, and the embedded model after it."""
    with ScriptedProvider(OverloadedError("busy")) as provider:
        assert run("fallback.py", "Hello!", MODEL=provider.model, FALLBACK=LOCAL).strip()


@pytest.mark.live_local
def test_the_swap_continues_the_conversation(run: Run) -> None:
    """A tool's result of one model is in the history that the other one gets."""
    with ScriptedProvider(scripted_reply(calls={"distance": {"to": "Bern"}}), "Basel.") as provider:
        printed = run("swap.py", MODEL=provider.model, NEXT=LOCAL)
    assert provider.requests[1].tool_results == ["95"]
    assert "Basel." in printed
    assert LOCAL in printed


def test_the_tests_of_the_example_pass() -> None:
    """The tests of the example pass in a process of their own, without a key and without a network."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "--block-network",
        "-p",
        "no:cacheprovider",
        "test_capitals.py",
    ]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.live_local
def test_a_bulk_run_judges_each_row_once(run: Run, tmp_path: Path) -> None:
    """Its output has the columns of the type; a second run sends nothing."""
    (tmp_path / "reviews.csv").write_text("review\nIt broke at once.\nI love it.\n", encoding="utf-8")
    printed = [run("bulk_csv.py", "reviews.csv", "judged.csv") for _ in range(2)]
    rows = list(csv.DictReader((tmp_path / "judged.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["review"] for row in rows] == ["It broke at once.", "I love it."]
    assert all(row["answer_sentiment"] in ("good", "bad", "mixed") or row["error"] for row in rows)
    assert printed[0]


AGENT = """
import anthropic
with anthropic.Anthropic() as client:
    asked = [{"role": "user", "content": "Hello!"}]
    reply = client.messages.create(model="claude-opus-5-5", max_tokens=8, messages=asked)
assert reply.type == "message", reply
raise SystemExit(7)
"""


@pytest.mark.exhaustive
@pytest.mark.live_local
def test_an_agent_for_one_api_runs_on_another_model(tmp_path: Path) -> None:
    """A real gateway, with the official SDK in the place of the agent; its exit code is the program's."""
    environment = os.environ | {
        "MODEL": LOCAL,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    command = [sys.executable, EXAMPLES / "claude_code.py", sys.executable, "-c", AGENT]
    assert subprocess.run(command, env=environment, cwd=tmp_path, timeout=120, check=False).returncode == 7


@pytest.mark.live_local
def test_the_model_does_not_read_personal_data(run: Run) -> None:
    """What it is sent has marks in the place of the address and the card."""
    pytest.importorskip("datafog")
    printed = run("redact.py")
    assert "The model read:" in printed
    assert "ann.lee@example.org" not in printed.partition("It answered:")[0]
    assert "4111 1111" not in printed.partition("It answered:")[0]


def answer(request: ReceivedRequest) -> HttpReply:
    body: dict[str, Any] = json.loads(request.body)
    words = f"You said: {body['turns'][-1][1]}"
    if not body["stream"]:
        return json_reply({"said": words})
    pieces = "".join(f"event: word\ndata: {json.dumps({'piece': each + ' '})}\n\n" for each in words.split())
    return sse_reply(f"{pieces}event: end\ndata: {{}}\n\n".encode())


def test_the_adapter_of_the_example_speaks_to_its_server(run: Run) -> None:
    with FaultyServer(answer) as server:
        assert run("own_adapter.py", ECHO_BASE_URL=server.url).split() == ["You", "said:", "Is", "anybody", "there?"]
