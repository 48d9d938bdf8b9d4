"""Every option on every provider: it is in the request under the wire's own name, or it is a named loss."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from dragoman import Adapter, AdapterOptions, Message, ToolDefinition, get_adapter
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.facts.capabilities import EMULATED, NATIVE
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.registry import adapter_class, providers
from dragoman.testing.conformance.laws.contract import OPTIONS
from tests.tables import each_row

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
TOOL = ToolDefinition(name="look_up", description="Looks it up", input_schema=SCHEMA)

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxTokens", "maxOutputTokens", "num_predict")
THINKING = ("thinking", "think", "reasoning", "thinkingConfig", "thinking_summaries", "reasoningConfig")
SWITCHES = (*THINKING, "enable_thinking", "reasoning_effort", "thinking_level", "thinkingLevel", "reasoning_config")
EFFORTS = (*SWITCHES, "output_config", "outputConfig", "chat_template_kwargs")
BUDGETS = ("budget_tokens", "thinkingBudget", "token_budget", "thinking_budget", "max_tokens")
CHOICES = ("tool_choice", "toolChoice", "toolConfig")
SCHEMAS = ("output_config", "text", "response_format", "responseJsonSchema", "format", "output_schema", "outputConfig")
CACHES = ("cache_control", "cachePoint", "prompt_cache_options")

CASES: list[tuple[str, Any, tuple[str, ...]]] = [
    ("max_output_tokens", 1234, LIMITS),
    ("temperature", 0.25, ("temperature",)),
    ("top_p", 0.5, ("top_p", "topP", "p")),
    ("top_k", 17, ("top_k", "topK", "k")),
    ("frequency_penalty", 0.75, ("frequency_penalty", "frequencyPenalty")),
    ("presence_penalty", -0.5, ("presence_penalty", "presencePenalty")),
    ("seed", 4711, ("seed", "random_seed")),
    ("stop_sequences", ("STOP",), ("stop", "stop_sequences", "stopSequences")),
    ("tool_choice", "required", CHOICES),
    ("tool_choice", NamedTool("look_up"), CHOICES),
    ("tool_choice", "none", CHOICES),
    ("parallel_tool_calls", False, ("parallel_tool_calls", "disable_parallel_tool_use")),
    ("output_schema", SCHEMA, SCHEMAS),
    ("effort", "high", EFFORTS),
    ("effort", "none", EFFORTS),
    ("thinking", True, EFFORTS),
    ("thinking", False, EFFORTS),
    ("thinking_budget", 2048, BUDGETS),
    ("prompt_cache", "1h", CACHES),
    ("service_tier", "standard", ("service_tier", "serviceTier")),
    ("verbosity", "low", ("verbosity",)),
    ("reasoning_summary", "detailed", ("summary",)),
    ("user", "user-1", ("user_id", "safety_identifier", "user")),
    ("metadata", {"team": "blue"}, ("metadata", "labels", "requestMetadata")),
    ("safety", "strict", ("safetySettings", "safety_settings", "safety_mode", "safe_prompt")),
    ("logprobs", 2, ("logprobs", "top_logprobs", "responseLogprobs", "include")),
    ("server_state", "conv_1", ("conversation",)),
    ("background", True, ("background",)),
    ("n", 2, ("n", "candidateCount")),
    ("num_ctx", 4096, ("num_ctx",)),
    ("keep_alive", "10m", ("keep_alive",)),
]
"""Options, values, and the names of the fields that may carry them."""

NAMED_AS = {"thinking": ("thinking", "effort"), "effort": ("effort", "thinking")}
"""Losses may have the name of a related option: to switch thinking off is the lowest effort."""

ELSEWHERE = {"stream", "headers", "extra", "context", "strict_prefix"}
"""Fields that do not change the answer: they say how the request is made and sent."""


def _models() -> Iterator[str]:
    for provider in providers():
        listed = adapter_class(provider).listed_models
        yield from (f"{provider}:{name}" for name in listed or ("any-model",))


MODELS = list(_models())


def _body(adapter: Adapter, **options: Any) -> tuple[dict[str, Any], list[str]]:
    tools = [TOOL] if adapter.capabilities.supports_tools and "output_schema" not in options else []
    wire = adapter.to_wire([Message.system("Be brief."), Message.user("Hi")], tools, AdapterOptions(**options))
    body: dict[str, Any] = json.loads(wire.body)
    return body, [loss.reason for loss in wire.losses if loss.kind is LossKind.OPTION]


def _names(value: Any) -> Iterator[tuple[str, Any]]:
    """All fields of a body, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, inner
            yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)


def _needs_no_field(adapter: Adapter, name: str, value: Any) -> bool:
    """Whether the option requests the default, so that no field is needed."""
    abilities = adapter.capabilities
    if name in ("tool_choice", "parallel_tool_calls"):
        return not abilities.supports_tools
    if (name, value) in (("thinking", False), ("effort", "none")) and abilities.wire.get("tools_effort") == "none":
        return True
    # Chat Completions shows no thinking, so its reasoning models are recognised by their levels.
    reasons = abilities.supports_thinking or abilities.wire.get("efforts") or not abilities.thinking_off
    return (name, value) in (("thinking", False), ("effort", "none")) and not reasons


