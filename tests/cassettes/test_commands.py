"""The command `dragoman cassette`."""

import datetime
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.cli.app import app
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.file import Recording, dump_exchanges, dumps, loads
from tests.cassettes.planted_keys import key

SHIPPED = Path(__file__).resolve().parents[2] / "cassettes"
SWAP = SHIPPED / "llama-server" / "swap" / "three_wires.yaml"
SECRET = key("Groq", 1)


def run(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["cassette", *map(str, words)])
    return done.exit_code, done.output


def dirty(path: Path) -> Path:
    """A file that contains a key."""
    exchange = Exchange(RecordedRequest("POST", "/v1/messages", b'{"a":"@"}'), RecordedResponse(200, b"{}"))
    path.write_text(dump_exchanges([exchange], server="s").replace("'@'", SECRET), encoding="utf-8")
    return path


def test_list_and_show_summarise_a_file() -> None:
    """List and show summarise a file: provider, operation and reply, without opening the file."""
    code, output = run("list", SHIPPED)
    assert code == 0
    assert output.count("llama-server") >= 16
    code, output = run("show", SWAP)
    assert code == 0
    assert "5. openai-chat chat.completions -> 200" in output
    assert '[calls add] {"a": 17, "b": 25}' in output


def test_the_shipped_cassettes_are_clean() -> None:
    assert run("check", SHIPPED) == (0, "16 files checked\n")


def test_check_fails_on_secrets_and_damage_and_reports_the_rest(tmp_path: Path) -> None:
    """Findings have their place; `--strict` fails on stale recordings too."""
    code, output = run("check", dirty(tmp_path / "a.yaml"))
    assert code == 1
    assert "secret: exchange 1, request $.a: looks like a secret (Groq)" in output
    assert SECRET not in output
    (tmp_path / "b.yaml").write_text("format: 9", encoding="utf-8")
    code, output = run("check", tmp_path / "b.yaml")
    assert (code, "unreadable" in output) == (1, True)
    cut = Exchange(RecordedRequest("POST", "/v1/messages", b"{}"), RecordedResponse(200, b"data: {}\n\ndata: {}\n\n"))
    old = Recording("s", [cut], datetime.date(2020, 1, 1))
    (tmp_path / "c.yaml").write_text(dumps(old), encoding="utf-8")
    code, output = run("check", tmp_path / "c.yaml")
    assert code == 0
    assert "stale: recorded on 2020-01-01" in output
    assert "reply: exchange 1: MalformedReplyError" in output
    assert run("check", "--strict", tmp_path / "c.yaml")[0] == 1


def test_scrub_masks_in_place(tmp_path: Path) -> None:
    """Once; a clean file keeps its bytes."""
    path = dirty(tmp_path / "a.yaml")
    code, output = run("scrub", tmp_path)
    assert (code, "masked" in output) == (0, True)
    assert SECRET not in path.read_text(encoding="utf-8")
    assert json.loads(loads(path.read_text(encoding="utf-8")).exchanges[0].request.body) == {"a": "***"}
    before = path.read_bytes()
    assert run("scrub", tmp_path) == (0, "")
    assert path.read_bytes() == before


def test_import_writes_our_format(tmp_path: Path) -> None:
    """Folders keep their structure; a secret is refused, or masked on request."""
    old = tmp_path / "old" / "inner" / "a.yaml"
    old.parent.mkdir(parents=True)
    request = {"method": "POST", "uri": "https://api.openai.com/v1/x", "body": json.dumps({"a": SECRET}), "headers": {}}
    response = {"status": {"code": 200}, "headers": {}, "body": {"string": "{}"}}
    old.write_text(json.dumps({"interactions": [{"request": request, "response": response}]}), encoding="utf-8")
    done = CliRunner().invoke(app, ["cassette", "import", str(tmp_path / "old"), "--into", str(tmp_path / "new")])
    assert done.exit_code != 0
    assert not (tmp_path / "new").exists()
    assert SECRET not in str(done.exception)
    code, output = run("import", tmp_path / "old", "--into", tmp_path / "new", "--scrub")
    assert (code, "1 exchanges" in output) == (0, True)
    assert loads((tmp_path / "new" / "inner" / "a.yaml").read_text(encoding="utf-8")).server == "api.openai.com"


@pytest.mark.parametrize("words", [("list", "nowhere"), ("show", "nowhere"), ("check", "nowhere")])
def test_a_missing_file_is_an_error(words: tuple[str, ...]) -> None:
    """It is not reported as clean."""
    done = CliRunner().invoke(app, ["cassette", *words])
    assert done.exit_code != 0
