"""The kit over an adapter: as a test class with one test per law, as a scorecard, and the suites of a package."""

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, ClassVar

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import GROUP, adapter_class
from dragoman.testing.conformance.laws import LAWS, Law, LawResult, Mark
from dragoman.testing.conformance.subject import Effort, Subject
from dragoman.testing.conformance.wire import Wire

_SIGNS = {Mark.HOLDS: "✓ holds", Mark.BROKEN: "✗ broken", Mark.NOT_TRIED: "· not tried"}
KITS = "dragoman.conformance"
"""The entry-point group with a package's suite for each of its providers."""


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The results of one model's adapter. ``adapter`` is the tested class, with its module."""

    model: str
    """The model, as ``provider:name``."""
    adapter: str
    results: tuple[LawResult, ...]
    """One result for each law, chapter by chapter."""

    @property
    def passed(self) -> bool:
        """Whether no law is broken. Laws that were not tried do not count; see `complete`."""
        return not self.count(Mark.BROKEN)

    @property
    def complete(self) -> bool:
        """Whether the kit has what it needs to try the laws of replies."""
        return any(result.law.chapter == "streams" and result.verdict.tried for result in self.results)

    @property
    def trials(self) -> int:
        """The number of trials of all laws."""
        return sum(result.verdict.tried for result in self.results)

    def count(self, mark: Mark) -> int:
        """Return how many laws have this mark."""
        return sum(result.mark is mark for result in self.results)

    def chapters(self) -> Iterator[tuple[str, list[LawResult]]]:
        """Yield each chapter's name with its results."""
        for chapter, results in groupby(self.results, key=lambda result: result.law.chapter):
            yield chapter, list(results)

    def __str__(self) -> str:
        summary = f"{self.count(Mark.HOLDS)} laws hold, {self.count(Mark.BROKEN)} are broken"
        return f"{self.model}: {summary}, {self.count(Mark.NOT_TRIED)} were not tried; {self.trials:,} trials"


def conform(
    adapter: Adapter, wires: Wire | Iterable[Wire] = (), effort: Effort | None = None, laws: Iterable[Law] = LAWS
) -> Scorecard:
    """Try the laws on an adapter. ``wires`` describe how its provider answers.

    Never raises an adapter's exception: it is a fault on the scorecard.
    """
    subject = Subject(adapter, (wires,) if isinstance(wires, Wire) else tuple(wires), effort or Effort())
    kind = type(adapter)
    with quiet():
        results = tuple(law.run(subject) for law in laws)
    return Scorecard(subject.model, f"{kind.__module__}.{kind.__qualname__}", results)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the log: losses and unknown events are expected here, and each would be a warning."""
    logger = logging.getLogger("dragoman")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def page(cards: Sequence[Scorecard]) -> str:
    """Return one HTML page that needs no script, font or network.

    Everything that comes from an adapter or its wire is escaped.
    """
    style = files("dragoman.testing.conformance").joinpath("scorecard.css").read_text(encoding="utf-8")
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
        f"<title>Conformance</title><style>\n{style}</style></head><body>\n<h1>Conformance</h1>\n",
    ]
    for card in cards:
        parts.append(f"<h2>{escape(card.model)}</h2>\n<p>{escape(str(card))}<br>")
        parts.append(f"<code>{escape(card.adapter)}</code></p>\n")
        for chapter, results in card.chapters():
            parts.append(f"<h3>{escape(chapter)}</h3>\n<table><tr><th>law</th><th>trials</th><th>result</th></tr>\n")
            parts += [*map(_render_row, results), "</table>\n"]
    return "".join([*parts, "</body></html>\n"])


def _render_row(result: LawResult) -> str:
    law, found, mark = result.law, result.verdict, result.mark
    outcomes = ", ".join(f"{name} {times}" for name, times in sorted(found.outcomes.items()))
    notes = (
        f'<span class="says">{escape(result.skip_reason or outcomes)}</span>' if result.skip_reason or outcomes else ""
    )
    faults = f"<pre>{escape(chr(10).join(found.faults))}</pre>" if found.faults else ""
    return (
        f'<tr><td>{escape(law.name)}<span class="says">{escape(law.statement)}</span>{faults}</td>'
        f'<td class="number">{found.tried:,}</td>'
        f'<td class="{str(mark).replace(" ", "-")}">{_SIGNS[mark]}{notes}</td></tr>\n'
    )


class AdapterConformance:
    """Base class of a suite: name the adapter, and pytest runs every law on each of its models::

        class TestAcme(AdapterConformance):
            adapter = AcmeAdapter
            models = ("acme-large", "acme-small")
            wire = WIRE

    ``adapter`` is the class or its registered name. ``models`` defaults to the models that it lists. ``wire`` describes
    how the provider answers: a `Wire` or several. Without one, the laws of replies are skipped. A law that does not
    apply is skipped with its reason.
    """

    adapter: ClassVar[type[Adapter] | str]
    models: ClassVar[tuple[str, ...]] = ()
    wire: ClassVar[Wire | Iterable[Wire]] = ()
    effort: ClassVar[Effort] = Effort()
    """How many replays each stream gets."""

    @classmethod
    def subjects(cls, only: Iterable[str] = ()) -> tuple[Subject, ...]:
        """Return one subject per model, or for ``only`` these models.

        Raises ConfigurationError if there is no adapter or no model.
        """
        named = getattr(cls, "adapter", None)
        if named is None:
            raise ConfigurationError(f"{cls.__name__} does not name its adapter: set `adapter`")
        kind = adapter_class(named) if isinstance(named, str) else named
        wires = (cls.wire,) if isinstance(cls.wire, Wire) else tuple(cls.wire)
        models = tuple(only) or cls.models or kind.listed_models
        if not models:
            raise ConfigurationError(
                f"{cls.__name__} has nothing to test: set `models`, because the adapter lists none"
            )
        return tuple(Subject(kind(model), wires, cls.effort) for model in models)

    @classmethod
    def scorecards(cls) -> list[Scorecard]:
        """Run all laws on all models, without pytest."""
        return [conform(subject.adapter, subject.wires, subject.effort) for subject in cls.subjects()]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Parametrize the test by model and law."""
        if "law" in metafunc.fixturenames and "subject_of_the_law" in metafunc.fixturenames:
            pairs = [(subject, law) for subject in type(self).subjects() for law in LAWS]
            names = [f"{subject.adapter.model}-{law.chapter}-{law.name}".replace(" ", "_") for subject, law in pairs]
            metafunc.parametrize(("subject_of_the_law", "law"), pairs, ids=names)

    def test_a_law_holds(self, subject_of_the_law: Subject, law: Law) -> None:
        """See the law's own sentence, which a failure shows."""
        import pytest

        with quiet():
            result = law.run(subject_of_the_law)
        if result.mark is Mark.NOT_TRIED:
            pytest.skip(result.skip_reason)
        found = result.verdict
        if found.failed:
            report = "\n  ".join([f"{found.failed} of {found.tried} trials break it:", *found.faults])
            pytest.fail(f"{subject_of_the_law.model}, {law}: {law.statement}\n  {report}", pytrace=False)


