"""Builds adapters from tables: the built-in ones, and those of the user's own file.

The built-in endpoints are attributes of this module, by their names with underscores, for the entry points.
DRAGOMAN_ENDPOINTS names the user's file. The default is ``endpoints.toml`` in the platform's configuration folder of
``dragoman``. A table with the name of a built-in endpoint changes that endpoint.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import ModelTable, deep_merge
from dragoman.adapter.registry import register_adapter
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman_adapters.compatible.endpoint_row import EndpointRow, Table, built_in_tables, parse_row, resolve_table
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_platform.dual_api import DualApiAdapter
from dragoman_adapters.openai_responses.adapter import ResponsesAdapter

_MODEL_FILES: dict[tuple[str, str], tuple[str, ...]] = {
    ("open", "completions"): ("dragoman_adapters.compatible", "models.toml", "completions.toml"),
    ("open", "chat"): ("dragoman_adapters.compatible", "models.toml"),
    ("open", "responses"): ("dragoman_adapters.compatible", "models.toml", "responses.toml"),
    ("openai", "chat"): ("dragoman_adapters", "openai_platform/models.toml", "openai_chat/models.toml"),
    ("openai", "responses"): ("dragoman_adapters", "openai_platform/models.toml", "openai_responses/models.toml"),
}
"""The package and the files of the models that an endpoint serves, by API."""

FILE_VARIABLE = "DRAGOMAN_ENDPOINTS"


def __getattr__(attribute: str) -> type[Adapter]:
    for name in built_in_tables():
        if name.replace("-", "_") == attribute:
            return _load_endpoint(name)
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


def user_endpoints() -> Mapping[str, Callable[[], type[Adapter]]]:
    """Return the endpoints of the user's file; each is built when it is first needed."""
    return {name: partial(_load_endpoint, name) for name in read_user_tables() if name not in built_in_tables()}


def register_endpoint(name: str, table: Mapping[str, Any]) -> type[Adapter]:
    """Register an endpoint in this process: a table as in endpoints.toml, as a dict.

    With ``like``, the name of another endpoint, a base_url is often enough. Raises ConfigurationError with the field
    that is wrong, or if a provider of that name is installed.
    """
    origin = f"register_endpoint({name!r})"
    adapter = _build_class(name, {**_all_tables(), name: dict(table)}, origin)
    register_adapter(name, adapter)
    return adapter


def find_user_file() -> Path | None:
    """Return the user's file; None if there is none. Raises ConfigurationError if a configured file does not exist."""
    if configured := os.environ.get(FILE_VARIABLE, "").strip():
        path = Path(configured).expanduser()
        if not path.is_file():
            raise ConfigurationError(f"{FILE_VARIABLE} names {path}, which is not a file")
        return path
    path = user_config_path("dragoman") / "endpoints.toml"
    return path if path.is_file() else None


def read_user_tables() -> Mapping[str, Table]:
    """Return the tables of the user's file. Raises ConfigurationError if it cannot be read."""
    path = find_user_file()
    return {} if path is None else _read_tables(path)


@cache
def _read_tables(path: Path) -> Mapping[str, Table]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    for name, table in found.items():
        if not isinstance(table, dict):
            raise ConfigurationError(f"{path}: {name}: a file of endpoints has one table for each endpoint")
    return found


def _all_tables() -> dict[str, Table]:
    """Return the built-in tables, with the user's additions and changes."""
    tables = dict(built_in_tables())
    for name, table in read_user_tables().items():
        tables[name] = deep_merge(tables.get(name, {}), table)
    return tables


def _load_endpoint(name: str) -> type[Adapter]:
    origin = str(find_user_file()) if name in read_user_tables() else "endpoints.toml"
    return _build_class(name, _all_tables(), origin)


def _build_class(name: str, tables: Mapping[str, Table], origin: str) -> type[Adapter]:
    return build_endpoint_class(name, parse_row(name, resolve_table(name, tables, origin), origin))


def build_endpoint_class(name: str, row: EndpointRow) -> type[Adapter]:
    """Return the adapter class of a row, for one API or for both."""
    title = name.title().replace("-", "").replace(".", "")
    by_api = {api: _build_api_class(f"{title}{api.title()}Adapter", name, row, api) for api in row.apis}
    first = by_api[row.apis[0]]
    if len(by_api) == 1:
        return first
    tables = [by_api[api].server_tools for api in row.apis]
    tools = next((table for table in tables if table.rows), tables[0])
    fields = {**_class_fields(name, row), "apis": by_api, "listed_models": first.listed_models, "server_tools": tools}
    return type(f"{title}Adapter", (DualApiAdapter,), fields)


def _build_api_class(title: str, name: str, row: EndpointRow, api: str) -> type[ChatAdapter] | type[ResponsesAdapter]:
    # A model's own thinking goes back to it on these wires.
    replays_thinking = api == "responses" or row.dialect.reasoning_details or row.dialect.reasoning_replay != "never"
    reads = row.default.get("thinking_policy", {}).get("reads_from", ["{provider}:*"] if replays_thinking else [])
    own = {
        "thinking_policy": {"reads_from": [pattern.replace("{provider}", name) for pattern in reads]},
        "supports_batch_api": "absent",  # the wire of a chat has no files and batches
    }
    families = ModelTable.of(*_MODEL_FILES[row.families, api]).with_prefix(row.vendor_prefix)
    models = families.extend(row.default).extend(own, row.models)
    tools = ServerToolTable.of("dragoman_adapters.compatible", keys=(name, api))
    fields = {**_class_fields(name, row), "models": models, "server_tools": tools}
    if row.vendor_prefix:
        fields["listed_models"] = ModelTable({"model": row.models}).listed
    if api == "responses":
        return type(title, (ResponsesAdapter,), fields)
    if api == "completions":
        # Imported late: few endpoints have them alone.
        from dragoman_adapters.openai_chat.text_completions import TextCompletionAdapter, text_dialect

        return type(title, (TextCompletionAdapter,), {**fields, "dialect": text_dialect(row.dialect)})
    return type(title, (ChatAdapter,), {**fields, "dialect": row.dialect})


def _class_fields(name: str, row: EndpointRow) -> dict[str, Any]:
    return {"provider": name, "endpoint": row.endpoint, "telemetry_name": row.telemetry_name or name}
