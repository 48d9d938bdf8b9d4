"""Compatibility of schemas: a positive answer holds for every body, a negative one has a counterexample."""

import os

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.formats import MessageBody, MessageBodySchema, is_compatible
from dragoman.formats.body.schema import MAX_STEPS, Compatibility
from tests.laws.streams.call_counts import calls_of
from tests.sampling import examples
from tests.unit.formats.body.strategies import SCENARIOS, bodies_obeying, schema, schemas

EXAMPLES = 2_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 150

TEXT = {"contentType": "text/*"}
NEEDED = {"contentType": "text/*", "required": True}


def related_schemas() -> st.SearchStrategy[tuple[MessageBodySchema, MessageBodySchema]]:
    """Two schemas that often have parts in common, so that compatible pairs are not rare."""
    return st.tuples(schemas, schemas, st.booleans()).map(
        lambda drawn: (drawn[0], MessageBodySchema((*drawn[1].parts, *drawn[0].parts)) if drawn[2] else drawn[1])
    )


@examples(EXAMPLES, deadline=None)
@given(pair=related_schemas(), data=st.data())
def test_compatible_means_every_body(pair: tuple[MessageBodySchema, MessageBodySchema], data: st.DataObject) -> None:
    """What obeys the producer's schema obeys the consumer's."""
    producer, consumer = pair
    assume(is_compatible(producer, consumer))
    for _ in range(5):
        body = data.draw(bodies_obeying(producer))
        if not producer.check(body):
            assert consumer.check(body) == ()


@examples(EXAMPLES, deadline=None)
@given(pair=related_schemas())
def test_incompatible_comes_with_a_body_or_a_reason(pair: tuple[MessageBodySchema, MessageBodySchema]) -> None:
    """The body obeys the producer's schema and not the consumer's."""
    producer, consumer = pair
    verdict = is_compatible(producer, consumer)
    if verdict:
        assert (verdict.reason, verdict.counterexample) == ("", None)
        return
    assert verdict.reason
    if verdict.counterexample is not None:
        assert producer.check(verdict.counterexample) == ()
        assert consumer.check(verdict.counterexample) != ()


@examples(EXAMPLES, deadline=None)
@given(producer=schemas, consumer=schemas, data=st.data())
def test_a_body_that_only_the_producer_accepts_means_incompatible(
    producer: MessageBodySchema, consumer: MessageBodySchema, data: st.DataObject
) -> None:
    """The converse: never compatible if a counterexample can be drawn."""
    body = data.draw(bodies_obeying(producer))
    if not producer.check(body) and consumer.check(body):
        assert not is_compatible(producer, consumer)


@examples(50, deadline=None)
@given(one=schemas, other=schemas, third=schemas)
def test_compatibility_is_a_preorder(
    one: MessageBodySchema, other: MessageBodySchema, third: MessageBodySchema
) -> None:
    """A schema is compatible with itself, and compatibility is transitive."""
    assert is_compatible(one, one)
    if is_compatible(one, other) and is_compatible(other, third):
        assert is_compatible(one, third)


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        ([{"contentType": "text/plain", "required": True}], [NEEDED]),
        ([], [TEXT]),
        ([{"name": "/sources/*"}], [{"name": "/**"}]),
        ([{"name": "**"}], [{"name": "/**"}]),
        ([{"name": "/**"}], [{"name": "/*"}, {"name": "/*/**"}]),
        ([{"name": "/{a,b}"}], [{"name": "/a"}, {"name": "/b"}]),
        (
            [{"name": "/*", "contentType": "{text,image}/*"}],
            [{"name": "/*", "contentType": "text/*"}, {"name": "/**", "contentType": "image/*"}],
        ),
        ([{"contentType": "TEXT/Plain"}], [TEXT]),
        ([{"contentType": "**"}], [{"contentType": "*/*"}]),
        ([{"contentType": "text/plain;charset=utf-8"}], [{"contentType": "text/plain"}]),
        ([{"name": "/a", "required": True}], [{"name": "/{a,b}", "required": True}]),
        ([{"name": "/a/../*"}], []),
        ([{"name": "/*", "contentType": "*"}], []),
    ],
)  # fmt: skip
def test_compatible_schemas(producer: list[dict[str, object]], consumer: list[dict[str, object]]) -> None:
    """Also through several parts together, and by names and types that cannot exist."""
    assert is_compatible(schema(*producer), schema(*consumer))


