"""`dragoman cost`: sessions, messages and usage files, in a terminal, as JSON and as a picture."""

import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from click.testing import Result
from typer.testing import CliRunner

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, RequestError
from dragoman.canonical.message import Message, MessageMetadata, write_message
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.cli.app import app
from dragoman.pricing import price_table
from dragoman.session import Session
from dragoman.store import Store

SONNET, O3, NOBODY = "anthropic:claude-sonnet-4-6", "openai:o3", "nobody:knows<this>"
USED = {SONNET: (1000, 50, 1), O3: (5000, 500, 2), NOBODY: (5, 5, 3)}
"""Input tokens, output tokens, and the day of November of each request."""


def reply(model: str, **fields: object) -> Message:
    tokens_in, tokens_out, day = USED[model]
    at = datetime(2026, 11, day, tzinfo=UTC)
    usage = price_table().price(model, TokenUsage(input_tokens=tokens_in, output_tokens=tokens_out), at)
    metadata = MessageMetadata(model=model, provider=model.partition(":")[0], user_id="ann", usage=usage)
    return Message.assistant("Hi", metadata=metadata, created_at=at, **fields)


def history() -> list[Message]:
    return [message for model in USED for message in (Message.user("Hi"), reply(model))]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session in which three models replied, one of them without a price."""
    path = tmp_path / "session.json"
    path.write_bytes(Session("anthropic:claude-opus-5-5", messages=history()).dump())
    return path


@pytest.fixture
def usages(tmp_path: Path) -> Path:
    """The same replies as rows of usages."""
    path = tmp_path / "usages.jsonl"
    rows = [
        {"model": model, "at": f"2026-11-{day:02}T00:00:00Z", "input_tokens": tokens_in, "output_tokens": tokens_out}
        for model, (tokens_in, tokens_out, day) in USED.items()
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def run(*words: object) -> Result:
    done = CliRunner().invoke(app, ["cost", *map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


def report(*words: object) -> dict[str, object]:
    found: dict[str, object] = json.loads(run(*words, "--json").stdout)
    return found


def by_key(found: dict[str, object], *names: str) -> dict[tuple[str, ...], str | None]:
    return {tuple(line[name] for name in names): line["cost_usd"] for line in found["lines"]}


def test_a_session_costs_what_it_reports(session: Path) -> None:
    """The figures of the session itself, by model; what is unknown is named and never 0."""
    out = run(session).output
    for words in (
        "claude-sonnet-4-6",
        "$0.003750",
        "unknown",
        "at least $0.017750",
        "output_tokens (1)",
        "as recorded",
    ):
        assert words in out
    found = report(session)
    assert by_key(found, "model") == {(SONNET,): "0.00375", (O3,): "0.014", (NOBODY,): None}
    total = found["total"]
    assert (total["cost_usd"], total["cost_status"], total["replies"]) == ("0.01775", "partial", 3)
    assert Decimal(total["cost_usd"]) == Session.load(session.read_bytes()).cost.usd


def test_usages_cost_what_the_session_did(session: Path, usages: Path) -> None:
    """The same replies, whatever they come from; two sources add up."""
    assert report(session, "--by", "day")["lines"] == report(usages, "--by", "day")["lines"]
    both = report(session, usages)
    assert both["total"]["cost_usd"] == "0.0355"
    assert both["prices"] == ["as recorded", f"price table {price_table().version}"]


def test_messages_are_read_one_per_line(tmp_path: Path) -> None:
    """A log of messages, by user and session; prompts cost nothing and are not replies."""
    path = tmp_path / "log.jsonl"
    lines = [write_message(message) for message in (Message.user("Hi"), reply(SONNET, session_id="s1"), reply(O3))]
    path.write_bytes(b"\n".join(lines) + b"\n\n")
    found = report(path, "--by", "user", "--by", "session", "--by", "provider")
    assert by_key(found, "user", "session", "provider") == {
        ("ann", None, "openai"): "0.014",
        ("ann", "s1", "anthropic"): "0.00375",
    }


def test_a_reply_without_a_count_is_unknown(tmp_path: Path) -> None:
    """A provider sent it, so it is counted; its tokens and its cost are unknown, and not 0."""
    path = tmp_path / "log.jsonl"
    silent = Message.assistant("Hi", metadata=MessageMetadata(provider="openai"))
    path.write_bytes(write_message(silent))
    assert report(path)["total"] | {"statuses": 0} == {
        "replies": 1, "prompt_tokens": None, "output_tokens": None, "uncounted_replies": 1, "cost_usd": None,
        "cost_status": "unpriced", "statuses": 0, "unpriced": {},
    }  # fmt: skip


def test_broken_attempts_are_billed_too(tmp_path: Path) -> None:
    """A session's attempts are part of its cost."""
    stored = json.loads(Session("openai:o3", messages=history()).dump())
    stored["attempts"] = [json.loads(write_message(reply(SONNET)))]
    path = tmp_path / "session.json"
    path.write_text(json.dumps(stored))
    assert report(path)["total"]["cost_usd"] == "0.0215"


def test_repricing_works_for_every_source(session: Path, usages: Path, tmp_path: Path) -> None:
    """Repricing works for every source at another time, as another model, by another table."""
    for source in (session, usages):
        then = report(source, "--at", "2025-06-01")
        assert by_key(then, "model")[(O3,)] == "0.07"
        other = report(source, "--as-model", "openai:gpt-4.1")
        assert by_key(other, "model")[(NOBODY,)] == "0.00005"
        assert other["total"]["cost_status"] == "priced"
        again = report(source, "--reprice", "--version", price_table().version)
        assert again["prices"] == [f"price table {price_table().version}"]
    overlay = tmp_path / "ours.toml"
    overlay.write_text(
        f'[nobody]\nsource = "ours"\nchecked = {date(2026, 11, 1)}\n[[nobody.model]]\nid = "this"\n'
        'match = { starts_with = ["knows"] }\nprices = [{ input = "1", output = "1" }]\n'
    )
    assert by_key(report(usages, "--overlay", overlay), "model")[(NOBODY,)] == "0.00001"


