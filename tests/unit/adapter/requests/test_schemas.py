"""Schemas fitted to what a target takes of them, and the losses that name the rest."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition, get_adapter
from dragoman.adapter.facts.capabilities import SchemaRule
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.requests.schemas import FittedSchema, fit_schema, form_check
from dragoman.adapter.wire import WireRequest

NARROW = SchemaRule(
    keywords=(
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "anyOf",
        "enum",
        "description",
    ),
    values={"minItems": (0, 1)},
    renamed={"oneOf": "anyOf", "const": "enum"},
    closed=True,
)
Case = tuple[dict[str, Any], dict[str, Any], list[str], list[str]]
CLOSED: dict[str, Any] = {"additionalProperties": False}

CASES: list[Case] = [
    ({"type": "string"}, {"type": "string"}, [], []),
    (
        {"type": "integer", "minimum": 1, "description": "Pages"},
        {"type": "integer", "description": "Pages (minimum: 1)"},
        ["$.minimum"],
        [],
    ),
    ({"type": "string", "title": "T", "$comment": "c"}, {"type": "string"}, [], ["$.title"]),
    ({"type": "array", "minItems": 1}, {"type": "array", "minItems": 1}, [], []),
    ({"type": "array", "minItems": 2}, {"type": "array", "description": "minItems: 2"}, ["$.minItems"], []),
    (
        {"oneOf": [{"const": 1}, {"type": "null"}]},
        {"anyOf": [{"enum": [1]}, {"type": "null"}]},
        [],
        ["$.oneOf", "$.anyOf[0].const"],
    ),
    (
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}},
        {"type": "object", "properties": {"a": {"type": "string", "description": "maxLength: 3"}}, **CLOSED},
        ["$.properties.a.maxLength"],
        [],
    ),
    ({"type": "object"}, {"type": "object", **CLOSED}, ["$"], []),
    (
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {}, "description": 'additionalProperties: {"type":"string"}', **CLOSED},
        ["$.additionalProperties"],
        [],
    ),
    (
        {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string", "pattern": "^a"}}},
        {"type": "array", "items": {"type": "string", "description": 'pattern: "^a"'}},
        ["$.items.pattern"],
        ["$.items.$ref", "$.$defs"],
    ),
    (
        {"$ref": "#/$defs/N", "$defs": {"N": {"type": "array", "items": {"$ref": "#/$defs/N"}}}},
        {"type": "array", "items": {}},
        ["$.items.$ref"],
        ["$.$ref", "$.$defs"],
    ),
    ({"$ref": "#/elsewhere", "description": "d"}, {"description": "d"}, ["$.$ref"], []),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected", "dropped", "changed"), CASES)
def test_unsupported_constraints_move_into_the_description(
    schema: dict[str, Any], expected: dict[str, Any], dropped: list[str], changed: list[str]
) -> None:
    """A constraint moves into the description of its field; its path names what is no longer enforced."""
    found = fit_schema(schema, NARROW)
    assert (found.schema, found.dropped, found.changed) == (expected, dropped, changed)
    again = fit_schema(found.schema, NARROW)
    assert (again.schema, again.dropped, again.changed) == (expected, [], [])


def test_a_permissive_target_changes_nothing() -> None:
    """Without a rule, the schema is what it was."""
    for schema, *_ in CASES:
        found = fit_schema(schema, SchemaRule())
        assert (found.schema, found.dropped, found.changed) == (schema, [], [])


def test_a_union_without_support_keeps_its_informative_branch() -> None:
    """A union with null becomes its other branch, which is stricter, so every answer fits the requested schema."""
    rule = SchemaRule(keywords=("type", "description", "properties", "required"), requires=True)
    optional = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    found = fit_schema({"type": "object", "properties": {"a": optional}}, rule)
    assert found.schema == {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert (found.dropped, found.changed) == ([], ["$.properties.a.anyOf", "$.required"])
    found = fit_schema({"anyOf": [{"type": "string"}, {"type": "integer"}]}, rule)
    assert found.dropped == ["$.anyOf"]
    assert fit_schema({"allOf": [{"type": "string"}]}, rule).schema == {"type": "string"}


def test_the_outermost_schema_is_an_object() -> None:
    """For wires that require it: unions at the top are removed, and a reference is resolved."""
    rule = SchemaRule(root="object")
    assert fit_schema({"properties": {}}, rule).schema == {"type": "object", "properties": {}}
    found = fit_schema({"type": "object", "properties": {}, "oneOf": [{"required": ["a"]}]}, rule)
    assert (found.dropped, found.schema["description"]) == (["$.oneOf"], 'oneOf: [{"required":["a"]}]')
    found = fit_schema({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {}}}}, rule)
    assert (found.schema["type"], found.changed) == ("object", ["$.$ref"])


LEAVES = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "boolean"])},
    optional={
        "minimum": st.integers(0, 9), "pattern": st.text(max_size=4), "const": st.integers(),
        "title": st.text(max_size=4),
        "format": st.sampled_from(["uuid", "regex"]), "description": st.text(max_size=4), "uniqueItems": st.booleans(),
    },
)  # fmt: skip
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda each: {"type": "array", "items": each, "minItems": 3}, inner),
        st.builds(lambda each: {"type": "object", "properties": each}, st.dictionaries(st.sampled_from("abc"), inner)),
        st.builds(lambda each: {"oneOf": each}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_a_fitted_schema_has_only_supported_keywords(schema: dict[str, Any]) -> None:
    """At no depth; the given schema stays as it was, and fitting twice is fitting once."""
    before = deepcopy(schema)
    found = fit_schema(schema, NARROW)
    assert schema == before
    assert _keywords(found.schema) <= set(NARROW.keywords)
    assert fit_schema(found.schema, NARROW).schema == found.schema
    assert bool(found.dropped) == bool(_keywords(schema) & {"minimum", "pattern", "format", "uniqueItems", "minItems"})


def _keywords(schema: Any) -> set[str]:
    found = set(schema)
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
        found |= _keywords(each)
    return found


def _sent_schema(model: str, tools: list[ToolDefinition], **options: Any) -> WireRequest:
    return get_adapter(model).to_wire([Message.user("Hi")], tools, AdapterOptions(**options))


def _kinds(losses: tuple[Loss, ...]) -> list[tuple[LossKind, Severity]]:
    return [(loss.kind, loss.severity) for loss in losses]


PAGES = {"type": "object", "properties": {"pages": {"type": "integer", "exclusiveMinimum": 0}}, "required": ["pages"]}
TOOL = ToolDefinition(name="count", input_schema=PAGES)


OPEN = NARROW.model_copy(update={"closed": False})
RULES = (NARROW, OPEN, SchemaRule(), SchemaRule(root="object"), OPEN.model_copy(update={"root": "object"}))


@given(SCHEMAS, st.sampled_from(RULES))
def test_a_schema_that_passes_the_check_would_not_be_changed(schema: dict[str, Any], rule: SchemaRule) -> None:
    """The check saves the rewriting of schemas that have the form already."""
    if form_check(rule)(schema):
        assert fit_schema(schema, rule) == FittedSchema(schema)


def test_the_schema_of_a_usual_tool_passes_the_check() -> None:
    """Its keywords and their values are supported, inside of other schemas too; one that is not is found at any
    depth."""
    item: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1}]}
    usual = {"type": "object", "properties": {"a": {"type": "array", "items": item}}, "required": ["a"]}
    assert [form_check(rule)(usual) for rule in RULES] == [False, True, True, True, True]
    for wrong in ({"minItems": 2}, {"const": 1}, {"pattern": "a"}):
        item["anyOf"][1] = wrong
        assert [form_check(rule)(usual) for rule in RULES] == [False, False, True, True, False]


@pytest.mark.parametrize("model", ["ollama:qwen3:4b", "google:gemini-3.6-flash"])
def test_loosened_arguments_of_a_tool_are_a_loss(model: str) -> None:
    """Loosened arguments of a tool are a loss with the path of the keyword, and never the tool itself."""
    wire = _sent_schema(model, [TOOL])
    assert b"count" in wire.body
    assert b"exclusiveMinimum: 0" in wire.body
    assert _kinds(wire.losses) == [(LossKind.TOOLS, Severity.WARNING)]
    assert "$.properties.pages.exclusiveMinimum" in wire.losses[0].reason


@pytest.mark.parametrize(
    "model", ["anthropic:claude-opus-5-5", "openai:gpt-6.1-sol", "mistral:mistral-large-latest",
              "cohere:command-a-03-2025", "bedrock:us.amazon.nova-pro-v1:0", "groq:openai/gpt-oss-120b",
              "local:smollm2-135m"]
)  # fmt: skip
def test_a_permissive_target_keeps_tools_unchanged(model: str) -> None:
    """Nothing is lost, and nothing is rewritten."""
    wire = _sent_schema(model, [TOOL])
    assert wire.losses == ()
    assert json.dumps(PAGES, separators=(",", ":")).encode() in wire.body


def test_a_tool_returns_to_its_own_provider_unchanged() -> None:
    """A schema that it accepted before is not reduced."""
    adapter = get_adapter("ollama:qwen3:4b")
    function = {"name": "count", "description": "", "parameters": PAGES}
    native = {
        "model": "qwen3:4b",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
        "tools": [{"type": "function", "function": function}],
    }
    messages, tools, options = adapter.from_wire_request(native, RequestContext.for_model("ollama:qwen3:4b"))
    wire = adapter.to_wire(messages, tools, options)
    assert (json.loads(wire.body), wire.losses) == (native, ())


def test_an_answer_schema_is_fitted_too() -> None:
    """Claude's structured output has no ranges: the description states them instead."""
    wire = _sent_schema("anthropic:claude-opus-5-5", [], output_schema=PAGES)
    schema = json.loads(wire.body)["output_config"]["format"]["schema"]
    assert schema["properties"]["pages"] == {"type": "integer", "description": "exclusiveMinimum: 0"}
    assert schema["additionalProperties"] is False
    assert _kinds(wire.losses) == [(LossKind.OPTION, Severity.WARNING)]
    assert _sent_schema("openai:gpt-6.1-sol", [], output_schema=PAGES).losses == ()


