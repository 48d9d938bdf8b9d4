"""The pytest plugin in suites of its own: what passes, what fails, and the messages."""

import datetime
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.adapter.errors import MissingExtraError
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest
from dragoman.testing.cassettes.file import Recording, dump_exchanges, dumps, loads
from tests.cassettes.planted_keys import key
from tests.cassettes.plugin.loading import PLUGIN
from tests.cassettes.plugin.suites import exchange, run, suite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")


def test_marked_tests_play_their_recordings(pytester: pytest.Pytester) -> None:
    """Marked tests play their recordings with the mark only, with the fixture, in a class, with parameters, with a
    custom name, and asynchronously.
    """
    suite(
        pytester,
        """
@pytest.mark.cassette
def test_marked(): assert ask("q") == "a"

@pytest.mark.cassette
def test_fixture(cassette):
    assert cassette.unplayed == 2
    assert [ask("r"), ask("q")] == ["b", "a"]

class TestClass:
    @pytest.mark.cassette
    @pytest.mark.parametrize("text", ["q"])
    def test_case(self, text): assert ask(text) == "a"

@pytest.mark.cassette("test_it/{id}.yaml")
@pytest.mark.parametrize("text", ["q"], ids=["named"])
def test_named(text): assert ask(text) == "a"

@pytest.mark.cassette
def test_tasks():
    async def one(client, text): return (await client.post(URL, json=body(text))).json()["content"][0]["text"]
    async def all_of_them():
        async with httpx.AsyncClient() as client:
            return await asyncio.gather(*(one(client, text) for text in "rqq"))
    assert asyncio.run(all_of_them()) == ["b", "a", "A"]

def test_unmarked(): pass
""",
        test_marked=[exchange("q", "a")],
        test_fixture=[exchange("q", "a"), exchange("r", "b")],
        named=[exchange("q", "a")],
        test_tasks=[exchange("q", "a"), exchange("r", "b"), exchange("q", "A")],
        **{"TestClass.test_case[q]": [exchange("q", "a")]},
    )
    run(pytester).assert_outcomes(passed=6)


def test_a_swallowed_miss_fails(pytester: pytest.Pytester) -> None:
    """A request without any recording names the way to make one."""
    suite(
        pytester,
        """
@pytest.mark.cassette
def test_swallowed():
    try: ask("Q")
    except Exception: pass

@pytest.mark.cassette
def test_missing(): ask("q")
""",
        test_swallowed=[exchange("q", "a")],
    )
    done = run(pytester)
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(["*$.messages[[]0].content: 'q' -> 'Q'*"])
    commands = "`dragoman keys set anthropic`, and record it with `pytest --record-mode=once`"
    done.stdout.fnmatch_lines([f"*there is no recording test_missing.yaml*{commands}*"])