@each_row("model", MODELS)
def test_an_option_is_sent_or_a_named_loss(model: str) -> None:
    """No option is dropped silently."""
    adapter = get_adapter(model)
    assert [
        (name, value) for name, value, wire_names in CASES if not _is_sent_or_lost(adapter, name, value, wire_names)
    ] == []


def _is_sent_or_lost(adapter: Adapter, name: str, value: Any, wire_names: tuple[str, ...]) -> bool:
    without, _ = _body(adapter, **({"output_schema": None} if name == "output_schema" else {}))
    body, lost = _body(adapter, **{name: value})
    is_loss = any(reason.startswith(f"{each}: ") for reason in lost for each in NAMED_AS.get(name, (name,)))
    plain = list(_names(without))
    changed = [field for field in _names(body) if field not in plain and field[0] in wire_names]
    left_out = (name, value) == ("tool_choice", "none") and "look_up" not in json.dumps(body)
    return is_loss or bool(changed) or left_out or _needs_no_field(adapter, name, value)


@each_row("model", MODELS)
def test_all_options_at_once_make_a_request(model: str) -> None:
    """Each is written once or named as a loss, and the request can be read back."""
    requested = {name: value for name, value, _ in CASES if name != "thinking_budget"}
    body, lost = _body(get_adapter(model), **requested, thinking_budget=2048)
    assert body
    assert all(reason.partition(": ")[0] in requested or reason.startswith("thinking_budget") for reason in lost)
    assert _body(get_adapter(model), **requested, thinking_budget=2048) == (body, lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerOptions(AdapterOptions):
    """Options of a later version."""

    novelty: float | None = None
    habits: tuple[str, ...] = ()


@each_row("model", MODELS)
def test_an_option_that_no_adapter_knows_is_a_loss(model: str) -> None:
    """An option is added in one place; every adapter reports it until it can send it."""
    adapter = get_adapter(model)
    plain = adapter.to_wire([Message.user("Hi")], [], AdapterOptions())
    newer = adapter.to_wire([Message.user("Hi")], [], NewerOptions(novelty=0.5, habits=("hum",)))
    unset = adapter.to_wire([Message.user("Hi")], [], NewerOptions())
    assert (newer.body, unset.body) == (plain.body, plain.body)
    assert unset.losses == plain.losses
    added = newer.losses[len(plain.losses) :]
    assert [(loss.kind, loss.reason.partition(": ")[0]) for loss in added] == [
        (LossKind.OPTION, "novelty"),
        (LossKind.OPTION, "habits"),
    ]
    assert all(loss.severity is Severity.WARNING for loss in added)


@each_row("model", MODELS)
def test_without_options_nothing_is_requested(model: str) -> None:
    """No default is sent, so nothing can be lost; except that some models cannot both call tools and reason."""
    adapter = get_adapter(model)
    lost = _body(adapter)[1]
    assert [reason.partition(":")[0] for reason in lost] == ["effort"] * ("tools_effort" in adapter.capabilities.wire)


@each_row("model", MODELS)
def test_prompt_caching_changes_markers_only(model: str) -> None:
    """Apart from markers, the request is the same; a model without them gives an informational loss, no warning."""
    adapter = get_adapter(model)
    plain, _ = _body(adapter)
    marked, _ = _body(adapter, prompt_cache="1h")
    assert _strip_markers(marked) == _strip_markers(plain)


def _strip_markers(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _strip_markers(inner) for name, inner in value.items() if name not in CACHES}
        return kept["text"] if kept.keys() == {"type", "text"} else kept
    if isinstance(value, list):
        found = [each for each in map(_strip_markers, value) if each != {}]
        return found[0] if len(found) == 1 and isinstance(found[0], str) else found
    return value


@each_row("model", MODELS)
def test_support_for_schemas_is_declared(model: str) -> None:
    """Native: the wire has a field; emulated: the model is prompted, because the answers here have no tool input."""
    adapter = get_adapter(model)
    abilities = adapter.capabilities
    body, lost = _body(adapter, output_schema=SCHEMA)
    in_prompt = any("JSON Schema below" in str(value) for _, value in _names(body))
    assert (
        in_prompt == (abilities.supports_structured_output is EMULATED) == (abilities.structured_output_by != "native")
    )
    if abilities.supports_structured_output is NATIVE:
        assert lost == []
    else:
        assert [reason.partition(":")[0] for reason in lost] == ["output_schema"]


def test_the_table_has_every_option() -> None:
    """A new option must be added here."""
    assert {field.name for field in fields(AdapterOptions)} == {name for name, _, _ in CASES} | ELSEWHERE
    assert {name for name, _ in OPTIONS} == {name for name, _, _ in CASES}
