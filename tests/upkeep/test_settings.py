"""A setting is declared once: the TypedDicts and the docstrings follow from its declaration."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.upkeep import settings as declarations

ROOT = declarations.ROOT

DECLARED = '''    top_k: int | None = None
    """Choose among this many of the most likely tokens."""
'''
DECLARATION = '''    mirostat: int | None = None
    """The version of Mirostat sampling that a local server uses. It has two."""
'''
ROW = '        "top_k": "top_k",\n'
NEW_ROW = '        "mirostat": "mirostat",\n'

PROGRAM = """
import json
from dragoman import AdapterOptions, Message, Session, get_adapter
from dragoman.session.config import TurnOptions, merge_options
from dragoman.cli.io.options import read_options

assert TurnOptions.__annotations__["mirostat"] == int | None
assert "mirostat: The version of Mirostat sampling that a local server uses.\\n" in Session.ask.__doc__
assert "mirostat: " in AdapterOptions.__doc__
assert read_options(["mirostat=2"]) == {"mirostat": 2}
options = merge_options(AdapterOptions(), {"mirostat": 2})
adapter = get_adapter("ollama:llama3.2")
request = adapter.to_wire([Message.user("Hi")], [], options)
assert json.loads(request.body)["options"] == {"mirostat": 2}, request.body
other = get_adapter("openai:gpt-5.4").to_wire([Message.user("Hi")], [], options)
assert "mirostat" in str(other.losses)
print("sent")
"""


def test_files_follow_from_the_declarations() -> None:
    """`python -m tests.upkeep.settings` has nothing to write."""
    stale = [str(path) for path, text in declarations.generate().items() if path.read_text(encoding="utf-8") != text]
    assert stale == []


def test_every_setting_has_a_sentence() -> None:
    """It begins with a capital letter and ends with a full stop."""
    named = {each for every in declarations.ARGUMENTS.values() for each in every}
    settings = [setting for each in named for setting in each.settings()]
    assert len(settings) > 100
    assert [each.name for each in settings if not (each.sentence[:1].isupper() and each.sentence.endswith("."))] == []


def test_a_new_option_is_two_edits_and_one_command(tmp_path: Path) -> None:
    """In a copy of the code, a field of AdapterOptions and a row of one wire's table are enough: one turn takes the
    option, help shows it, the command line reads it, that wire sends it, and the others report its loss."""
    for folder in ("src", "adapters"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    script = tmp_path / "tests" / "upkeep" / "settings.py"
    script.parent.mkdir(parents=True)
    shutil.copy(declarations.__file__, script)
    _insert(tmp_path / "src/dragoman/adapter/options.py", DECLARED, DECLARATION)
    _insert(tmp_path / "adapters/dragoman_adapters/ollama/options.py", ROW, NEW_ROW)
    subprocess.run([sys.executable, script], check=True, cwd=tmp_path)
    paths = [str(tmp_path / "src"), str(tmp_path / "adapters")]
    program = f"import sys\nsys.path[:0] = {paths!r}\n{PROGRAM}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.stdout == "sent\n", ended.stderr


def _insert(path: Path, after: str, text: str) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count(after) == 1
    path.write_text(source.replace(after, after + text), encoding="utf-8")
