"""Laws of money: counts as the wire told them, exact prices, and unknown is None."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from dragoman.adapter.decoding import decode
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.testing.conformance.said import PLAIN, Said
from dragoman.testing.conformance.subject import Subject, fitted
from dragoman.testing.stream_laws import Trial

_INPUT, _CACHED, _OUTPUT = Decimal("0.000003"), Decimal("0.0000003"), Decimal("0.000015")


@dataclass(slots=True)
class _Table:
    """Made-up prices for a token in, a cached token and a token out; none at all where ``knows`` is False."""

    knows: bool = True
    asked: list[str] = field(default_factory=list)

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        self.asked.append(model_id)
        if not self.knows:
            return Usage(**dict(usage))
        cost = usage.input_tokens * _INPUT + usage.cached_input_tokens * _CACHED + usage.output_tokens * _OUTPUT
        return Usage(**dict(usage), cost_usd=cost, cost_status=CostStatus.PRICED, pricing_version="kit")


def counts(subject: Subject) -> Iterator[Trial]:
    """The buckets are disjoint and hold what the wire told: the prompt without cached tokens, these, the output."""
    for wire in subject.spoken():
        for number, said in enumerate(subject.said(wire)):
            usage = subject.reply(wire, said).usage
            yield Trial(f"reply {number}", tuple(_count_faults(usage, said)))


def _count_faults(usage: Usage | None, said: Said) -> Iterator[str]:
    if usage is None:
        yield "no usage, although the wire tells it"
        return
    told = (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    if told != (due := (said.input_tokens, said.cached_tokens, said.output_tokens)):
        yield f"uncached, cached and output tokens are {told}, and not {due}"
    if usage.cache_creation_input_tokens:
        yield f"{usage.cache_creation_input_tokens} tokens written to a cache that nobody told of"
    if usage.discrepancy:
        yield f"the provider's total differs by {usage.discrepancy}"


def prices(subject: Subject) -> Iterator[Trial]:
    """A reply costs what its tokens cost, to the last digit, streamed and whole, for the model that answered."""
    for wire in subject.spoken():
        for number, said in enumerate(subject.said(wire)):
            due = said.input_tokens * _INPUT + said.cached_tokens * _CACHED + said.output_tokens * _OUTPUT
            table = _Table()
            last = subject.streamed(wire, said, subject.context(prices=table))[-1]
            streamed = last.message.usage if isinstance(last, MessageComplete) else None
            whole = subject.reply(wire, said, subject.context(prices=table)).usage
            for way, usage in (("streamed", streamed), ("whole", whole)):
                cost = None if usage is None else usage.cost_usd
                faults = [] if cost == due and isinstance(cost, Decimal) else [f"it costs {cost!r}, and not {due}"]
                yield Trial(f"reply {number}, {way}", tuple(faults))
            strange = [model for model in table.asked if not model.startswith(f"{subject.provider}:")]
            yield Trial("the model", tuple(f"the price of {model} was asked for" for model in strange))


def unknown_prices(subject: Subject) -> Iterator[Trial]:
    """Where nobody knows the price, the cost is None and never 0; without a table there is no cost either."""
    for wire in subject.spoken():
        for name, table in (("a table that does not know", _Table(knows=False)), ("no table", None)):
            usage = subject.reply(wire, fitted(PLAIN, wire), subject.context(prices=table)).usage
            unknown = usage is not None and usage.cost_usd is None and usage.cost_status is CostStatus.UNPRICED
            yield Trial(name, () if unknown else (f"the usage is {usage}",))


def broken_replies(subject: Subject) -> Iterator[Trial]:
    """What a broken stream costs is a lower bound or unknown, never a price that looks exact."""
    for wire in subject.spoken():
        body = wire.stream(fitted(PLAIN, wire))
        for at in range(0, wire.ends_at(body), max(1, len(body) // 20)):
            last = list(decode([body[:at]], subject.adapter.decoder(subject.context(prices=_Table()))))[-1]
            partial = last.partial if isinstance(last, ErrorEvent) else None
            usage = None if partial is None else partial.usage
            exact = usage is not None and usage.cost_status is CostStatus.PRICED
            yield Trial(f"cut at {at}", ("its cost is said to be exact",) if exact else ())


def estimates(subject: Subject) -> Iterator[Trial]:
    """An estimate of a prompt is at least 1, the same each time, and grows with what is said."""
    from dragoman.canonical.message import Message

    short = [Message.user("How far is it?")]
    longer = [*short, Message.assistant("It is 7 metres. " * 40), Message.user("Thanks.")]
    one, again, more = (subject.adapter.estimate_input_tokens(each, []) for each in (short, short, longer))
    faults = [] if 1 <= one == again < more else [f"{one}, again {again}, and {more} for more"]
    yield Trial("two histories", tuple(faults))