@pytest.mark.parametrize(
    ("producer", "consumer", "counterexample"),
    [
        ([TEXT], [NEEDED], []),
        ([NEEDED], [{"contentType": "text/plain", "required": True}], [{"contentType": "text/b", "content": ""}]),
        ([{"name": "/**"}], [{"name": "/*"}], [{"name": "/a/a", "contentType": "a/a", "content": ""}]),
        ([{"name": "/*"}], [{"contentType": "*/*"}], [{"name": "/a", "contentType": "a/a", "content": ""}]),
        (
            [{"name": "/*", "required": True}],
            [{"name": "/*"}, {"name": "/a", "required": True}],
            [{"name": "/b", "contentType": "a/a", "content": ""}],
        ),
        (
            [{"name": "/s/*", "contentType": "{text,image}/*", "required": True}, NEEDED],
            [TEXT, {"name": "/s/*", "contentType": "image/*"}],
            [
                {"name": "/s/a", "contentType": "text/b", "content": ""},
                {"contentType": "text/a", "content": ""},
            ],
        ),
    ],
)  # fmt: skip
def test_incompatible_schemas(
    producer: list[dict[str, object]], consumer: list[dict[str, object]], counterexample: list[dict[str, object]]
) -> None:
    verdict = is_compatible(schema(*producer), schema(*consumer))
    assert not verdict
    assert verdict.counterexample == MessageBody.from_json(counterexample)


def test_names_in_a_counterexample_are_unique() -> None:
    """Two required parts that one name could serve, if not for their types."""
    producer = schema(
        {"name": "/s/*", "contentType": "text/*", "required": True},
        {"name": "/s/*", "contentType": "image/*", "required": True},
    )
    verdict = is_compatible(producer, schema({"name": "/s/*"}, {"required": True}))
    assert verdict.counterexample is not None
    assert [part.name for part in verdict.counterexample.parts] == ["/s/a", "/s/b"]


def test_an_unsatisfiable_producer_is_refused_without_a_counterexample() -> None:
    """Its two required parts have one name, so no body obeys."""
    producer = schema(
        {"name": "/a", "contentType": "text/*", "required": True},
        {"name": "/a", "contentType": "image/*", "required": True},
    )
    verdict = is_compatible(producer, schema())
    assert not verdict
    assert verdict.counterexample is None
    assert "part 0 of the producer" in verdict.reason


def test_the_scenarios_of_the_specification() -> None:
    """The pairs of agents in which the second one can read the first one's messages."""
    wanted = {name: MessageBodySchema.from_json(parts) for name, (parts, _) in SCENARIOS.items()}
    followed = {(one, other) for one in wanted for other in wanted if is_compatible(wanted[one], wanted[other])}
    assert followed == {
        *((name, name) for name in wanted),
        ("chat agent", "multi-modal chat"),
        ("chat agent", "software-writing agent"),
        ("chat agent", "researcher"),
        ("multi-modal chat", "researcher"),
    }


def test_intricate_globs_are_given_up() -> None:
    """Intricate globs are given up after a bounded number of steps, as incompatible with that reason."""
    many = "".join(f"*{letter}" for letter in "abcdefghijklmnop") + "*"
    producer = schema({"name": f"/{many}/{many}", "contentType": "*/*"})
    consumer = schema(*({"name": f"/{many[::-1]}/**{letter}*a*b*c*d{letter}**"} for letter in "abcdefgh"))
    verdicts: list[Compatibility] = []
    assert calls_of(lambda: verdicts.append(is_compatible(producer, consumer))) < 20 * MAX_STEPS
    (verdict,) = verdicts
    assert not verdict
    assert verdict.counterexample is not None or "too intricate" in verdict.reason


def test_only_schemas_are_compared() -> None:
    """JSON has to be parsed first."""
    some = MessageBodySchema()
    for one, other in ((some, [{"contentType": "text/*"}]), ([{"contentType": "text/*"}], some)):
        with pytest.raises(TypeError, match=r"not a list: MessageBodySchema\.from_json"):
            is_compatible(one, other)  # type: ignore[arg-type]
