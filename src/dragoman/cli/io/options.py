"""The options that several commands share: the model, and those of a turn (-o NAME=VALUE, --schema FILE and more)."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from pydantic import TypeAdapter, ValidationError

from dragoman.adapter.contract import AdapterOptions, NamedTool
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import nearest_name
from dragoman.adapter.options import TOOL_CHOICES
from dragoman.cli.io.inputs import read_regular
from dragoman.session.config import TurnOptions

OPTIONS = tuple(
    each.name for each in fields(AdapterOptions) if each.name not in ("context", "stream", "headers", "output_schema")
)
"""The names that -o takes. A command sets the stream and the context itself; --schema is the schema; headers are a
setting of the provider in dragoman.toml."""
_TEXTS = frozenset({"effort", "tool_choice", "prompt_cache"})
"""Options whose values are never JSON."""
_MAX_SCHEMA_BYTES = 1024 * 1024


def complete_model(incomplete: str) -> list[str]:
    """Return the model names that begin like the word: first the providers, then the known models of one."""
    from dragoman.adapter.registry import adapter_class, providers  # only a shell needs them here

    found = [f"{name}:" for name in providers() if f"{name}:".startswith(incomplete.partition(":")[0])]
    if ":" in incomplete or len(found) == 1:
        found = [name + model for name in found for model in adapter_class(name[:-1]).listed_models]
    return [name for name in found if name.startswith(incomplete)]


def model_argument(otherwise: str) -> Any:
    """Return the first argument of a command: a model. With ``otherwise``, such as ``-c``, it may be left out."""
    return typer.Argument(
        help=f"provider:model, e.g. local:smollm2-135m. It may be left out with {otherwise}, or if dragoman.toml sets"
        " default_model.",
        autocompletion=complete_model,
    )


SchemaFile = Annotated[Path | None, typer.Option("--schema", help="A file with the JSON Schema of each answer.")]
OutputRetries = Annotated[
    int | None,
    typer.Option(
        "--output-retries",
        min=0,
        help="How often to ask again if an answer does not obey the schema; the default is once.",
    ),
]

ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", help="The model, in place of the first word.", autocompletion=complete_model),
]
SystemPrompt = Annotated[str | None, typer.Option("--system", "-s", help="A system prompt.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="An option of each request, e.g. temperature=0."),
]
ToolNames = Annotated[
    list[str] | None,
    typer.Option("--tool", metavar="MODULE:FUNCTION", help="A Python function that the model may call."),
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="A base URL for the provider.")]
Continued = Annotated[
    bool, typer.Option("--continue", "-c", help="Continue the last conversation, also with another model.")
]
Resumed = Annotated[
    str | None,
    typer.Option(
        "--resume", "-r", metavar="NUMBER", help="Continue a conversation by its number in dragoman history, or its id."
    ),
]


def continued_name(continued: bool, resumed: str | None) -> str | None:
    """Return the name of the conversation to continue; None starts a new one."""
    return resumed or ("1" if continued else None)  # the last one has the number 1


def read_options(
    words: Iterable[str],
    *,
    max_output_tokens: int | None = None,
    schema: Path | None = None,
    output_retries: int | None = None,
) -> TurnOptions:
    """Return the options of a turn. Raises ConfigurationError for an unknown name or a wrong value."""
    given: dict[str, Any] = {} if max_output_tokens is None else {"max_output_tokens": max_output_tokens}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise ConfigurationError(f"-o {word!r:.60} is not of the form NAME=VALUE, such as -o temperature=0")
        if name not in OPTIONS:
            raise ConfigurationError(f"unknown option {name!r:.60}{nearest_name(name, OPTIONS)}")
        given[name] = _read_value(name, value)
    if schema is not None:
        given["output_schema"] = _read_schema(schema)
    if output_retries is not None:
        if schema is None:
            raise ConfigurationError("--output-retries needs --schema FILE: any text is a valid answer without one")
        given["output_retries"] = output_retries
    options: TurnOptions = given  # type: ignore[assignment]  # the names were checked
    return options


def _read_value(name: str, text: str) -> Any:
    if name == "tool_choice" and text not in TOOL_CHOICES:
        return NamedTool(text)
    value: Any = text
    if name not in _TEXTS:
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
    if name == "stop_sequences" and not isinstance(value, list):
        value = (text,)
    try:
        hint = get_type_hints(AdapterOptions)[name]
        return TypeAdapter(hint, config={"allow_inf_nan": False}).validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise ConfigurationError(f"-o {name}={text!r:.60}: {problem[0].lower()}{problem[1:]}") from None


def _read_schema(path: Path) -> dict[str, Any]:
    """Return a JSON Schema. Raises ConfigurationError if the file has none."""
    from jsonschema_rs import validator_for  # most questions have no schema

    from dragoman.tools.toolbox import refuse_reference

    try:
        schema = json.loads(read_regular(path, _MAX_SCHEMA_BYTES))
        if not isinstance(schema, dict):
            raise ValueError("it is not a JSON object")
        validator_for(schema, retriever=refuse_reference)
    except (ValueError, RecursionError) as error:
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigurationError(f"{str(path)!r} is not a JSON Schema: {problem}") from None
    return schema