def test_the_short_summary_begins_with_what_to_do(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal of 80 columns, whether the code under test swallows the error or not."""
    monkeypatch.setenv("COLUMNS", "80")
    for variable in ("CI", "BUILD_NUMBER"):  # pytest cuts no line there
        monkeypatch.delenv(variable, raising=False)
    suite(
        pytester,
        """
@pytest.mark.cassette
def test_raised(): ask("Q")

@pytest.mark.cassette
def test_swallowed():
    try: ask("Q")
    except Exception: pass

@pytest.mark.cassette
def test_half(): ask("q")
""",
        test_raised=[exchange("q", "a")],
        test_swallowed=[exchange("q", "a")],
        test_half=[exchange("q", "a"), exchange("r", "a")],
    )
    done = run(pytester)
    done.assert_outcomes(failed=3)
    for name in ("raised", "swallowed", "half"):
        done.stdout.fnmatch_lines([f"FAILED *::test_{name} - *--record-mode=rewrite*"])


def test_without_a_file_and_a_key_both_commands_are_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that needs a key to start does not hide that there is no recording."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    suite(
        pytester,
        """
from dragoman import Session

@pytest.mark.cassette
def test_missing():
    with Session("anthropic:m") as session:
        session.ask("q")
""",
    )
    done = run(pytester)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*`dragoman keys set anthropic`*`pytest --record-mode=once`*"])


VCR_CONFTEST = """
import pytest

from dragoman.testing.cassettes import vcrpy


def pytest_recording_configure(config, vcr):
    vcrpy.register(vcr, server="by hand")


@pytest.fixture(scope="session")
def vcr_config():
    return vcrpy.config()
"""


def test_the_mark_of_pytest_recording_replays_without_a_key(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the conftest of the documentation; the next test has no key again, and the files are not orphans."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    pytester.makeconftest(VCR_CONFTEST)
    suite(
        pytester,
        """
import os

from dragoman import AsyncSession, Session

@pytest.mark.vcr
def test_session():
    with Session("anthropic:m") as session:
        assert session.ask("q", max_output_tokens=9).text == "a"

@pytest.mark.vcr
def test_async():
    async def main():
        async with AsyncSession("anthropic:m") as session:
            return (await session.ask("q", max_output_tokens=9)).text
    assert asyncio.run(main()) == "a"

@pytest.fixture
def client():
    with Session("anthropic:m") as session:
        yield session

@pytest.mark.vcr
class TestGroup:
    @pytest.mark.parametrize("more", [1, 2])
    def test_fixture(self, client, more):
        assert client.ask("q", max_output_tokens=9).text == "a"

@pytest.mark.cassette("other.yaml")
def test_own_mark(): assert ask("q") == "a"

def test_no_key(): assert "ANTHROPIC_API_KEY" not in os.environ
""",
        **{
            name: [exchange("q", "a")]
            for name in ("test_session", "test_async", "TestGroup.test_fixture[1]", "TestGroup.test_fixture[2]")
        },
    )
    other = pytester.path / "cassettes" / "other.yaml"
    other.write_text(dump_exchanges([exchange("q", "a")], server="by hand"), encoding="utf-8")
    run(pytester, "--block-network").assert_outcomes(passed=6)


def test_a_recording_of_pytest_recording_needs_a_real_key(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placeholder would be sent to the provider."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    pytester.makeconftest(VCR_CONFTEST)
    suite(
        pytester,
        """
import os

@pytest.mark.vcr
def test_session(): assert "ANTHROPIC_API_KEY" not in os.environ
""",
        test_session=[exchange("q", "a")],
    )
    run(pytester, "--record-mode=new_episodes").assert_outcomes(passed=1)


def test_unplayed_exchanges_fail(pytester: pytest.Pytester) -> None:
    """A recording of which only half is played shows something else than it claims."""
    code = """
@pytest.mark.cassette
def test_half(): ask("q")
"""
    suite(pytester, code, test_half=[exchange("q", "a"), exchange("r", "b")])
    done = run(pytester)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*test_half.yaml: 1 of 2 recorded exchanges were not played*"])


def test_orphans_fail_a_whole_run(pytester: pytest.Pytester) -> None:
    """Running a part of a module says nothing about them; files of other recorders are ignored."""
    code = """
@pytest.mark.cassette
def test_one(): ask("q")
"""
    suite(pytester, code, test_one=[exchange("q", "a")], test_gone=[exchange("q", "a")])
    folder = pytester.path / "cassettes" / "test_it"
    (folder / "vcr.yaml").write_text("version: 1\ninteractions: []\n", encoding="utf-8")
    gone = pytester.path / "cassettes" / "test_deleted" / "x.yaml"
    gone.parent.mkdir()
    gone.write_bytes((folder / "test_one.yaml").read_bytes())
    done = run(pytester)
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*no test plays these recordings*", "*test_deleted/x.yaml", "*test_gone.yaml"])
    assert "vcr.yaml" not in done.stdout.str()
    run(pytester, "test_it.py::test_one").assert_outcomes(passed=1)
    run(pytester, "test_it.py").assert_outcomes(passed=1, failed=1)


def test_stale_recordings_are_reported(pytester: pytest.Pytester) -> None:
    """By date, by the API's version and by the adapter's; the tests still pass."""
    code = """
@pytest.mark.cassette
def test_old(): ask("q")
"""
    suite(pytester, code)
    old = exchange("q", "a")
    request = RecordedRequest("POST", "/v1/messages", old.request.body, {"anthropic-version": "2020-01-01"})
    recording = Recording(
        "s", [Exchange(request, old.response)], datetime.date(2020, 1, 1), None, {"anthropic": "0.0.1"}
    )
    path = pytester.path / "cassettes" / "test_it" / "test_old.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(dumps(recording), encoding="utf-8")
    done = run(pytester)
    done.assert_outcomes(passed=1)
    name = "cassettes/test_it/test_old.yaml"
    done.stdout.fnmatch_lines(
        [
            "*stale recordings*",
            f"{name}: recorded on 2020-01-01, * days ago",
            f"{name}: recorded with version 0.0.1 of the adapter anthropic*",
            f"{name}: recorded with anthropic-version 2020-01-01*",
        ]
    )


RECORDED = """
def answer(request):
    return httpx.Response(200, json={"echo": MESSAGES})

@pytest.mark.cassette
def test_recorded():
    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        client.post(URL, json=body("q"), headers={"x-api-key": "whatever-it-is"})
"""


def test_a_test_is_recorded_and_then_replayed(pytester: pytest.Pytester) -> None:
    """`once` writes what is missing, with date and versions; after that, there is no network access."""
    suite(pytester, f"MESSAGES = 'yes'\n{RECORDED}")
    path = pytester.path / "cassettes" / "test_it" / "test_recorded.yaml"
    run(pytester, "--record-mode=once").assert_outcomes(passed=1)
    recording = loads(path.read_text(encoding="utf-8"))
    assert recording.server == "api.anthropic.com"
    assert recording.exchanges[0].request.provider == "anthropic"
    assert recording.recorded is not None
    assert set(recording.adapters) == {"anthropic"}
    assert "whatever" not in path.read_text(encoding="utf-8")
    suite(pytester, f"MESSAGES = 'no'\n{RECORDED}")
    written = path.read_bytes()
    run(pytester).assert_outcomes(passed=1)
    run(pytester, "--record-mode=once").assert_outcomes(passed=1)
    assert path.read_bytes() == written
    run(pytester, "--record-mode=rewrite").assert_outcomes(passed=1)
    assert b"echo: 'no'" in path.read_bytes()
    assert list(path.parent.iterdir()) == [path]


def test_a_secret_is_not_recorded(pytester: pytest.Pytester) -> None:
    """The run fails, and neither the file nor the output contains it."""
    secret = key("Anthropic", 3)
    half = len(secret) // 2
    suite(pytester, f"MESSAGES = {secret[:half]!r} + {secret[half:]!r}\n{RECORDED}")
    done = run(pytester, "--record-mode=once", "--showlocals", "-vv")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*SecretFoundError: the cassette is not written*"])
    assert secret not in done.stdout.str() + done.stderr.str()
    assert not (pytester.path / "cassettes").exists()


def test_loading_the_plugin_is_light() -> None:
    """Every test run loads it: it imports no HTTP client, no YAML and no recorder."""
    heavy = ("httpx", "yaml", "vcr", "typer")
    code = f"import pytest, sys; import {PLUGIN}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_recorder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vcrpy, the error says what to install."""
    monkeypatch.setitem(sys.modules, "dragoman.testing.cassettes.recorder", None)
    monkeypatch.delitem(sys.modules, "dragoman.testing.plugin_cassettes")
    with pytest.raises(MissingExtraError, match=r"pip install 'dragoman\[testing\]'"):
        importlib.import_module("dragoman.testing.plugin_cassettes")


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_every_format_are_read(version: int, tmp_path: Path) -> None:
    """Format 1 has one stream event per entry, format 2 one per line; the bytes are the same."""
    old = """
format: 1
server: s
exchanges:
  - request: {method: POST, path: /x, json: {a: 1}}
    response:
      status: 200
      stream:
        - |+
          event: a
          data: 1

        - "data: 2\\n\\n"
"""
    recording = loads(old)
    if version == 2:
        text = dumps(recording)
        assert "event: a ⏎ data: 1\n        data: 2" in text
        recording = loads(text)
    assert recording.exchanges[0].response.body == b"event: a\ndata: 1\n\ndata: 2\n\n"
    assert recording.exchanges[0].request.body == b'{"a":1}'
