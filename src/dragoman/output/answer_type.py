"""The required type of an answer: a Python type, or a JSON Schema."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticErrorMixin
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema, from_json, to_json

from dragoman.adapter import wirejson
from dragoman.adapter.errors import RequestError
from dragoman.canonical.events import OutputProblem
from dragoman.output.errors import OutputTypeError
from dragoman.tools.toolbox import refuse_reference

_DEFINITIONS = "#/$defs/"
T = TypeVar("T")
ValueT = TypeVar("ValueT", covariant=True)
ANSWER = "answer"
"""The field that holds an answer that is not an object itself: many wires need an object at the top."""
VALUE = "value"
"""The name of a value that has no fields."""


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


class InvalidAnswerError(Exception):
    """An answer that cannot be read."""

    def __init__(self, problems: tuple[OutputProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class AnswerForm(Protocol[ValueT]):
    """What an answer has to be. ``schema`` is for the model."""

    @property
    def schema(self) -> Mapping[str, Any]: ...

    def read(self, text: str) -> ValueT:
        """Return the value of an answer. Raises InvalidAnswerError."""
        ...

    def read_partial(self, data: Any) -> tuple[bytes, ValueT] | None:
        """Return the largest part of an answer that is valid, as JSON and as a value. ``data`` is the JSON so far,
        which this may change."""
        ...

    def watch(self) -> Callable[[str], tuple[OutputProblem, ...]] | None:
        """Return a function that takes an answer piece by piece, and returns the problems that are certain whatever
        follows; None if only a whole answer can be judged."""
        ...


class AnswerType(Generic[T]):
    """A Python type. Raises OutputTypeError if it has no JSON Schema.

    What a type is annotated with may have a method `watch`, as a `MessageBodySchema` has: see `AnswerForm`.
    """

    def __init__(self, output: Any) -> None:
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(output)
            schema = with_plain_root(adapter.json_schema(schema_generator=AnswerSchema))
            self._is_wrapped = schema.get("type") != "object"
            if self._is_wrapped:
                fields: Any = {ANSWER: (output, ...)}
                adapter = TypeAdapter(create_model("Answer", __config__=ConfigDict(extra="forbid"), **fields))
                schema = with_plain_root(adapter.json_schema(schema_generator=AnswerSchema))
        except Exception as error:  # pydantic raises several classes for an unknown type
            reason = error.message if isinstance(error, PydanticErrorMixin) else f"{type(error).__name__}: {error}"
            name, why = getattr(output, "__name__", output), reason.partition("\n")[0]
            raise OutputTypeError(f"output={name!s:.80}: this type has no JSON Schema: {why:.300}") from None
        self.schema: Mapping[str, Any] = schema
        self._adapter = adapter
        watches = (getattr(each, "watch", None) for each in getattr(output, "__metadata__", ()))
        self._watch: Callable[[], Any] | None = next(filter(None, watches), None)

    def read(self, text: str) -> T:
        data = _parse(text)
        try:
            return self._unwrap(self._adapter.validate_json(text))
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            problems = tuple(OutputProblem(_json_path(fault, data), fault["msg"]) for fault in faults)
        except Exception as error:  # a validator of the program's own type
            problems = (OutputProblem((), f"{type(error).__name__}: {error}"),)
        raise InvalidAnswerError(problems)

    def read_partial(self, data: Any) -> tuple[bytes, T] | None:
        for part in _shrink(data):
            written = to_json(part)
            try:
                return written, self._unwrap(self._adapter.validate_json(written))
            except Exception:  # as in `read`: the next part is smaller
                continue
        return None

    def watch(self) -> Callable[[str], tuple[OutputProblem, ...]] | None:
        return None if self._watch is None else self._watch()

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the values of `read_fields`: those of an object's fields, or ``value`` for any other type."""
        names = tuple(self.schema.get("properties", ()))
        return (VALUE,) if self._is_wrapped or not names else names

    def read_fields(self, text: str) -> dict[str, Any]:
        """Return the values of an answer as JSON, by the names of ``fields``. Raises InvalidAnswerError."""
        self.read(text)
        data = self._adapter.dump_python(self._adapter.validate_json(text), mode="json", by_alias=True)
        if self.fields != (VALUE,):
            return {name: data.get(name) for name in self.fields}
        return {VALUE: data[ANSWER] if self._is_wrapped else data}

    def _unwrap(self, value: Any) -> T:
        unwrapped: T = getattr(value, ANSWER) if self._is_wrapped else value
        return unwrapped


class AnswerJson:
    """A JSON Schema; the value of an answer is its text. Raises OutputTypeError if the schema is invalid."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        import jsonschema_rs  # imported late: most turns have no schema

        self.schema = schema
        try:
            plain = from_json(wirejson.dumps(dict(schema)))
            self._validator = jsonschema_rs.validator_for(plain, mask="the value", retriever=refuse_reference)
        except jsonschema_rs.ValidationError as error:
            place = OutputProblem(tuple(error.instance_path), error.message)
            raise OutputTypeError(f"output_schema: this is not a valid JSON Schema: {place!s:.300}") from None
        except (RequestError, TypeError) as error:
            raise OutputTypeError(f"output_schema: this is not JSON: {error!s:.300}") from None

    def read(self, text: str) -> str:
        problems = tuple(
            OutputProblem(tuple(error.instance_path), error.message)
            for error in self._validator.iter_errors(_parse(text))
        )
        if problems:
            raise InvalidAnswerError(problems)
        return text

    def read_partial(self, data: Any) -> None:
        """Return None: a part of the text is not a value."""

    def watch(self) -> None:
        """Return None: only a whole text is checked."""


def _parse(text: str) -> Any:
    """Return the JSON of an answer. Raises InvalidAnswerError."""
    if not text.strip():
        raise InvalidAnswerError((OutputProblem((), "the answer is empty"),))
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidAnswerError((OutputProblem((), f"the answer is not one JSON value: {error!s:.200}"),)) from None


def _json_path(fault: ErrorDetails, data: Any) -> tuple[str | int, ...]:
    """Return the path of a fault in the JSON. Pydantic adds the names of unions' members, which are not part of it."""
    path: list[str | int] = []
    here = data
    for step in fault["loc"]:
        is_key = isinstance(here, dict) and isinstance(step, str) and step in here
        if is_key or (isinstance(here, list) and isinstance(step, int) and step < len(here)):
            path.append(step)
            here = here[step]
        elif fault["type"] == "missing" and step == fault["loc"][-1]:
            path.append(step)
    return tuple(path)


def _shrink(data: Any) -> Iterator[Any]:
    """Yield the data, and then without its last value: the innermost one first, then what contains it."""
    yield data
    last: list[tuple[Any, Any]] = []
    here = data
    while isinstance(here, (dict, list)) and here:
        key = len(here) - 1 if isinstance(here, list) else next(reversed(here))
        last.append((here, key))
        here = here[key]
    for container, key in reversed(last):
        del container[key]
        yield data
