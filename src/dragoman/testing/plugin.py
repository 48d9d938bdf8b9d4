"""The pytest plugin: ``@pytest.mark.cassette`` replays a test's provider traffic from a file, or records it.

pytest loads this module in every run if the library is installed, so it imports nothing that a test without a cassette
does not need.
"""

import json
import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dragoman.testing.cassettes.recorder import Recorder

MARK = "cassette"
VCR_MARK = "vcr"
"""The mark of pytest-recording."""
VCR_PLUGIN = "recording"
FOLDER = "cassettes"
STALE = "dragoman_stale"
FAULTS = "dragoman_faults"

_OWN_FORMAT = re.compile(r"(?:#[^\n]*\n|\s*\n)*format: \d")
_UNSAFE_CHARACTERS = re.compile(r"[^\w.\-\[\]]+")
_recorder = pytest.StashKey["Recorder"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dragoman", "cassettes of language models")
    group.addoption(
        "--llm-faults",
        default=None,
        metavar="all|KIND,…",
        help="Run each test again with every fault of these kinds in its cassette, and print the outcomes:"
        " survived, raised or broken.",
    )
    group.addoption("--llm-faults-seed", type=int, default=0, help="The seed for the random places of the faults.")
    parser.addini(
        "llm_cassettes_stale_days", "Report recordings that are older than this number of days.", default="180"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(name=None): play this test's provider traffic from cassettes/<module>/<test>.yaml, or"
        " from cassettes/<name>, in which {test} and {id} stand for the test and its parameters.",
    )
    config.pluginmanager.register(_RunNotes(), "dragoman-notes")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the fixture to each marked test."""
    names: list[str] = getattr(item, "fixturenames", [])
    if item.get_closest_marker(MARK) and MARK not in names:
        names.insert(0, MARK)
    elif item.get_closest_marker(VCR_MARK) and item.config.pluginmanager.has_plugin(VCR_PLUGIN):
        names.insert(0, dragoman_replayed_keys.__name__)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a failing item for recordings that no test uses, if everything was collected."""
    marked = [item for item in items if item.get_closest_marker(MARK)]
    options = ("lf", "ignore", "ignore_glob")
    is_partial = any("::" in arg for arg in config.args) or any(config.getoption(name, None) for name in options)
    if not marked or is_partial:
        return
    if orphans := _find_orphans(config, items, {cassette_path(item) for item in marked}):
        items.append(_OrphanedRecordings.from_parent(session, name="orphaned recordings", files=orphans))


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> "Iterator[Recorder | None]":
    """The test's recording: ``unplayed``, ``cassette.exchanges``, ``path``. None with ``--disable-recording``."""
    from dragoman.testing import plugin_cassettes

    with plugin_cassettes.use_cassette(request.node, cassette_path(request.node)) as recorder:
        if recorder is not None:
            request.node.stash[_recorder] = recorder
            for note in plugin_cassettes.find_staleness(recorder, request.config):
                request.node.user_properties.append((STALE, note))
        yield recorder


@pytest.fixture
def dragoman_replayed_keys(request: pytest.FixtureRequest) -> Iterator[None]:
    """Placeholder keys for a test with pytest-recording's mark that replays a file in our format."""
    from dragoman.testing import plugin_cassettes

    with plugin_cassettes.use_placeholder_keys(request.getfixturevalue(VCR_MARK)):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail the test if it sent an unrecorded request or left exchanges unplayed."""
    recorder = item.stash.get(_recorder, None)
    if recorder is None:
        return (yield)
    try:
        result = yield
    except BaseException as error:
        if recorder.allow_repeats:
            from dragoman.testing import plugin_faults

            plugin_faults.record_error(item, error)
        for miss in recorder.misses:
            item.add_report_section("call", MARK, str(miss))
        raise
    if recorder.misses:
        pytest.fail(_with_advice(recorder, str(recorder.misses[0])), pytrace=False)
    if recorder.unplayed and not recorder.recording and not recorder.allow_repeats:
        total = len(recorder.cassette.exchanges)
        unplayed = f"{recorder.path.name}: {recorder.unplayed} of {total} recorded exchanges were not played"
        pytest.fail(_with_advice(recorder, unplayed), False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Begin the line of the short summary with what to do, if a request was not recorded."""
    report = yield
    recorder = item.stash.get(_recorder, None)
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.when == "call" and recorder is not None and recorder.misses and crash is not None:
        crash.message = _with_advice(recorder, str(recorder.misses[0]))
    return report


def _with_advice(recorder: Any, problem: str) -> str:
    """Put the way to record again before a problem: the line is short, and its end is cut off."""
    return f"--record-mode=rewrite records it again: {problem}" if recorder.path.exists() else problem


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """With ``--llm-faults``, run the test once as it is and once with each fault."""
    kinds = item.config.getoption("--llm-faults")
    if kinds is None or not item.get_closest_marker(MARK):
        return None
    from dragoman.testing import plugin_faults

    seed = item.config.getoption("--llm-faults-seed")
    plugin_faults.run(item, nextitem, kinds, seed, cassette=cassette_path(item), property_name=FAULTS)
    return True


def cassette_path(item: pytest.Item) -> Path:
    """Return the path of a test's recording: ``cassettes/<module>/<test>.yaml``, or the path in its mark."""
    mark = item.get_closest_marker(MARK)
    spec = getattr(item, "callspec", None)
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    test = ".".join([*classes, item.name])
    names = {"test": _UNSAFE_CHARACTERS.sub("-", test), "id": _UNSAFE_CHARACTERS.sub("-", spec.id) if spec else ""}
    if mark is None or not mark.args:
        return item.path.parent / FOLDER / item.path.stem / f"{names['test']}.yaml"
    return item.path.parent / FOLDER / str(mark.args[0]).format(**names)


class _RunNotes:
    """Collects the notes of tests for the end of the run, including those of pytest-xdist's workers."""

    def __init__(self) -> None:
        self.stale: dict[str, None] = {}
        self.faults: dict[str, Any] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == STALE:
                self.stale[str(value)] = None
            elif name == FAULTS:
                self.faults[report.nodeid] = json.loads(str(value))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.stale:
            terminalreporter.section("stale recordings", "-")
            for note in self.stale:
                terminalreporter.write_line(note)
        if self.faults:
            from dragoman.testing import plugin_faults

            terminalreporter.section("outcomes with faults", "-")
            for line in plugin_faults.format_table(self.faults):
                terminalreporter.write_line(line)


class _OrphanedRecordings(pytest.Item):
    """A failing item for recordings that no test uses."""

    def __init__(self, *, files: Sequence[Path], **rest: Any) -> None:
        super().__init__(**rest)
        self.files = files

    def runtest(self) -> None:
        root = self.config.rootpath
        names = [str(file.relative_to(root)) if file.is_relative_to(root) else str(file) for file in self.files]
        pytest.fail("no test plays these recordings: delete them, or find out why:\n  " + "\n  ".join(names), False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.files[0], None, self.name


def _find_orphans(config: pytest.Config, items: Sequence[pytest.Item], played: set[Path]) -> list[Path]:
    """Return files in our format that belong to a collected module or folder but to no test. pytest-recording has its
    own names for files, so the files of a module with its mark are not looked at."""
    others = {item.path for item in items if item.get_closest_marker(VCR_MARK)}
    modules = {item.path for item in items}
    named_paths = [Path(config.invocation_params.dir, arg).resolve() for arg in config.args]
    found = []
    for folder in sorted({path.parent for path in modules}):
        whole = any(folder.is_relative_to(each) for each in named_paths if each.is_dir())
        for file in sorted((folder / FOLDER).rglob("*.yaml")):
            owner = folder / f"{file.relative_to(folder / FOLDER).parts[0]}.py"
            known = owner in modules or (whole and not owner.exists())
            if known and owner not in others and file not in played:
                with file.open(encoding="utf-8", errors="replace") as text:
                    if _OWN_FORMAT.match(text.read(4_096)):
                        found.append(file)
    return found
