"""Restricts labelled content to the models that may see it."""

from collections.abc import Iterable, Mapping

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.slots import LLMExtension
from dragoman.canonical.glob import Glob
from dragoman.policy.plugin import Hook, Plugin, Violation
from dragoman.policy.slots import Capability
from dragoman.policy.step import Step, compile_globs


class LabelledModels(Plugin):
    """Denies a request if its model may not see one of its labels; a label that is not listed is not restricted.

    ``models`` are globs over model ids by label: ``{"PII": ["ollama:**", "local:**"]}``. Content with several labels
    needs a model that all of them allow. It decides where a request leaves, so that it sees the labels that any other
    plugin adds, whatever its mode, and the model that is really asked. If the model is unknown, the request is denied.
    To route such turns to an allowed model in the first place, give `dragoman.routing.label_rules` to the session's
    router.
    """

    name = "labelled_models"
    hooks: Iterable[Hook | str] = (Hook.REQUEST,)
    capabilities: Iterable[Capability | str] = (Capability.READ_LABELS,)

    def __init__(self, models: Mapping[str, Iterable[str]]) -> None:
        """Raises ConfigurationError if a label has a string instead of a list or a pattern that is too long, or if
        there are no labels."""
        if not isinstance(models, Mapping):
            raise ConfigurationError(
                f"map labels to models, as in {{'PII': ['local:**']}}, not a {type(models).__name__}"
            )
        self._allowed: dict[str, tuple[Glob, ...]] = {}
        for label, patterns in models.items():
            if isinstance(patterns, str):
                raise ConfigurationError(f"the models of the label {label!r:.80} must be a list: [{patterns!r:.80}]")
            self._allowed[label] = compile_globs(patterns)

    def check(self, step: Step) -> Violation | None:
        security = step.extensions.security
        restricted = sorted((security.labels if security else frozenset()) & self._allowed.keys())
        if not restricted:
            return None
        model = model_of(step.extensions.llm)
        for label in restricted:
            if model is None or not any(each.matches(model) for each in self._allowed[label]):
                return Violation(
                    f"content under the label {label!r:.80} is not for {model or 'a model that is not named'}",
                    code="model_not_allowed",
                )
        return None


def model_of(llm: LLMExtension | None) -> str | None:
    """Return the model id, ``provider:name``, whether or not the slot's name includes the provider."""
    if llm is None or not llm.model_id:
        return None
    if not llm.provider or llm.model_id.startswith(f"{llm.provider}:"):
        return llm.model_id
    return f"{llm.provider}:{llm.model_id}"
