"""The JSON Schema of a Python type, in a form that most wires take."""

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

_DEFINITIONS = "#/$defs/"


class AnswerSchema(GenerateJsonSchema):
    """Writes the schemas of answers.

    Few wires support schemas by position and tagged unions. So a NamedTuple is an object, which pydantic reads as well,
    the items of a tuple have a schema too, and a tagged union is a plain one. Titles of fields would only cost tokens.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Do not warn: a default that JSON cannot hold is left out."""

    def named_tuple_schema(self, schema: Any) -> JsonSchemaValue:
        fields = schema["fields"]
        aliases = [each.get("validation_alias") for each in fields]
        names = [alias if isinstance(alias, str) else each["name"] for alias, each in zip(aliases, fields, strict=True)]
        by_name: list[Any] = [
            {"name": name, "schema": each["schema"]} for name, each in zip(names, fields, strict=True)
        ]
        return self.kw_arguments_schema(by_name, None)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave a default of null out: some wires refuse it, and null is allowed by the type."""
        written = super().default_schema(schema)
        if written.get("default", 0) is None:
            del written["default"]
        return written

    def arguments_schema(self, schema: core_schema.ArgumentsSchema) -> JsonSchemaValue:
        """Before its version 2.14, pydantic reads a NamedTuple as the arguments of a function."""
        by_name: Any = {**schema, "metadata": {}}
        return super().arguments_schema(by_name)

    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        written = super().tuple_schema(schema)
        by_position = written.get("prefixItems", ())
        if by_position and "items" not in written:
            kinds = [kind for index, kind in enumerate(by_position) if kind not in by_position[:index]]
            written["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        return written

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        written = super().tagged_union_schema(schema)
        written.pop("discriminator", None)
        if "oneOf" in written:
            written["anyOf"] = written.pop("oneOf")
        return written


def with_plain_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without a reference at its root, as for a type that refers to itself."""
    reference = schema.get("$ref", "")
    if not reference.startswith(_DEFINITIONS):
        return dict(schema)
    target = schema["$defs"][reference.removeprefix(_DEFINITIONS)]
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
