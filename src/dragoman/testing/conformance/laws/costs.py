"""Laws of costs: counts as on the wire, exact prices, and None if unknown."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from dragoman.adapter import wirejson
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.testing.conformance.subject import Subject, fit_to_wire, last_event, parse_body
from dragoman.testing.sample_reply import PLAIN
from dragoman.testing.stream_laws import Trial

_INPUT, _CACHED, _OUTPUT = Decimal("0.000003"), Decimal("0.0000003"), Decimal("0.000015")


@dataclass(slots=True)
class _FakePrices:
    """Invented prices for input, cached and output tokens; no prices if ``has_prices`` is False."""

    has_prices: bool = True
    priced_models: list[str] = field(default_factory=list)

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        self.priced_models.append(model_id)
        if not self.has_prices:
            return Usage(**dict(usage))
        cost = usage.input_tokens * _INPUT + usage.cached_input_tokens * _CACHED + usage.output_tokens * _OUTPUT
        return Usage(**dict(usage), cost_usd=cost, cost_status=CostStatus.PRICED, pricing_version="kit")


def counts(subject: Subject) -> Iterator[Trial]:
    """The buckets are disjoint and match the wire: uncached prompt tokens, cached tokens, output tokens."""
    for wire in subject.require_wires():
        for number, sample in enumerate(subject.sample_replies(wire)):
            usage = subject.reply(wire, sample).usage
            if usage is None:
                yield Trial(f"reply {number}", ("no usage, although the wire has it",))
                continue
            found = (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
            expected = (sample.input_tokens, sample.cached_tokens, sample.output_tokens)
            written, differs = usage.cache_creation_input_tokens, usage.discrepancy
            faults = [] if found == expected else [f"uncached, cached and output tokens are {found}, not {expected}"]
            faults += [f"{written} tokens written to a cache, which the wire does not report"] if written else []
            faults += [f"the provider's total differs by {differs}"] if differs else []
            yield Trial(f"reply {number}", tuple(faults))


def prices(subject: Subject) -> Iterator[Trial]:
    """The cost of a reply is exact to the last digit, streamed and whole, for the model that answered."""
    for wire in subject.require_wires():
        for number, sample in enumerate(subject.sample_replies(wire)):
            expected = sample.input_tokens * _INPUT + sample.cached_tokens * _CACHED + sample.output_tokens * _OUTPUT
            table = _FakePrices()
            last = subject.stream_events(wire, sample, subject.context(prices=table))[-1]
            streamed = last.message.usage if isinstance(last, MessageComplete) else None
            whole = subject.reply(wire, sample, subject.context(prices=table)).usage
            for mode, usage in (("streamed", streamed), ("whole", whole)):
                cost = None if usage is None else usage.cost_usd
                faults = (
                    [] if cost == expected and isinstance(cost, Decimal) else [f"it costs {cost!r}, not {expected}"]
                )
                yield Trial(f"reply {number}, {mode}", tuple(faults))
            foreign_models = [model for model in table.priced_models if not model.startswith(f"{subject.provider}:")]
            yield Trial("the model", tuple(f"the price of {model} was requested" for model in foreign_models))


def unknown_prices(subject: Subject) -> Iterator[Trial]:
    """If the price is unknown, the cost is None and never 0; without a table there is no cost either."""
    for wire in subject.require_wires():
        for name, table in (("a table that does not know", _FakePrices(has_prices=False)), ("no table", None)):
            usage = subject.reply(wire, fit_to_wire(PLAIN, wire), subject.context(prices=table)).usage
            unknown = usage is not None and usage.cost_usd is None and usage.cost_status is CostStatus.UNPRICED
            yield Trial(name, () if unknown else (f"the usage is {usage}",))


def missing_counts(subject: Subject) -> Iterator[Trial]:
    """A reply without its counts has an unknown usage, and never one of 0 tokens."""
    for wire in subject.require_wires():
        native = parse_body(wire.whole(fit_to_wire(PLAIN, wire)))
        if not isinstance(native, dict):
            continue
        for name in native:
            body = wirejson.dumps({key: value for key, value in native.items() if key != name})
            try:
                usage = subject.adapter.from_wire_response(WireResponse(200, body), subject.context()).usage
            except DragomanError:
                continue
            fault = f"the usage is {usage}"
            yield Trial(f"without {name}", () if usage is None or usage.total_tokens or usage.unread else (fault,))


def broken_replies(subject: Subject) -> Iterator[Trial]:
    """The cost of a broken stream is a lower bound or unknown, and never looks exact."""
    for wire in subject.require_wires():
        body = wire.stream(fit_to_wire(PLAIN, wire))
        for at in range(0, wire.ends_at(body), max(1, len(body) // 20)):
            last = last_event(subject, [body[:at]], prices=_FakePrices())
            partial = last.partial if isinstance(last, ErrorEvent) else None
            usage = None if partial is None else partial.usage
            exact = usage is not None and usage.cost_status is CostStatus.PRICED
            yield Trial(f"cut at {at}", ("its cost is said to be exact",) if exact else ())


def estimates(subject: Subject) -> Iterator[Trial]:
    """An estimate of a prompt is at least 1, the same each time, and grows with the text."""
    short = [Message.user("How far is it?")]
    longer = [*short, Message.assistant("It is 7 metres. " * 40), Message.user("Thanks.")]
    one, again, more = (subject.adapter.estimate_input_tokens(each, []) for each in (short, short, longer))
    faults = [] if 1 <= one == again < more else [f"{one}, again {again}, and {more} for more"]
    yield Trial("two histories", tuple(faults))
