"""`dragoman models`: lists the known models with their capabilities, as their adapters declare them."""

from typing import Annotated

import typer
from rich.table import Table

from dragoman.adapter.facts.capabilities import AdapterCapabilities, Support
from dragoman.adapter.registry import adapter_class, get_adapter, providers
from dragoman.cli.io.terminal import console

_COLUMNS = (
    ("tools", "supports_tools"),
    ("images", "supports_images"),
    ("documents", "supports_documents"),
    ("thinking", "supports_thinking"),
    ("schema", "supports_structured_output"),
    ("cache", "supports_prompt_caching"),
)
_WIDTH = 118
_LABELS = {Support.NATIVE: "yes", Support.EMULATED: "emulated", Support.ABSENT: "-"}


def models(
    name: Annotated[
        str | None, typer.Argument(help="A provider, or provider:model; the default is all providers.")
    ] = None,
) -> None:
    """Lists models and their capabilities. Other model names work as well, by the rules of their family."""
    if name is not None and ":" in name:
        _show_model(name)
        return
    table = Table("model", "context", "output", *(title for title, _ in _COLUMNS), box=None, pad_edge=False)
    for provider in [name] if name else providers():
        for model_name in adapter_class(provider).listed_models:
            capabilities = get_adapter(f"{provider}:{model_name}").capabilities
            table.add_row(
                f"{provider}:{model_name}",
                f"{capabilities.max_context_tokens:,}",
                f"{capabilities.max_output_tokens:,}",
                *(_LABELS[getattr(capabilities, field)] for _, field in _COLUMNS),
            )
    console(min_width=_WIDTH).print(table)


def _show_model(model: str) -> None:
    capabilities = get_adapter(model).capabilities
    table = Table("capability", "value", "evidence", box=None, pad_edge=False)
    for field in AdapterCapabilities.model_fields:
        if field in ("evidence", "wire"):
            continue
        value = getattr(capabilities, field)
        text = _LABELS[value] if isinstance(value, Support) else str(value)
        table.add_row(field, text, capabilities.evidence.get(field, ""))
    console().print(f"[bold]{model}[/]")
    console(min_width=_WIDTH).print(table)
