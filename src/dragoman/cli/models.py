"""`dragoman models` lists the known models with their capabilities; `dragoman local install` gets the embedded one."""

from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated

import typer

from dragoman.adapter.facts.capabilities import AdapterCapabilities, Support
from dragoman.adapter.names import full_name
from dragoman.adapter.registry import adapter_class, get_adapter, providers
from dragoman.cli.io.console import console, print_table, show_line
from dragoman.pricing import price_table

_COLUMNS = {
    "tools": "supports_tools",
    "images": "supports_images",
    "documents": "supports_documents",
    "thinking": "supports_thinking",
    "schema": "supports_structured_output",
    "cache": "supports_prompt_caching",
}
_WIDTH = 118
_MAX_NEAR = 3
_LABELS = {Support.NATIVE: "yes", Support.EMULATED: "emulated", Support.ABSENT: "-"}


def models(
    name: Annotated[
        str | None, typer.Argument(help="A provider, or provider:model; the default is all providers.")
    ] = None,
) -> None:
    """Lists models and their capabilities. Other model names work as well, by the rules of their family."""
    if name is not None and ":" in (name := full_name(name)):
        _show_model(name)
        return
    rows = []
    for provider in [name] if name else providers():
        for model_name in adapter_class(provider).listed_models:
            capabilities = get_adapter(f"{provider}:{model_name}").capabilities
            limits = (f"{capabilities.max_context_tokens:,}", f"{capabilities.max_output_tokens:,}")
            support = (_LABELS[getattr(capabilities, field)] for field in _COLUMNS.values())
            rows.append((f"{provider}:{model_name}", *limits, *support))
    print_table(console(min_width=_WIDTH), ("model", "context", "output", *_COLUMNS), rows)


def _show_model(model: str) -> None:
    capabilities = get_adapter(model).capabilities
    rows = []
    for field in AdapterCapabilities.model_fields:
        if field in ("evidence", "wire"):
            continue
        value = getattr(capabilities, field)
        text = _LABELS[value] if isinstance(value, Support) else str(value)
        rows.append((field, text, capabilities.evidence.get(field, "")))
    console().print(f"[bold]{show_line(model)}[/]")
    provider, _, name = model.partition(":")
    listed = adapter_class(provider).listed_models
    if name not in listed and price_table().find(model) is None:
        near = get_close_matches(name, listed, n=_MAX_NEAR)
        hint = f" Names like it: {', '.join(near)}." if near else ""
        remark = (
            f"This version does not know the model {name!r}, and {provider} may not have it. The values below are what"
            f" Dragoman assumes for an unknown model of {provider}.{hint}"
        )
        console().print(f"[yellow]{show_line(remark)}[/]")
    print_table(console(min_width=_WIDTH), ("capability", "value", "evidence"), rows)


class Action(StrEnum):
    INSTALL = "install"


def local(action: Annotated[Action, typer.Argument(help="install downloads the file of the embedded model.")]) -> None:
    """Manages the embedded model, which needs the extra `local` and one file of 98 MB."""
    from dragoman.local.files import install

    assert action is Action.INSTALL  # the only one so far
    path = install()
    console().print(
        f"the embedded model is at {show_line(str(path))}; try it: dragoman ask local:smollm2-135m 'Hello!'"
    )