def test_models_without_schema_beside_tools_are_prompted() -> None:
    """Cohere, Groq and older Gemini models take a schema or tools, not both."""
    for model in ("cohere:command-a-03-2025", "google:gemini-2.5-flash", "groq:openai/gpt-oss-120b"):
        assert b"JSON Schema below" not in _sent_schema(model, [], output_schema=PAGES).body
        wire = _sent_schema(model, [ToolDefinition(name="count")], output_schema=PAGES)
        assert b"JSON Schema below" in wire.body
        assert [loss.reason.partition(":")[0] for loss in wire.losses if loss.kind is LossKind.OPTION] == [
            "output_schema"
        ]


def test_the_schema_prompt_stays_in_its_place() -> None:
    """Behind the conversation's own instructions, so that a longer history only adds to the request."""
    adapter = get_adapter("deepseek:deepseek-v4-flash")
    history = [Message.system("Be brief."), Message.user("One?"), Message.assistant("1"), Message.user("Two?")]
    options = AdapterOptions(output_schema=PAGES)
    short, long = (json.loads(adapter.to_wire(history[:end], [], options).body)["messages"] for end in (2, 4))
    assert long[: len(short)] == short
    assert [message["role"] for message in short] == ["system", "system", "user"]


def test_a_mapping_is_asked_for_in_the_prompt_where_objects_are_closed() -> None:
    """In the wire's own field it could only be empty."""
    schema = {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "integer"}}}}
    adapter = get_adapter("anthropic:claude-opus-5-5")
    wire = adapter.to_wire([Message.user("Hi")], [], AdapterOptions(output_schema=schema))
    body = json.loads(wire.body)
    assert "output_config" not in body
    assert '"additionalProperties":{"type":"integer"}' in json.dumps(body["system"]).replace("\\", "")
    assert [loss.reason for loss in wire.losses if "free keys" in loss.reason]


TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "required": ["root"],
    "additionalProperties": False,
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["name", "parts"],
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    "model", ["anthropic:claude-opus-5-5", "openai:gpt-6.1-sol", "google:gemini-3.6-flash",
              "cohere:command-a-03-2025", "mistral:mistral-large-latest"]
)  # fmt: skip
def test_a_reference_stays_where_the_wire_takes_it(model: str) -> None:
    """So does the schema that it names: only a reference can describe a tree of any depth."""
    for wire in (
        _sent_schema(model, [ToolDefinition(name="plant", input_schema=TREE)]),
        _sent_schema(model, [], output_schema=TREE),
    ):
        sent = _find_schema(json.loads(wire.body))
        assert sent["properties"]["root"] == {"$ref": "#/$defs/Node"}
        assert sent["$defs"]["Node"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Node"}
        assert [loss for loss in wire.losses if "ref" in loss.reason or "defs" in loss.reason] == []


@pytest.mark.parametrize("options", [{}, {"output_schema": True}], ids=["tool", "answer"])
def test_no_reference_names_what_is_not_sent(options: dict[str, Any]) -> None:
    """Older libraries write ``definitions``, which Google does not know: it would refuse the whole request."""
    old = json.loads(json.dumps(TREE).replace("$defs", "definitions"))
    both = {**old, "$defs": {"Leaf": {"type": "string"}}}
    both["properties"] = {**old["properties"], "leaf": {"allOf": [{"$ref": "#/$defs/Leaf"}], "description": "A leaf"}}
    for schema in (old, both):
        tools = [] if options else [ToolDefinition(name="plant", input_schema=schema)]
        given = {"output_schema": schema} if options else {}
        for model in ("google:gemini-3.6-flash", "openai:gpt-6.1-sol", "anthropic:claude-opus-5-5", "ollama:qwen3:4b"):
            sent = _find_schema(json.loads(_sent_schema(model, tools, **given).body))
            for reference in _references(sent):
                group, name = reference.removeprefix("#/").split("/")
                assert name in sent[group], (model, reference)
    google = _find_schema(json.loads(_sent_schema("google:gemini-3.6-flash", [], output_schema=old).body))
    assert google["$defs"]["Node"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Node"}


def test_a_single_branch_that_is_a_reference_is_resolved_too() -> None:
    """Libraries wrap a reference in an allOf to describe it."""
    described = {"allOf": [{"$ref": "#/$defs/Size"}], "description": "How large"}
    schema = {"type": "object", "properties": {"root": described}, "$defs": {"Size": {"enum": ["S", "M"]}}}
    wire = _sent_schema("ollama:qwen3:4b", [ToolDefinition(name="plant", input_schema=schema)])
    sent = _find_schema(json.loads(wire.body))
    assert sent["properties"]["root"] == {"enum": ["S", "M"], "description": "How large"}


def _references(value: Any) -> list[str]:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    own = [value["$ref"]] if isinstance(value, dict) and isinstance(value.get("$ref"), str) else []
    return [*own, *(reference for each in inner for reference in _references(each))]


def test_a_reference_is_resolved_where_the_wire_has_none() -> None:
    """To a depth, with a loss: the innermost one is any value."""
    wire = _sent_schema("ollama:qwen3:4b", [ToolDefinition(name="plant", input_schema=TREE)])
    sent = _find_schema(json.loads(wire.body))
    assert "$defs" not in sent
    assert sent["properties"]["root"]["properties"]["name"] == {"type": "string"}
    assert "$ref" not in json.dumps(sent)
    assert (LossKind.TOOLS, Severity.WARNING) in _kinds(wire.losses)


@pytest.mark.parametrize("width", [2, 10])
def test_references_cannot_make_a_small_schema_large(width: int) -> None:
    """Each definition holds several of the next one: width**8 of the last. The tools of a request share the room."""
    definitions: dict[str, Any] = {
        f"d{level}": {"type": "object", "properties": {f"p{each}": {"$ref": f"#/$defs/d{level + 1}"}
                                                       for each in range(width)}}
        for level in range(8)
    }  # fmt: skip
    definitions["d8"] = {"type": "string", "pattern": "a" * 1_000}
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    wire = _sent_schema("ollama:qwen3:4b", [ToolDefinition(name=f"plant_{each}", input_schema=schema)
                                            for each in range(20)])  # fmt: skip
    assert len(wire.body) < 600_000
    assert "$ref" not in wire.body.decode()
    assert (LossKind.TOOLS, Severity.WARNING) in _kinds(wire.losses)


def _find_schema(value: Any) -> Any:
    """The object in a request that has the property ``root``."""
    if isinstance(value, dict) and "root" in (value.get("properties") or {}):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for each in inner if (found := _find_schema(each)) is not None), None)
