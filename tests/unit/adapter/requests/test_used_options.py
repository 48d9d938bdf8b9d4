"""Options are used up: one that is not taken is a loss. A table maps options in both directions."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from dragoman import AdapterOptions, RequestContext
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.losses import LossKind
from dragoman.adapter.options import UsedOptions
from dragoman.adapter.requests.option_table import OptionTable
from dragoman.adapter.requests.request_builder import RequestBuilder, Target

TABLE = OptionTable(
    {
        "max_output_tokens": "limits.tokens",
        "temperature": "heat",
        "top_p": "breadth",
        "stop_sequences": "stop",
        "seed": None,
    },
    absent="the wire of this test has none",
)


def request_for(options: AdapterOptions, **capabilities: Any) -> RequestBuilder:
    target = Target("toy", "m", AdapterCapabilities(**capabilities))
    return RequestBuilder(target, options, RequestContext(model="toy:m"), (), [])


def encode(options: AdapterOptions, **capabilities: Any) -> tuple[dict[str, Any], list[str]]:
    request = request_for(options, **capabilities)
    body: dict[str, Any] = {}
    TABLE.encode(request, body)
    request.record_unused_options()
    assert {loss.kind for loss in request.losses} <= {LossKind.OPTION}
    return body, [loss.reason for loss in request.losses]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stop_sequences": ()},
        {"stream": True, "strict_prefix": True, "headers": {"toy": {"x-a": "1"}}, "extra": {"toy": {"a": 1}}},
    ],
)
def test_options_that_ask_the_model_for_nothing_are_no_loss(options: dict[str, Any]) -> None:
    """None, empty values, and the options of how to send a request."""
    assert UsedOptions(AdapterOptions(**options)).take_rest() == []


def test_false_and_zero_ask_for_something() -> None:
    """Only None and empty collections count as not set."""
    assert UsedOptions(AdapterOptions(thinking=False, seed=0)).take_rest() == ["seed", "thinking"]


def test_a_taken_option_is_no_rest() -> None:
    """Each option is taken once, by its encoder or at the end."""
    used = UsedOptions(AdapterOptions(seed=7, top_k=3))
    assert used.take("seed") == 7
    assert used.take_rest() == ["top_k"]
    assert used.take_rest() == []


def test_the_default_of_a_newer_option_is_no_wish() -> None:
    """A subclass may have defaults other than None."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Newer(AdapterOptions):
        creativity: str = "usual"

    assert UsedOptions(Newer()).take_rest() == []
    assert UsedOptions(Newer(creativity="wild")).take_rest() == ["creativity"]


def test_a_copy_for_another_request_differs_in_its_context_alone() -> None:
    """A subclass may keep its options elsewhere than `AdapterOptions` does."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Newer(AdapterOptions):
        creativity: str = "usual"

    context, later = RequestContext(model="toy:m"), RequestContext(model="toy:n")
    for options in (AdapterOptions(seed=7, stream=True), Newer(creativity="wild", seed=7)):
        copied = options.with_context(context)
        assert copied == replace(options, context=context) != options
        assert (type(copied), options.context) == (type(options), None)
        assert copied.with_context(later) == replace(options, context=later)
        assert UsedOptions(copied).take_rest() == UsedOptions(options).take_rest()
        assert UsedOptions(replace(copied, top_k=3)).take_rest() == ["top_k", *UsedOptions(options).take_rest()]


def test_a_table_writes_its_options_and_the_rest_is_lost() -> None:
    """Paths may be nested; a row without a path gives the table's reason, an option without a row the general one."""
    body, lost = encode(AdapterOptions(max_output_tokens=5, temperature=0.5, stop_sequences=("a",), seed=1, top_k=2))
    assert body == {"limits": {"tokens": 5}, "heat": 0.5, "stop": ["a"]}
    assert lost == ["seed: the wire of this test has none", "top_k: the wire has no such option"]


def test_a_table_respects_what_the_model_refuses() -> None:
    """Sampling, stop sequences and options that the model's facts name."""
    options = AdapterOptions(max_output_tokens=5, temperature=0.5, stop_sequences=("a", "b"))
    facts = {"refused_options": ["max_output_tokens"]}
    body, lost = encode(options, sampling="never", max_stop_sequences=1, wire=facts)
    assert body == {"stop": ["a"]}
    assert [reason.partition(":")[0] for reason in lost] == ["max_output_tokens", "temperature", "stop_sequences"]


def test_named_options_are_written_first_and_the_others_later() -> None:
    """An encoder may need some of the options before it knows whether the model reasons."""
    request = request_for(AdapterOptions(max_output_tokens=5, temperature=0.5))
    body: dict[str, Any] = {}
    TABLE.encode(request, body, ("temperature",))
    assert body == {"heat": 0.5}
    TABLE.encode(request, body)
    assert list(body) == ["heat", "limits"]


def test_a_table_reads_what_it_wrote() -> None:
    options = AdapterOptions(max_output_tokens=5, temperature=0.5, top_p=0.1, stop_sequences=("a", "b"))
    body, _ = encode(options)
    assert AdapterOptions(**TABLE.decode(body)) == options
    assert AdapterOptions(**TABLE.decode({"stop": "only"})).stop_sequences == ("only",)
    assert AdapterOptions(**TABLE.decode({"limits": None})) == AdapterOptions()
