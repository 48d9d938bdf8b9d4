"""What a preview contains: sizes on both models, the price of the next turn, the window; and its JSON form."""

import json
from decimal import Decimal

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import SwapRefusedError
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import ImageBlock, MediaSource
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.routing import Refusal
from dragoman.session import Preview, Session, tool
from tests.unit.adapter.toy_adapter import ToyAdapter
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, Driver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic

SMALL = "ollama:phi3:mini"
SONNET = "anthropic:claude-sonnet-4-5"
UNKNOWN = "anthropic:claude-nobody-9"
FREE, PARTIAL, UNPRICED = CostStatus.FREE, CostStatus.PARTIAL, CostStatus.UNPRICED


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return at


def test_both_sizes_are_those_of_each_models_own_request() -> None:
    """The same history and tools are counted for the present model and for the other one."""
    history = [Message.user("word " * 4000)]
    session = Session(ANTHROPIC, messages=history, tools=[look])
    seen = session.preview(OLLAMA)
    tools = session.toolbox.definitions
    assert (seen.present_model, seen.model) == (ANTHROPIC, OLLAMA)
    assert seen.present_tokens == get_adapter(ANTHROPIC).estimate_input_tokens(session.messages, tools)
    assert seen.input_tokens == get_adapter(OLLAMA).estimate_input_tokens(session.messages, tools)


def test_the_next_turn_is_priced_with_an_average_answer(driver: Driver) -> None:
    """The history once, and an answer as long as those so far on average, at that model's prices of the day."""
    wire = Wire([handwritten_anthropic("One.", usage=(10, 100)), handwritten_anthropic("Two.", usage=(10, 301))])
    session = driver.session({"anthropic": wire})
    for question in "12":
        driver.ask(session, question)
    seen = session.preview(SONNET)
    assert seen.answer_tokens == 201
    turn = TokenUsage(input_tokens=seen.input_tokens, output_tokens=201)
    priced = session.prices.price(SONNET, turn, NOW)
    assert priced.cost_usd
    assert (seen.next_turn_cost_usd, seen.next_turn_cost_status) == (priced.cost_usd, CostStatus.PRICED)
    assert seen.input_cost_usd is not None
    assert seen.input_cost_usd < priced.cost_usd
    assert session.preview(OLLAMA).next_turn_cost_usd == 0
    assert session.preview(OLLAMA).next_turn_cost_status is FREE
    unknown = session.preview(UNKNOWN)
    assert (unknown.next_turn_cost_usd, unknown.next_turn_cost_status) == (None, UNPRICED)


@pytest.mark.parametrize(
    ("model", "status", "usd"), [(SONNET, PARTIAL, None), (OLLAMA, FREE, 0), (UNKNOWN, UNPRICED, None)]
)
def test_the_first_answer_has_no_price(model: str, status: CostStatus, usd: int | None) -> None:
    """Its price is unknown, unless the model is free."""
    seen = Session(ANTHROPIC, messages=[Message.user("Hi")]).preview(model)
    assert (seen.answer_tokens, seen.next_turn_cost_usd, seen.next_turn_cost_status) == (None, usd, status)


