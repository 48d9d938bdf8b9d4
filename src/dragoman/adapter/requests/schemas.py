"""Fits JSON Schemas to what each target supports (docs/reference/canonical.md#schema-subset).

Providers support different parts of JSON Schema; each target's models.toml says which. Keywords that the target does
not support move into the description, so that the model still sees them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.facts.capabilities import SchemaRule

Schema = dict[str, Any]


@dataclass(slots=True)
class FittedSchema:
    """``dropped`` are JSON paths of constraints that are gone, ``changed`` of those in another form."""

    schema: Schema
    dropped: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


_SINGLE_SCHEMA_KEYWORDS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SCHEMA_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA_MAP_KEYWORDS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_UNIONS = ("anyOf", "oneOf")
_ROOT_UNIONS = (*_UNIONS, "allOf", "not", "enum")
"""Keywords that the outermost schema loses on targets where it must be an object's."""
_NOT_PLAIN = frozenset({"$ref", *_ROOT_UNIONS})
_META = frozenset({"$schema", "$id", "$comment", "$anchor"})
"""Keywords that do not describe the value: they are dropped silently."""
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords that do not constrain the value."""
_OMITTED_KEYWORDS = frozenset({"title", "deprecated", "readOnly", "writeOnly", "definitions", "$defs"})
"""Keywords that do not go into the description."""
_NESTED_REFERENCES = 8
"""The depth to which nested references are followed."""
_INLINED = 128 * 1024
"""Characters of the definitions that take the place of references in one request. A schema of a kilobyte can name its
definitions so that each holds several of the next, and would grow a million times."""
_REFERENCE = re.compile(r"#/(\$defs|definitions)/(.*)", re.DOTALL)


@dataclass(slots=True)
class Room:
    """How many characters of definitions may still take the place of references."""

    left: int = _INLINED


def fit_schema(schema: Mapping[str, Any], rule: SchemaRule, room: Room | None = None) -> FittedSchema:
    """Return the schema in the target's form. The argument is not changed. ``room`` is what the schemas of one request
    share."""
    fitted = FittedSchema(dict(schema))
    walk = _SchemaFitter(rule, schema, room or Room(), fitted)
    if rule.root == "object":
        fitted.schema = walk.fit_root(fitted.schema)
    if rule.restricts:
        fitted.schema = walk.fit(fitted.schema, "$", ())
    return fitted


def has_free_keys(schema: Any) -> bool:
    """Whether some object of the schema is a mapping, whose keys only the answer names. On a target whose objects are
    closed, it could only be empty."""
    if isinstance(schema, list):
        return any(map(has_free_keys, schema))
    if not isinstance(schema, Mapping):
        return False
    other_keys = schema.get("additionalProperties")
    if "properties" not in schema and (other_keys is True or isinstance(other_keys, Mapping)):
        return True
    inner = [schema[key] for key in (*_SINGLE_SCHEMA_KEYWORDS, *_SCHEMA_LIST_KEYWORDS) if key in schema]
    return any(map(has_free_keys, inner)) or any(
        has_free_keys(list(schema[key].values()))
        for key in _SCHEMA_MAP_KEYWORDS
        if isinstance(schema.get(key), Mapping)
    )


def form_check(rule: SchemaRule) -> Callable[[Schema], bool]:
    """Return a check whether a schema already has the rule's form, as the schemas of most tools have.

    It is quicker than `fit_schema`, which changes nothing in a schema that passes. Few others would be unchanged.
    """
    if rule.closed or rule.requires:
        return lambda _: False
    if not rule.restricts:
        return _is_plain_object
    keywords = frozenset(rule.keywords)
    return lambda schema: _is_plain_object(schema) and _is_supported(schema, rule, keywords)


def _is_supported(schema: Any, rule: SchemaRule, keywords: frozenset[str]) -> bool:
    """Whether a rule that adds nothing has all of a schema's keywords and their values, at any depth."""
    if not isinstance(schema, Mapping):
        return True
    if (keywords and not keywords.issuperset(schema)) or not rule.renamed.keys().isdisjoint(schema):
        return False
    for key, value in schema.items():
        if key in rule.values and value is not None and value not in rule.values[key]:
            return False
        if key in _SCHEMA_MAP_KEYWORDS and isinstance(value, Mapping):
            inner: Iterable[Any] = value.values()
        elif key in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            inner = value
        elif key in _SINGLE_SCHEMA_KEYWORDS:
            inner = (value,)
        else:
            continue
        for each in inner:
            if not _is_supported(each, rule, keywords):
                return False
    return True


