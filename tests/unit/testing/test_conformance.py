"""The kit itself: it finds every faulty adapter, reports why a law was not tried, and shows its findings."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.canonical.tools import ToolDefinition
from dragoman.cli.app import app
from dragoman.testing.conformance import (
    LAWS,
    AdapterConformance,
    Effort,
    Law,
    LawResult,
    Mark,
    Scorecard,
    conform,
    page,
)
from dragoman.testing.conformance.suite import find_suites
from dragoman.testing.doubles.scripted_wire import WIRE
from dragoman.testing.stream_laws import Effort as StreamEffort
from dragoman.testing.stream_laws import Trial, Verdict
from tests.unit.testing.faulty_adapters import (
    FAULTY_ADAPTERS,
    CorrectAdapter,
    ReportsUnusedOptions,
    RewritesFirstMessage,
)

SMALL_EFFORT = Effort(4, 2, StreamEffort(replays=0, mutations=10, stride=11, cuts=11), processes=0)
BY_NAME = {str(law): law for law in LAWS}


class Suite(AdapterConformance):
    __test__ = False
    adapter = CorrectAdapter
    models = ("actor",)
    wire = WIRE
    effort = SMALL_EFFORT


class FaultySuite(Suite):
    __test__ = False
    adapter = RewritesFirstMessage


@pytest.mark.parametrize("name", sorted({law for _, law in FAULTY_ADAPTERS}))
def test_a_correct_adapter_breaks_no_law(name: str) -> None:
    card = conform(CorrectAdapter("actor"), WIRE, SMALL_EFFORT, [BY_NAME[name]])
    assert card.count(Mark.HOLDS) == 1, card.results[0].verdict.faults


@pytest.mark.parametrize(
    ("faulty_adapter", "law"), FAULTY_ADAPTERS, ids=lambda value: getattr(value, "__name__", value)
)
def test_the_kit_finds_every_faulty_adapter(faulty_adapter: type[Adapter], law: str) -> None:
    """An adapter with one known fault breaks the law for it, and the fault is reported."""
    card = conform(faulty_adapter("actor"), WIRE, SMALL_EFFORT, [BY_NAME[law]])
    (result,) = card.results
    assert result.mark is Mark.BROKEN
    assert result.verdict.faults
    assert not card.passed


def test_an_adapter_without_the_template_may_report_unused_options() -> None:
    """The law requires the loss; which code records it does not matter."""
    card = conform(
        ReportsUnusedOptions("actor"), WIRE, SMALL_EFFORT, [BY_NAME["contract: names an option of tomorrow"]]
    )
    assert card.count(Mark.HOLDS) == 1, card.results[0].verdict.faults


def test_a_counterexample_is_small() -> None:
    """The history that breaks a law has no more in it than necessary."""
    card = conform(RewritesFirstMessage("actor"), WIRE, SMALL_EFFORT, [BY_NAME["swap: a longer history only appends"]])
    shown = card.results[0].verdict.faults[-1]
    assert shown.startswith("foreign history [")
    assert shown.partition("]: ")[0].count(" | ") <= 2


def test_laws_have_names_and_sentences() -> None:
    """Each has a chapter, a name and a sentence that describes it."""
    assert len(BY_NAME) == len(LAWS)
    assert all(re.fullmatch(r"[A-Z].*\.", law.statement) for law in LAWS)


def test_without_a_wire_the_laws_of_replies_are_not_tried() -> None:
    """An untried law neither holds nor fails, and the report names it."""
    card = conform(
        CorrectAdapter("actor"), effort=SMALL_EFFORT, laws=[law for law in LAWS if law.chapter in ("streams", "costs")]
    )
    assert {result.skip_reason for result in card.results if result.law.chapter == "streams"} == {
        "no Wire was given, which describes the provider's answers"
    }
    assert (card.passed, card.complete) == (True, False)


def test_an_exception_of_an_adapter_is_a_fault() -> None:
    """It breaks that law and no other."""

    def breaks(subject: object) -> Iterator[Trial]:
        """It breaks."""
        yield Trial("one")
        raise ZeroDivisionError("by zero")

    (result,) = conform(CorrectAdapter("actor"), laws=[Law("kit", "breaks", breaks)]).results
    assert (result.mark, result.verdict.tried) == (Mark.BROKEN, 2)
    assert result.verdict.faults == ["the law: ZeroDivisionError was raised: by zero"]


PAYLOADS = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</pre></td><script>", "&lt;b&gt;")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_everything_on_the_page_stays_text() -> None:
    """Names, faults, reasons and outcomes that contain HTML are shown and never run."""
    payload = "\n".join(PAYLOADS)

    def law(subject: object) -> Iterator[Trial]:
        """A law."""
        yield Trial(payload, (payload,), payload)

    verdict = Verdict(payload)
    verdict.count(Trial(payload, (payload,), payload))
    results = (
        LawResult(Law(payload, payload, law), verdict),
        LawResult(Law(payload, payload, law), Verdict("n"), payload),
    )
    written = page([Scorecard(payload, payload, results)])
    found = _Tags()
    found.feed(written)
    assert {"script", "img", "b"}.isdisjoint(found.tags)
    assert found.attributes <= {"lang", "charset", "name", "content", "http-equiv", "class"}
    assert all(found.text.count(each) >= 5 for each in PAYLOADS)
    assert not re.search(r"(src|href|url)\s*[=(]", written.partition("</style>")[0])


def test_an_incomplete_suite_is_reported() -> None:
    """No adapter, or no model to try."""
    with pytest.raises(ConfigurationError, match="set `adapter`"):
        AdapterConformance.subjects()
    with pytest.raises(ConfigurationError, match="set `models`"):
        type("Unnamed", (AdapterConformance,), {"adapter": CorrectAdapter}).subjects()  # type: ignore[attr-defined]


def test_suites_are_found() -> None:
    """By provider, by package, and by class; anything else is refused."""
    assert [suite.adapter for suite in find_suites("ollama")] == ["ollama"]
    assert {suite.adapter for suite in find_suites("dragoman_adapters.google")} == {"google", "google-vertex"}
    assert find_suites("any", f"{__name__}:Suite") == (Suite,)
    with pytest.raises(ConfigurationError, match="no adapter of 'nobody' is installed"):
        find_suites("nobody")
    for kit, expected in (
        ("Suite", "module:Class"),
        ("no.such:Suite", "cannot be loaded"),
        ("json:dumps", "is not an Adapter"),
    ):
        with pytest.raises(ConfigurationError, match=expected):
            find_suites("any", kit)


def test_the_command_prints_and_writes_the_scorecard(tmp_path: Path) -> None:
    """Exit code 1 if a law is broken, 3 if the laws of replies could not be tried."""
    place = tmp_path / "card.html"
    kit = ["--kit", f"{__name__}:FaultySuite", "--histories", "2", "--html", str(place)]
    done = CliRunner().invoke(app, ["conform", "any", *kit])
    assert done.exit_code == 1, done.output
    assert "✗ a longer history only appends" in done.output
    assert "scripted:actor" in place.read_text(encoding="utf-8")
    done = CliRunner().invoke(app, ["conform", "ollama", "--model", "qwen3:4b", "--histories", "1", "--all"])
    assert done.exit_code == 3, done.output
    assert "✓ declares itself" in done.output


@pytest.mark.exhaustive
def test_pytest_runs_a_suite_law_by_law(tmp_path: Path) -> None:
    """One test for each model and law; a broken one shows its sentence."""
    (tmp_path / "test_faulty.py").write_text(
        "from tests.unit.testing.test_conformance import FaultySuite\n\n\n"
        "class TestFaulty(FaultySuite):\n    __test__ = True\n",
        encoding="utf-8",
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-c",
        str(tmp_path / "pytest.ini"),
        "-k",
    ]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [*command, "appends or declares_itself or found_by", f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert "The prefix law: a request begins with the one before it" in done.stdout
    assert "actor-swap-a_longer_history_only_appends" in done.stdout


WITHOUT = """
import sys
sys.modules["hypothesis"] = None
from dragoman.adapter.errors import MissingExtraError
from dragoman.testing import AdapterConformance, ScriptedProvider, block_network
from dragoman.testing.conformance import conform
from dragoman.testing.doubles.scripted_adapter import ScriptedAdapter
for attempt in (lambda: conform(ScriptedAdapter("actor")), lambda: __import__("dragoman.testing.strategies")):
    try:
        attempt()
    except MissingExtraError as error:
        print(error)
"""


@pytest.mark.exhaustive
def test_without_hypothesis_the_error_names_it() -> None:
    """The doubles do not need it; the kit and the strategies do."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.stdout.count('pip install "dragoman[testing]"') == 2, done.stderr
    assert issubclass(MissingExtraError, ConfigurationError)


def test_strategies_draw_valid_values() -> None:
    """Tools that can be registered, and replies whose pieces add up to their calls."""
    from hypothesis import given, settings

    from dragoman.testing import strategies
    from dragoman.testing.conformance import SampleReply

    @settings(max_examples=30)
    @given(tool=strategies.tools(), sample=strategies.replies())
    def check(tool: ToolDefinition, sample: SampleReply) -> None:
        assert tool.problems() == []
        assert [json.loads(call.arguments) for call in sample.calls] == [call.input for call in sample.calls]
        assert sample.text or sample.calls

    check()