def test_recorded_costs_are_not_repriced(tmp_path: Path) -> None:
    """A negotiated price stays, until another table is requested."""
    ours = Usage(input_tokens=1000, cost_usd=Decimal("0.5"), cost_status="priced", pricing_version="ours")
    path = tmp_path / "log.jsonl"
    path.write_bytes(write_message(Message.assistant("Hi", metadata=MessageMetadata(model=O3, usage=ours))))
    assert report(path)["total"]["cost_usd"] == "0.5"
    assert report(path, "--reprice")["total"]["cost_usd"] == "0.002"


def test_a_plot_is_self_contained(session: Path, tmp_path: Path) -> None:
    """SVG that parses, with a bar for what is known and words for what is not; HTML that loads nothing."""
    picture, page = tmp_path / "costs.svg", tmp_path / "costs.html"
    run(session, "--by", "day", "--by", "model", "--plot", picture)
    drawn = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in drawn.iter(f"{space}title")]
    assert titles == [f"2026-11-01 · {SONNET}: $0.003750", f"2026-11-02 · {O3}: $0.014000"]
    widths = [float(bar.get("width", 0)) for bar in drawn.iter(f"{space}rect") if bar.find(f"{space}title") is not None]
    assert widths[0] / widths[1] == pytest.approx(0.00375 / 0.014, rel=0.01)
    assert "unknown" in [text.text for text in drawn.iter(f"{space}text")]
    run(session, "--plot", page)
    text = page.read_text(encoding="utf-8")
    assert "knows&lt;this&gt;" in text
    assert "knows<this>" not in text
    assert "at least $0.017750" in text
    assert not any(word in text for word in ("<script", "<link", "src=", "@import"))


def test_a_png_needs_a_package(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it; with it, the picture is made."""
    path = tmp_path / "costs.png"
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(MissingExtraError, match="pip install cairosvg"):
        run(session, "--plot", path)
    drawing = SimpleNamespace(svg2png=lambda bytestring, scale: b"drawn:" + bytestring)
    monkeypatch.setitem(sys.modules, "cairosvg", drawing)
    run(session, "--plot", path)
    assert path.read_bytes().startswith(b"drawn:<svg ")


def test_without_duckdb_sessions_can_still_be_added_up(
    session: Path, usages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only files of usages need it."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert report(session)["total"]["replies"] == 3
    with pytest.raises(MissingExtraError, match=r"dragoman\[report\]"):
        run(usages)


def test_a_session_without_replies_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(Session("openai:o3").dump())
    assert report(path)["total"]["replies"] == 0
    run(path, "--plot", tmp_path / "empty.svg")
    ElementTree.parse(tmp_path / "empty.svg")


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("costs.txt", "", ConfigurationError, ".parquet"),
        ("session.json", "{}", ConfigurationError, "not a stored session"),
        (
            "log.jsonl",
            '{"role": "assistant", "content": {"text": "secret"}}',
            ConfigurationError,
            "line 1 is not a message",
        ),
        ("log.jsonl", '{"role": 1}\n', ConfigurationError, "line 1 is not a message"),
        ("usages.jsonl", '{"model": "x:y"', RequestError, "cannot be read"),
        ("usages.csv", "a,b\n1,2\n", RequestError, "no column model"),
        ("usages.parquet", "no parquet", RequestError, "cannot be read"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, error: type[Exception], message: str) -> None:
    """Each with its reason, which does not quote the content."""
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(error, match=message) as caught:
        run(path)
    assert "secret" not in str(caught.value)


def test_wrong_names_are_refused(session: Path, tmp_path: Path) -> None:
    """A missing file and an unknown kind of plot are refused."""
    with pytest.raises(ConfigurationError, match="there is no file"):
        run(tmp_path / "nothing.json")
    with pytest.raises(ConfigurationError, match=r"\.html, \.svg or \.png"):
        run(session, "--plot", tmp_path / "costs.gif")


@pytest.mark.parametrize("named", ["file", "url"])
def test_a_store_costs_what_its_replies_did(tmp_path: Path, session: Path, named: str) -> None:
    """A store costs what its replies did by the same figures as the session itself, by user and team too; repriced like
    any other.
    """
    path = tmp_path / "chats.db"
    with Store(f"sqlite:///{path}") as store:
        store.create("anthropic:claude-opus-5-5", history(), session_id="sess_1")
    name = path if named == "file" else f"sqlite:///{path}"
    assert by_key(report(name), "model") == by_key(report(session), "model")
    assert by_key(report(name, "--by", "team", "--by", "user"), "team", "user") == {(None, "ann"): "0.01775"}
    assert by_key(report(name, "--as-model", O3), "model") == by_key(report(session, "--as-model", O3), "model")
    assert "as recorded" in run(name).output


def test_a_missing_store_is_not_created(tmp_path: Path) -> None:
    """A report only reads."""
    with pytest.raises(ConfigurationError, match="no store"):
        run(f"sqlite:///{tmp_path / 'none.db'}")
    assert list(tmp_path.iterdir()) == []


def test_usages_are_grouped_by_team(tmp_path: Path) -> None:
    path = tmp_path / "usages.csv"
    path.write_text("model,at,input_tokens,output_tokens,team_id\n" + f"{O3},2026-11-01T00:00:00Z,1000,0,blue\n")
    assert by_key(report(path, "--by", "team"), "team") == {("blue",): "0.002"}
