"""The kit as a test class with one test per law."""

from collections.abc import Iterable
from typing import Any, ClassVar

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import adapter_class
from dragoman.testing.conformance.law import Law, Mark
from dragoman.testing.conformance.laws import LAWS
from dragoman.testing.conformance.scorecard import Scorecard, conform, quiet
from dragoman.testing.conformance.subject import Effort, Subject
from dragoman.testing.conformance.wire import Wire


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
