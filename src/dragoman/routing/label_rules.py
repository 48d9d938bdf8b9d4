"""Rules that send labelled content to the models that may see it, and nowhere else by rule.

A router's users may still ask for another model, which goes before any rule: what then stops the request is
`dragoman.policy.plugins.LabelledModels` with the same table.
"""

from collections.abc import Iterable, Mapping

from dragoman.adapter.errors import ConfigurationError
from dragoman.routing.rules import Rule, When


def label_rules(models: Mapping[str, Iterable[str]]) -> tuple[Rule, ...]:
    """One rule for each model of the table, which has the models by label, the first choice first.

    A rule fits a turn that bears one of its model's labels, and none that the model is not listed under: content under
    several labels goes to a model that all of them list. Labels that are not in the table count for nothing. Models are
    ids or aliases, not globs. Raises ConfigurationError where a label has one word in the place of a list.
    """
    labels: dict[str, list[str]] = {}
    for label, listed in models.items():
        if isinstance(listed, str):
            raise ConfigurationError(f"the models of the label {label!r:.80} are a list: [{listed!r:.80}]")
        for model in listed:
            labels.setdefault(model, []).append(label)
    return tuple(
        _label_rule(model, allowed_labels, models.keys() - set(allowed_labels))
        for model, allowed_labels in labels.items()
    )


def _label_rule(model: str, allowed_labels: Iterable[str], other_labels: Iterable[str]) -> Rule:
    when = When(any_of=_any_label(allowed_labels), none_of=_any_label(other_labels))
    return Rule(model=model, when=when, name=f"labels for {model}")


def _any_label(labels: Iterable[str]) -> tuple[When, ...]:
    return tuple(When(labels=frozenset({label})) for label in sorted(labels))
