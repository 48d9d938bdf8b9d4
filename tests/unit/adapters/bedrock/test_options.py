"""Options to fields, by the family of the model."""

from typing import Any

import pytest

from dragoman import AdapterOptions, Message
from dragoman.adapter.losses import LossKind
from tests.tables import each_row
from tests.unit.adapters.bedrock.wire import AS_MESSAGES, CLAUDE, NOVA, VERSION, Native, body_of

HI = Message.user("Hi")
ADAPTIVE = "us.anthropic.claude-sonnet-4-6"
ALWAYS = "global.anthropic.claude-opus-5-5"
OLD = "anthropic.claude-3-haiku-20240307-v1:0"
GPT = "openai.gpt-oss-120b-1:0"
QWEN = "qwen.qwen3-32b-v1:0"


def test_common_options_go_into_inference_config() -> None:
    options = AdapterOptions(max_output_tokens=9, temperature=0.5, top_p=0.9, stop_sequences=("END",))
    body, losses = body_of([HI], options=options, model=NOVA)
    assert body["inferenceConfig"] == {"maxTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]}
    assert losses == ()


TOP_K: list[tuple[str, Native | None]] = [
    (CLAUDE, {"top_k": 5}),
    (NOVA, {"inferenceConfig": {"topK": 5}}),
    ("cohere.command-r-v1:0", {"k": 5}),
    (GPT, None),
    (ALWAYS, None),
]


@pytest.mark.parametrize(("model", "own"), TOP_K)
def test_top_k_is_a_field_of_the_family(model: str, own: Native | None) -> None:
    """For other families it is a loss."""
    body, losses = body_of([HI], options=AdapterOptions(top_k=5), model=model)
    assert body.get("additionalModelRequestFields") == own
    assert losses == (() if own else (LossKind.OPTION,))


def thinking(**fields: Any) -> Native:
    return {"thinking": fields}


REASONING: list[tuple[str, AdapterOptions, Native | None, Native | None, int]] = [
    (CLAUDE, AdapterOptions(thinking_budget=1024), thinking(type="enabled", budget_tokens=1024), None, 0),
    (CLAUDE, AdapterOptions(thinking=True), None, None, 1),
    (CLAUDE, AdapterOptions(thinking=False), thinking(type="disabled"), None, 0),
    (CLAUDE, AdapterOptions(effort="high"), None, None, 1),
    (ADAPTIVE, AdapterOptions(thinking=True), thinking(type="adaptive", display="summarized"), None, 0),
    (ADAPTIVE, AdapterOptions(thinking_budget=9), None, None, 1),
    (ADAPTIVE, AdapterOptions(effort="minimal"), None, {"effort": "low"}, 1),
    (ADAPTIVE, AdapterOptions(effort="immense"), None, None, 1),
    (ALWAYS, AdapterOptions(thinking=False), None, {"effort": "low"}, 1),
    (OLD, AdapterOptions(thinking=False), None, None, 0),
    (OLD, AdapterOptions(thinking=True), None, None, 1),
    (
        NOVA,
        AdapterOptions(effort="max"),
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}},
        None,
        1,
    ),
    (
        NOVA,
        AdapterOptions(thinking=True),
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}},
        None,
        0,
    ),
    (NOVA, AdapterOptions(effort="none"), {"reasoningConfig": {"type": "disabled"}}, None, 0),
    (
        NOVA,
        AdapterOptions(thinking_budget=9),
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}},
        None,
        1,
    ),
    (GPT, AdapterOptions(effort="high"), {"reasoning_effort": "high"}, None, 0),
    (GPT, AdapterOptions(thinking=False), None, None, 1),
    (GPT, AdapterOptions(thinking=True), None, None, 0),
    (QWEN, AdapterOptions(effort="low"), {"reasoning_config": "low"}, None, 0),
    ("us.meta.llama4-scout-17b-instruct-v1:0", AdapterOptions(thinking=True), None, None, 1),
    ("us.meta.llama4-scout-17b-instruct-v1:0", AdapterOptions(thinking=False), None, None, 0),
]


@each_row(("model", "options", "own", "output", "lost"), REASONING)
def test_each_family_has_its_reasoning_option(
    model: str, options: AdapterOptions, own: Native | None, output: Native | None, lost: int
) -> None:
    """An unsupported option is a loss."""
    body, losses = body_of([HI], options=options, model=model)
    assert (body.get("additionalModelRequestFields"), body.get("outputConfig")) == (own, output)
    assert losses == (LossKind.OPTION,) * lost


def test_a_schema_is_written_as_text() -> None:
    """It shares a field with the effort."""
    options = AdapterOptions(output_schema={"type": "string"}, effort="high")
    body, losses = body_of([HI], options=options, model=ADAPTIVE)
    text_format = {"type": "json_schema", "structure": {"jsonSchema": {"schema": '{"type":"string"}'}}}
    assert (body["outputConfig"], losses) == ({"textFormat": text_format, "effort": "high"}, ())
    body, losses = body_of([HI], options=AdapterOptions(output_schema={}), model=NOVA)
    assert ("outputConfig" in body, losses) == (False, (LossKind.OPTION,))


def test_unsupported_options_are_losses() -> None:
    """A seed, a switch for parallel calls, and sampling if the model accepts none."""
    _, losses = body_of([HI], options=AdapterOptions(seed=1, parallel_tool_calls=False))
    assert losses == (LossKind.OPTION,) * 2
    body, losses = body_of([HI], options=AdapterOptions(temperature=1.0, max_output_tokens=9), model=ALWAYS)
    assert (body["inferenceConfig"], losses) == ({"maxTokens": 9}, (LossKind.OPTION,))


def test_the_callers_own_fields_are_merged() -> None:
    """Part by part, if a field has several."""
    own = {"inferenceConfig": {"topP": 0.1}, "guardrailConfig": {"guardrailIdentifier": "x"}}
    body, _ = body_of([HI], options=AdapterOptions(max_output_tokens=9, extra={"bedrock": own}))
    assert body["inferenceConfig"] == {"maxTokens": 9, "topP": 0.1}
    assert body["guardrailConfig"] == {"guardrailIdentifier": "x"}


def test_anthropics_body_names_no_model() -> None:
    """The path does; its required limit comes from the table."""
    body, losses = body_of([HI], options=AS_MESSAGES)
    assert body == {
        **VERSION,
        "max_tokens": 21_333,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    assert losses == ()