def test_the_window_includes_the_answer() -> None:
    """History and requested output together; the refusal says what to do, and ends with its name."""
    window = get_adapter(SMALL).capabilities.max_context_tokens
    history = [Message.user("word " * (window // 2))]
    assert Session(ANTHROPIC, messages=history).preview(SMALL).fits
    room = window - Session(ANTHROPIC, messages=history).preview(SMALL).input_tokens
    assert Session(ANTHROPIC, messages=history, options=AdapterOptions(max_output_tokens=room)).preview(SMALL).fits
    session = Session(ANTHROPIC, messages=history, options=AdapterOptions(max_output_tokens=room + 1))
    seen = session.preview(SMALL)
    (reason,) = seen.reasons
    assert seen.refusals == (Refusal.EXCEEDS_CONTEXT_WINDOW,)
    assert f'session.compact("{SMALL}")' in reason
    assert reason.endswith(": exceeds_context_window")
    assert f"{room + 1:,}" in reason
    with pytest.raises(SwapRefusedError) as refused:
        session.swap(SMALL)
    assert refused.value.reasons == seen.reasons


def test_refusals_have_the_names_of_the_specification() -> None:
    """The names are those of docs/reference/routing-and-events.md#validation, for the needs of a history."""
    image = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    seen = Session(ANTHROPIC, messages=[Message.user([image])], tools=[look]).preview(SMALL)
    assert seen.refusals == ("no_vision_support", "no_tool_support")


def test_a_schema_needs_a_model_that_supports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an adapter has no way to request one."""
    session = Session(ANTHROPIC, options=AdapterOptions(output_schema={"type": "object"}))
    monkeypatch.setattr("dragoman.session.turn.routes.get_adapter", lambda model: ToyAdapter("m"))
    assert session.preview("toy:m").refusals == ("no_structured_output_support",)


def test_a_preview_as_json_has_every_field() -> None:
    """Decimals are strings, unknown is null, enums are their words; the keys are the fields and `fits`."""
    image = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    session = Session(ANTHROPIC, messages=[Message.user([image])], clock=lambda: NOW)
    for model in (OLLAMA, SONNET, UNKNOWN):
        seen = session.preview(model)
        document = json.loads(json.dumps(seen.as_dict()))
        assert document == json.loads(seen.to_json())
        assert set(document) == {
            "model", "reasons", "losses", "input_tokens", "max_context_tokens", "input_cost_usd", "refusals",
            "present_model", "present_tokens", "max_output_tokens", "answer_tokens", "next_turn_cost_usd",
            "next_turn_cost_status", "fits",
        }  # fmt: skip
        assert document["fits"] is seen.fits
        assert document["refusals"] == list(seen.refusals)
        price = document["input_cost_usd"]
        assert price is None if seen.input_cost_usd is None else Decimal(price) == seen.input_cost_usd
    assert session.preview(OLLAMA).as_dict()["losses"] == [
        {"kind": "media", "message_id": session.messages[0].id, "block_index": 0,
         "reason": "qwen3 takes no image", "severity": "warning", "block_type": "image", "path": ""}
    ]  # fmt: skip


TINY = Preview("m:x", (), (), 9, 10, Decimal("0.0000001"), (), "a:y", 12, 5, 7, Decimal("0.5"), CostStatus.PRICED)


def test_small_prices_have_no_exponent() -> None:
    """Every parser of decimals can read the string."""
    assert TINY.as_dict()["input_cost_usd"] == "0.0000001"


@pytest.mark.parametrize(
    ("seen", "lines"),
    [
        (Preview("m:x", (), (), 1200, 8000, None),
         ["m:x: possible, about 1,200 of 8,000 tokens, price unknown", "  next turn: price unknown",
          "  nothing is lost"]),
        (Preview("m:x", ("too big",), (Loss(LossKind.MEDIA, "1", 0, "no eyes"),), 9, 8, None),
         ["m:x: refused, about 9 of 8 tokens, price unknown", "  next turn: price unknown", "  refused: too big",
          "  lost: media: no eyes"]),
        (Preview("m:x", (), (Loss(LossKind.ROLE, "1", 0, "other role", Severity.INFO),), 9, 10, Decimal("0.5"),
                 next_turn_cost_status=PARTIAL),
         ["m:x: possible, about 9 of 10 tokens, about $0.500000 to read",
          "  next turn: price unknown before a first answer", "  1 changes of form only"]),
        (TINY, ["m:x: possible, about 9 of 10 tokens, under $0.000001 to read", "  now: about 12 tokens on a:y",
                "  next turn: about $0.500000 with an answer of 7 tokens", "  nothing is lost"]),
        (Preview("m:x", (), (), 9, 10, Decimal(1), answer_tokens=7, next_turn_cost_usd=Decimal(1),
                 next_turn_cost_status=PARTIAL),
         ["m:x: possible, about 9 of 10 tokens, about $1.000000 to read",
          "  next turn: at least about $1.000000 with an answer of 7 tokens", "  nothing is lost"]),
        (Preview("m:x", (), (), 9, 10, Decimal(0), next_turn_cost_usd=Decimal(0), next_turn_cost_status=FREE),
         ["m:x: possible, about 9 of 10 tokens, about $0.000000 to read", "  next turn: free", "  nothing is lost"]),
    ],
    ids=["possible", "refused", "form", "priced", "bound", "free"],
)  # fmt: skip
def test_a_preview_is_readable_as_lines(seen: Preview, lines: list[str]) -> None:
    """One line for the verdict, one for the next turn, one a reason and a loss."""
    assert str(seen).splitlines() == lines
