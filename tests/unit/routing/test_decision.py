"""Each refusal with its name, and only if the turn needs what the model lacks."""

from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import AuthenticationError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ToolResultBlock
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.routing import Availability, NoModelError, Refusal, RouteRequest, Rule, When
from tests.unit.routing.models import KEYLESS, START, router

CASES: list[tuple[Refusal, str, dict[str, Any]]] = [
    (Refusal.NOT_CONFIGURED, KEYLESS, {}),
    (Refusal.NO_VISION_SUPPORT, "east:blind", {"images": True}),
    (Refusal.EXCEEDS_CONTEXT_WINDOW, "west:small", {"estimated_tokens": 1_001}),
    (Refusal.EXCEEDS_CONTEXT_WINDOW, "west:small", {"estimated_tokens": 900, "max_output_tokens": 101}),
    (Refusal.NO_TOOL_SUPPORT, "east:toolless", {"tools": True}),
    (Refusal.NO_SYSTEM_PROMPT_SUPPORT, "east:unprompted", {"system_prompt": True}),
    (Refusal.NO_STRUCTURED_OUTPUT_SUPPORT, "east:formless", {"output_schema": True}),
]


@pytest.mark.parametrize(("refusal", "model", "facts"), CASES)
def test_refusals_have_names(refusal: Refusal, model: str, facts: dict[str, Any]) -> None:
    """A feature that the turn needs and the model lacks has a name of the specification."""
    with pytest.raises(NoModelError) as caught:
        router().choose(RouteRequest(sticky=model, **facts))
    assert caught.value.reasons == {model: (refusal,)}


@pytest.mark.parametrize(
    "model", ["east:blind", "east:toolless", "east:unprompted", "east:formless", "west:small", "west:nothing"]
)
def test_unneeded_features_are_not_checked(model: str) -> None:
    """Only what the turn uses counts."""
    assert router().choose(RouteRequest(sticky=model)).model == model


@pytest.mark.parametrize("fact", ["audio", "video", "documents"])
def test_other_media_are_left_to_rules_and_losses(fact: str) -> None:
    """The specification refuses for images only."""
    assert router().choose(RouteRequest(sticky="west:nothing", **{fact: True})).model == "west:nothing"  # type: ignore[arg-type]


def test_an_emulated_feature_counts() -> None:
    """It works, at a price."""
    request = RouteRequest(sticky="south:emulating", tools=True, output_schema=True)
    assert router().choose(request).model == "south:emulating"


def test_a_context_window_of_exactly_the_size_is_enough() -> None:
    request = RouteRequest(sticky="west:small", estimated_tokens=900, max_output_tokens=100)
    assert router().choose(request).model == "west:small"


def test_every_refusal_is_reported() -> None:
    """All refusals are reported at once, in the order of the specification."""
    availability = Availability()
    availability.report("west:nothing", AuthenticationError("no"), START)
    everything = RouteRequest(
        sticky="west:nothing", images=True, tools=True, system_prompt=True, output_schema=True, estimated_tokens=11
    )
    with pytest.raises(NoModelError) as caught:
        router(availability=availability).choose(everything)
    assert caught.value.reasons == {"west:nothing": tuple(map(str, list(Refusal)[1:]))}


def test_each_model_counts_for_itself() -> None:
    """Models count differently, and each one counts at most once."""
    models_counted: list[str] = []

    def estimate(model: str) -> int:
        models_counted.append(model)
        return 2_000 if model == "west:small" else 10

    rules = [Rule(model="west:small", when=When(tokens_over=1)), Rule(model="north:able", when=When(tokens_over=9))]
    routed = router(rules=rules, workspace_default="west:small")
    decision = routed.choose(RouteRequest(sticky="west:small", estimated_tokens=estimate))
    assert decision.model == "north:able"
    assert models_counted == ["west:small", "north:able"]


IMAGE = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")


@pytest.mark.parametrize(
    ("history", "message", "expected"),
    [
        ([], [Message.user("@sonnet hi")], {"text": "@sonnet hi"}),
        ([], [Message.user([IMAGE, TextBlock(text="look")])], {"text": "look", "images": True}),
        ([Message.user([IMAGE])], [Message.user("and?")], {"text": "and?", "images": True}),
        ([Message.tool("tu_1", [IMAGE])], [], {"text": "", "images": True}),
        ([Message.system("Be brief.")], [], {"system_prompt": True}),
        ([Message.developer("Be brief.")], [], {"system_prompt": True}),
        ([Message.user("@opus before")], [], {"text": ""}),
        ([Message.user("Hi")], [Message.assistant("@opus")], {"text": ""}),
    ],
)
def test_facts_are_read_from_messages(history: list[Message], message: list[Message], expected: dict[str, Any]) -> None:
    """Images count everywhere, a mention only in the current prompt."""
    request = RouteRequest.of(history, message)
    assert {name: getattr(request, name) for name in expected} == expected


def test_facts_are_read_from_tools_and_options() -> None:
    """Facts are read from tools and options: those of the session, and those of the caller."""
    nested = Message.tool("tu_1", [ToolResultBlock(tool_use_id="tu_2", content=(IMAGE,))])
    request = RouteRequest.of(
        [nested],
        [Message.user("Hi")],
        [ToolDefinition(name="look")],
        AdapterOptions(max_output_tokens=5, output_schema={"type": "object"}),
        sticky="opus",
        labels=frozenset({"secret"}),
    )
    assert (request.images, request.tools, request.output_schema, request.max_output_tokens) == (True, True, True, 5)
    assert (request.sticky, request.labels) == ("opus", frozenset({"secret"}))


@pytest.mark.parametrize("model", ["anthropic:claude-opus-5-5", "local:smollm2-135m"])
def test_the_size_is_counted_by_each_models_own_adapter(model: str) -> None:
    """History, prompt and tools count."""
    history, message, tools = [Message.system("Be brief.")], [Message.user("Hi " * 400)], [ToolDefinition(name="look")]
    request = RouteRequest.of(history, message, tools)
    assert request.tokens_on(model) == get_adapter(model).estimate_input_tokens([*history, *message], tools) > 200
