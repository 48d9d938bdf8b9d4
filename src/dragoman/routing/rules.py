"""Declarative rules: choose the model of a turn by its size, media, tools, price, labels, users and teams.

A rule only picks a model. It is data, not code, and independent of other rules. Rules are tried in order.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic_core import PydanticCustomError

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import Count, Text
from dragoman.canonical.tools import SideEffects
from dragoman.routing.request import RouteRequest


def _reject_float(value: Any) -> Any:
    if isinstance(value, float):
        raise PydanticCustomError(
            "not_exact", "an amount of money must be a Decimal, an int or a string: a float is not exact"
        )
    return value


Usd = Annotated[Decimal, BeforeValidator(_reject_float), Field(ge=0, allow_inf_nan=False)]
"""An amount of US dollars."""


Names = Annotated[frozenset[Text], PlainSerializer(sorted, return_type=list[str], when_used="json")]
"""A set with a fixed order in JSON."""


_FACTS = ("tools", "images", "audio", "video", "documents", "output_schema")
"""Facts of a turn that a condition may demand or exclude."""


class When(FrozenModel):
    """Conditions on a turn. All that are given must hold; without conditions, every turn matches.

    Sizes and prices are those of the rule's own model. An unknown value, such as a price, fulfils no condition.
    """

    tokens_over: Count | None = None
    """Estimated prompt tokens, history included."""
    tokens_under: Count | None = None
    """The estimated prompt tokens are fewer."""
    has_tools: bool | None = None
    """Whether the turn offers tools."""
    has_images: bool | None = None
    """Whether the request contains images."""
    has_audio: bool | None = None
    """Whether the request contains audio."""
    has_video: bool | None = None
    """Whether the request contains video."""
    has_documents: bool | None = None
    """Whether the request contains documents."""
    has_output_schema: bool | None = None
    """Whether the reply has to follow a schema."""
    side_effects: Annotated[
        frozenset[SideEffects], PlainSerializer(sorted, return_type=list[str], when_used="json")
    ] = frozenset()
    """A tool that is offered has one of these."""
    text_contains: tuple[Text, ...] = ()
    """Any of these in the user's text, case-insensitive."""
    labels: Names = frozenset()
    """All of these."""
    users: Names = frozenset()
    """One of these user ids."""
    teams: Names = frozenset()
    """One of these team ids."""
    cost_under_usd: Usd | None = None
    """The maximum cost of one reply: the prompt and the maximum output."""
    cost_over_usd: Usd | None = None
    """The maximum cost of one reply is higher than this."""
    spent_over_usd: Usd | None = None
    """What was spent before, in a period that the program defines."""
    any_of: tuple["When", ...] = ()
    """One of these holds as well."""
    none_of: tuple["When", ...] = ()
    """None of these holds."""

    if TYPE_CHECKING:  # the same fields, but amounts of money are also accepted as str and int

        def __init__(
            self,
            *,
            tokens_over: int | None = None,
            tokens_under: int | None = None,
            has_tools: bool | None = None,
            has_images: bool | None = None,
            has_audio: bool | None = None,
            has_video: bool | None = None,
            has_documents: bool | None = None,
            has_output_schema: bool | None = None,
            side_effects: frozenset[SideEffects] = frozenset(),
            text_contains: tuple[str, ...] = (),
            labels: frozenset[str] = frozenset(),
            users: frozenset[str] = frozenset(),
            teams: frozenset[str] = frozenset(),
            cost_under_usd: Decimal | str | int | None = None,
            cost_over_usd: Decimal | str | int | None = None,
            spent_over_usd: Decimal | str | int | None = None,
            any_of: tuple["When", ...] = (),
            none_of: tuple["When", ...] = (),
        ) -> None: ...

    def matches(
        self, request: RouteRequest, tokens: Callable[[], int | None], cost: Callable[[], Decimal | None]
    ) -> bool:
        """Return whether the turn meets all conditions. ``tokens`` and ``cost`` are called only if a condition needs
        them."""
        text = request.text.casefold()
        return (
            all(getattr(self, f"has_{fact}") in (None, getattr(request, fact)) for fact in _FACTS)
            and (not self.side_effects or not self.side_effects.isdisjoint(request.side_effects))
            and (not self.text_contains or any(part.casefold() in text for part in self.text_contains))
            and self.labels <= request.labels
            and (not self.users or request.user_id in self.users)
            and (not self.teams or request.team_id in self.teams)
            and _is_between(self.tokens_over, tokens, self.tokens_under)
            and _is_between(self.cost_over_usd, cost, self.cost_under_usd)
            and _is_between(self.spent_over_usd, lambda: request.spent_usd, None)
            and (not self.any_of or any(condition.matches(request, tokens, cost) for condition in self.any_of))
            and not any(condition.matches(request, tokens, cost) for condition in self.none_of)
        )


class Rule(FrozenModel):
    """Turns that match ``when`` go to ``model``, a model id or an alias, if it can take them.

    A rule without a name is named by its position, ``rule 1`` for the first. For a second choice, write a second rule
    with the same conditions.
    """

    model: Text
    when: When = Field(default_factory=When)
    name: Text | None = None
    """The name in the decision record, unique in a router."""


def named_labels(when: When) -> frozenset[str]:
    """Return the labels that any of the conditions names."""
    return when.labels.union(*(named_labels(condition) for condition in (*when.any_of, *when.none_of)))


def label_rules(models: Mapping[str, Iterable[str]]) -> tuple[Rule, ...]:
    """Return one rule for each model of the table, which lists models by label, the first choice first.

    The rules send labelled content to the models that may see it. No other model gets it, whoever asks for that model:
    a request to one is refused with PolicyDeniedError before it is sent.

    A rule matches a turn with one of its model's labels and with no label that does not list the model: content with
    several labels goes to a model that all of them list. Labels outside the table are ignored. Models are ids or
    aliases, not globs. Raises ConfigurationError if a label has a string in place of a list.
    """
    labels: dict[str, list[str]] = {}
    for label, label_models in models.items():
        if isinstance(label_models, str):
            raise ConfigurationError(f"the models of the label {label!r:.80} must be a list: [{label_models!r:.80}]")
        for model in label_models:
            labels.setdefault(model, []).append(label)
    rules = []
    for model, allowed_labels in labels.items():
        others = models.keys() - set(allowed_labels)
        when = When(any_of=_any_label(allowed_labels), none_of=_any_label(others))
        rules.append(Rule(model=model, when=when, name=f"labels for {model}"))
    return tuple(rules)


def _any_label(labels: Iterable[str]) -> tuple[When, ...]:
    return tuple(When(labels=frozenset({label})) for label in sorted(labels))


def _is_between(over: Any, value: Callable[[], Any], under: Any) -> bool:
    if over is None and under is None:
        return True
    found = value()
    return found is not None and (over is None or found > over) and (under is None or found < under)