def find_suites(package: str, kit: str | None = None) -> tuple[type[AdapterConformance], ...]:
    """Return the suites of a package, given its import name, its distribution's name, or one of its providers.

    ``kit`` is ``module:Class``, for a suite without an entry point; the current folder is searched as well. An adapter
    without a suite is tested without its wire. Raises ConfigurationError.
    """
    if kit is not None:
        module, _, name = kit.partition(":")
        if not (module and name):
            raise ConfigurationError(f"{kit!r} is not the name of a suite: write it as module:Class")
        folder = str(Path.cwd())  # searched as by pytest and ``python -m``
        sys.path.insert(0, folder)
        try:
            return (_require_suite(kit, getattr(import_module(module), name)),)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"the suite {kit} cannot be loaded: {error}") from error
        finally:
            sys.path.remove(folder)
    adapters = sorted(entry for entry in entry_points(group=GROUP) if _is_of(entry, package))
    if not adapters:
        raise ConfigurationError(
            f"no adapter of {package!r} is installed: searched the entry points in the group {GROUP!r},"
            " by the package's name, its distribution's, or the provider's"
        )
    kits = {entry.name: entry for entry in entry_points(group=KITS)}
    return tuple(
        _require_suite(kits[each.name].value, kits[each.name].load())
        if each.name in kits
        else type(f"Test{each.name.title()}", (AdapterConformance,), {"adapter": each.name})
        for each in adapters
    )


def _is_of(entry: EntryPoint, package: str) -> bool:
    distribution = entry.dist.name if entry.dist is not None else ""
    module = entry.value.partition(":")[0]
    names = {entry.name, *accumulate(module.split("."), "{}.{}".format)}
    # Our own distribution has all of our adapters: its name would select every one of them.
    return package in names or (package == distribution and distribution != "dragoman")


def _require_suite(place: str, found: object) -> type[AdapterConformance]:
    if isinstance(found, type) and issubclass(found, AdapterConformance):
        return found
    raise ConfigurationError(f"{place} is not an AdapterConformance class")