def _is_plain_object(schema: Schema) -> bool:
    """Whether the outermost schema is an object's already, as that of most tools is."""
    return schema.get("type") == "object" and "properties" in schema and _NOT_PLAIN.isdisjoint(schema)


class _SchemaFitter:
    """Fits one schema. What changes is noted in ``fitted``."""

    def __init__(self, rule: SchemaRule, whole: Mapping[str, Any], room: Room, fitted: FittedSchema) -> None:
        self._rule = rule
        self._root = whole
        self._room = room
        self._sizes: dict[str, int] = {}
        self._takes = frozenset(rule.keywords)
        self._dropped, self._changed = fitted.dropped, fitted.changed

    def fit_root(self, schema: Schema) -> Schema:
        """Turn the outermost schema into an object's."""
        if isinstance(schema.get("$ref"), str) and (resolved := self._resolve_reference(schema["$ref"])) is not None:
            self._changed.append("$.$ref")
            schema = {**resolved, **{key: value for key, value in schema.items() if key != "$ref"}}
        unions = [key for key in _ROOT_UNIONS if key in schema]
        self._dropped += [f"$.{key}" for key in unions]
        kept = {key: value for key, value in schema.items() if key not in unions}
        if kept.get("type") != "object":
            self._changed.append("$.type")
            kept = {**kept, "type": "object"}
        kept.setdefault("properties", {})
        return _add_to_description(kept, {key: schema[key] for key in unions})

    def fit(self, schema: Any, path: str, open_references: tuple[str, ...]) -> Any:
        """Fit one schema and its inner ones. ``open_references`` are the references that led to it."""
        if not isinstance(schema, Mapping):
            return schema
        schema = self._unwrap_single(dict(schema), path)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            kept_reference = self._kept_reference(reference)
            if kept_reference is None:
                resolved = self._resolve_reference(reference)
                is_too_deep = reference in open_references or len(open_references) == _NESTED_REFERENCES
                if resolved is None or is_too_deep or not self._takes_room(reference, resolved):
                    self._dropped.append(f"{path}.$ref")
                    return {key: value for key, value in schema.items() if key == "description"}
                self._changed.append(f"{path}.$ref")
                inlined = {**resolved, **{key: value for key, value in schema.items() if key != "$ref"}}
                return self.fit(inlined, path, (*open_references, reference))
            if kept_reference != reference:
                self._changed.append(f"{path}.$ref")
                schema["$ref"] = kept_reference
        schema = self._rename_keywords(schema, path)
        kept: Schema = {}
        described: Schema = {}
        for key, value in schema.items():
            if self._is_taken(key, value):
                kept[key] = self._fit_inner(key, value, f"{path}.{key}", open_references)
            elif key not in _META:
                (self._changed if self._is_mere_form(key, value) else self._dropped).append(f"{path}.{key}")
                if key not in _OMITTED_KEYWORDS:
                    described[key] = value
        return self._fit_object(_add_to_description(kept, described), path)

    def _takes_room(self, reference: str, resolved: Schema) -> bool:
        """Whether there was room for what a reference names."""
        if reference not in self._sizes:
            self._sizes[reference] = len(wirejson.dumps_text(resolved))
        size = self._sizes[reference]
        if size > self._room.left:
            return False
        self._room.left -= size
        return True

    def _fit_inner(self, key: str, value: Any, path: str, open_references: tuple[str, ...]) -> Any:
        if key in _SINGLE_SCHEMA_KEYWORDS:
            return self.fit(value, path, open_references)
        if key in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            return [self.fit(each, f"{path}[{index}]", open_references) for index, each in enumerate(value)]
        if key in _SCHEMA_MAP_KEYWORDS and isinstance(value, Mapping):
            return {name: self.fit(each, f"{path}.{name}", open_references) for name, each in value.items()}
        return value

    def _is_taken(self, key: str, value: Any = None) -> bool:
        if self._takes and key not in self._takes:
            return False
        if self._rule.closed and key == "additionalProperties" and value not in (None, False):
            return False
        return value is None or key not in self._rule.values or value in self._rule.values[key]

    def _is_mere_form(self, key: str, value: Any) -> bool:
        """Whether a keyword can be dropped without loss: annotations, and definitions. Where they are not supported,
        `_kept_reference` keeps no reference to them."""
        if key == "additionalProperties":
            return value is True and not self._rule.closed
        return key in _ANNOTATIONS or key in ("definitions", "$defs")

    def _unwrap_single(self, schema: Schema, path: str) -> Schema:
        """Replace an allOf of one, or a union with null if unions are not supported, by its only branch."""
        for key in ("allOf", *_UNIONS):
            branches = schema.get(key)
            if self._is_taken(self._rule.renamed.get(key, key)) or not isinstance(branches, list):
                continue
            meaningful = [each for each in branches if isinstance(each, Mapping) and each.get("type") != "null"]
            if len(meaningful) == 1 and (key != "allOf" or len(branches) == 1):
                self._changed.append(f"{path}.{key}")
                schema = {**meaningful[0], **{other: value for other, value in schema.items() if other != key}}
        return schema

    def _rename_keywords(self, schema: Schema, path: str) -> Schema:
        for key, name in self._rule.renamed.items():
            if key in schema and name not in schema:
                self._changed.append(f"{path}.{key}")
                value = schema[key]
                # const, which has one value, becomes enum, which has a list of them.
                renamed = {name: [value] if name == "enum" else value}
                schema = {**{other: each for other, each in schema.items() if other != key}, **renamed}
        return schema

    def _fit_object(self, schema: Schema, path: str) -> Schema:
        """Add what the target requires of every object. The schema only becomes stricter: each value that it allows was
        allowed before."""
        kind = schema.get("type")
        if not (kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)):
            return schema
        if self._rule.closed:
            if "properties" not in schema and schema.get("additionalProperties") is not False:
                self._dropped.append(path)  # an object with free keys: none are allowed now
            schema = {**schema, "additionalProperties": False}
        properties = schema.get("properties")
        if self._rule.requires and not schema.get("required") and properties and isinstance(properties, Mapping):
            self._changed.append(f"{path}.required")
            schema = {**schema, "required": list(properties)}
        return schema

    def _kept_reference(self, reference: str) -> str | None:
        """Return the reference as the target has it; None if what it names must take its place."""
        if not self._is_taken("$ref"):
            return None
        if (found := _REFERENCE.fullmatch(reference)) is None:
            return reference
        group, name = found.groups()
        kept = self._rule.renamed.get(group, group)  # unless the schema has both, as in `_rename_keywords`
        is_kept = self._is_taken(kept) and (kept == group or kept not in self._root)
        return f"#/{kept}/{name}" if is_kept else None

    def _resolve_reference(self, reference: str) -> Schema | None:
        found = _REFERENCE.fullmatch(reference)
        group = None if found is None else self._root.get(found[1])
        resolved = group.get(found[2]) if found and isinstance(group, Mapping) else None
        return dict(resolved) if isinstance(resolved, Mapping) else None


def _add_to_description(schema: Schema, keywords: Mapping[str, Any]) -> Schema:
    """Add the dropped keywords to the schema's description."""
    if not keywords:
        return schema
    text = "; ".join(f"{key}: {wirejson.dumps_text(value)}" for key, value in keywords.items())
    before = schema.get("description")
    return {**schema, "description": f"{before} ({text})" if before else text}
