"""A day in the terminal takes no more keys than with the command `llm`, and no command of it is misread."""

import shlex
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import pytest
from typer.testing import CliRunner, Result

from dragoman.cli.app import COMMANDS, GATEWAY_COMMANDS, app
from tests.cli.conftest import ScriptedProvider
from tests.unit.session.handwritten_replies import handwritten_anthropic

DAY = (
    ("llm 'Ten names for a pelican'", "dgm 'Ten names for a pelican'"),
    ("llm -c 'Shorter ones'", "dgm -c 'Shorter ones'"),
    ("llm -m haiku 'What is a pelican?'", "dgm -m haiku 'What is a pelican?'"),
    ("llm 'Explain' -s 'To a child'", "dgm 'Explain' -s 'To a child'"),
    ("cat notes.txt | llm -s 'Summarize'", "cat notes.txt | dgm -s 'Summarize'"),
    ("llm 'What is this?' -a photo.png", "dgm 'What is this?' -a photo.png"),
    ("llm -o temperature 0 'One word'", "dgm -o temperature=0 'One word'"),
    ("llm --schema dog.json 'Invent a dog'", "dgm --schema dog.json 'Invent a dog'"),
    ("llm logs", "dgm his"),
    ("llm logs -q pelican", "dgm his pelican"),
    ("llm --cid 01jm6ec2x1yq4w9x4s5k3tn8vz 'And gulls?'", "dgm -r 2 'And gulls?'"),
    ("llm chat", "dgm cha"),
    ("llm chat -m haiku", "dgm cha haiku"),
    ("llm chat -c", "dgm cha -c"),
    ("llm models", "dgm mod"),
    ("llm keys", "dgm key"),
)
"""What `llm` 0.27 takes for each task (https://llm.datasette.io/en/stable/help.html), with the aliases and the default
model that a user sets once in both, and our command for it."""

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
CONFIGURATION = 'default_model = "anthropic:claude-haiku-4-5"\n'
QUESTIONS = 9


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: ScriptedProvider) -> ScriptedProvider:
    """A folder with the files of the day, a default model, and a provider on loopback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dragoman.toml").write_text(CONFIGURATION)
    (tmp_path / "notes.txt").write_text("Pelicans are birds.")
    (tmp_path / "photo.png").write_bytes(PNG)
    (tmp_path / "dog.json").write_text('{"type": "object", "properties": {"name": {"type": "string"}}}')
    provider.replies = [handwritten_anthropic('{"name": "Pelle"}') for _ in range(QUESTIONS)]
    return provider


def run(line: str) -> Result:
    """Run a line as a shell does: with what `cat` pipes into it, and with an end of input for a chat."""
    piped, _, rest = line.rpartition(" | ")
    text = Path(piped.removeprefix("cat ")).read_text() if piped else ""
    program, *words = shlex.split(rest)
    assert program == "dgm"
    return CliRunner().invoke(app, words, input=text)


def test_a_day_takes_no_more_keys(desk: ScriptedProvider) -> None:
    """Each command of the day does its work, and has at most as many characters as that of `llm`."""
    outputs = {}
    for theirs, ours in DAY:
        done = run(ours)
        assert done.exit_code == 0, (ours, done.output, done.exception)
        outputs[ours] = done.output
        assert len(ours) <= len(theirs), ours
    assert desk.replies == []
    asked = [_texts(body) for body in desk.bodies]
    assert asked[0] == ["Ten names for a pelican"]
    assert asked[1][0] == "Ten names for a pelican"
    assert asked[1][-1] == "Shorter ones"
    assert "haiku" in desk.bodies[2]["model"]
    assert "To a child" in str(desk.bodies[3]["system"])
    assert asked[4] == ["Pelicans are birds."]
    assert "image" in str(desk.bodies[5]["messages"])
    assert desk.bodies[6]["temperature"] == 0
    assert "name" in str(desk.bodies[7])
    assert asked[8][-1] == "And gulls?"
    assert "Ten names for a pelican" in outputs["dgm his"]
    assert "claude" in outputs["dgm mod"]


def _texts(body: dict[str, Any]) -> list[str]:
    content = [message["content"] for message in body["messages"]]
    blocks = [block for each in content for block in ([{"text": each}] if isinstance(each, str) else each)]
    return [block["text"] for block in blocks if "text" in block]


def test_both_names_are_installed() -> None:
    """`dgm` is `dragoman` in three letters."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts["dgm"] == scripts["dragoman"]


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["hitsory"], "history"),
        (["modles", "openai"], "models"),
        (["con"], "config or conform or convert"),
        (["serv"], None),
    ],
)
def test_a_misspelt_command_is_not_sent_to_a_model(desk: ScriptedProvider, words: list[str], known: str | None) -> None:
    """It is refused, with what to write; the first letters of one command are that command."""
    done = CliRunner().invoke(app, [*words, "--help"] if known is None else words)
    assert desk.bodies == []
    if known is not None:
        assert done.exit_code == 2
        assert known in done.output


def test_options_of_the_program_stay_its_own() -> None:
    """--help and --version are not a question."""
    for words, shown in ((["--version"], "dragoman "), (["--help"], "doctor"), ([], "doctor")):
        assert shown in CliRunner().invoke(app, words).output


def test_no_alias_of_a_model_is_near_to_a_command() -> None:
    """`dragoman sonnet 'Hello'` asks."""
    table = files("dragoman.adapter").joinpath("aliases.toml").read_text(encoding="utf-8")
    group: Any = __import__("typer").main.get_command(app)
    context = click.Context(group)
    for alias in tomllib.loads(table)["aliases"]:
        assert group._with_command(context, [alias, "Hello"])[0] == "ask", alias


def test_every_command_has_letters_of_its_own() -> None:
    """At most a handful of commands begin with the same three letters."""
    names = {*COMMANDS, *GATEWAY_COMMANDS}
    shared = {name for name in names if sum(other[:3] == name[:3] for other in names) > 1}
    assert shared == {"config", "conform", "convert"}
