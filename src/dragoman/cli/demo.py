"""`dragoman demo`: one session over three recorded wires and a live model, without a key or network."""

from collections.abc import Mapping
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import MissingExtraError
from dragoman.bundled import bundled_path
from dragoman.canonical.events import MessageComplete
from dragoman.cli.io import demo_script
from dragoman.cli.io.client import command_client
from dragoman.cli.io.console import console, show_line
from dragoman.cli.io.loading import load_local
from dragoman.cli.io.terminal import EventPrinter, show_preview, usage_line
from dragoman.pricing import price_table
from dragoman.session import Session
from dragoman.testing.cassettes.replay import Cassette, CassetteTransport

COMPARED_MODELS = (
    "anthropic:claude-opus-5-5",
    "anthropic:claude-haiku-4-5",
    "openai:gpt-5.4",
    "openai:gpt-5.4-mini",
    "openrouter:deepseek/deepseek-v3.2",
)


def demo() -> None:
    """Runs one conversation over four models and shows what happens at each swap."""
    out = console()
    cassette = Cassette.load(bundled_path("cassettes") / demo_script.CASSETTE)
    out.print(
        f"[bold]One conversation, three providers' APIs and a model in this process.[/]\n"
        f"The first three replay a recording of a real {show_line(cassette.server)}, without a network;"
        f" the last one runs live.\n"
    )
    with httpx.Client(transport=CassetteTransport(cassette)) as client:
        first, *others = demo_script.RECORDED_PARTS
        replayed = {part.provider: replay_settings(part.provider, client) for part in demo_script.RECORDED_PARTS}
        session = command_client(replayed).session(
            first.model,
            tools=demo_script.TOOLS,
            options=AdapterOptions(),  # those of the recording
            prices=price_table().with_overlay(demo_script.FREE_SERVER),
            new_id=demo_script.sequential_ids(),
        )
        with session:
            _part(out, session, f"{first.wire} wire, replayed", first.prompt)
            for part in others:
                _swap(out, session, part.model)
                _part(out, session, f"{part.wire} wire, replayed", part.prompt)
            live = _live_part(out, session)
            _summary(out, session)
    if live is not None:
        out.print(f"\n[yellow]The live part was left out:[/] {show_line(str(live))}", soft_wrap=True)


def replay_settings(provider: str, client: httpx.Client) -> Mapping[str, Any]:
    """Settings that send a provider's requests to the cassette."""
    return {
        "client": client,
        "api_key": "replayed",
        "base_url": f"http://replayed.invalid{demo_script.BASE_PATHS[provider]}",
    }


def _live_part(out: Console, session: Session) -> MissingExtraError | None:
    _swap(out, session, demo_script.LOCAL_MODEL)
    try:
        load_local(out, demo_script.LOCAL_MODEL)
        _part(out, session, "the embedded model, live", demo_script.LOCAL_PROMPT)
    except MissingExtraError as missing:
        return missing
    return None


def _swap(out: Console, session: Session, model: str) -> None:
    out.print(f"[bold magenta]swap[/] to {show_line(model)}")
    show_preview(out, session.swap(model))
    out.print()


def _part(out: Console, session: Session, where: str, prompt: str) -> None:
    out.rule(f"[bold]{show_line(str(session.model))}[/] · {where}", align="left", style="dim")
    out.print(f"[bold blue]you[/] {show_line(prompt)}", soft_wrap=True)
    printer = EventPrinter(out)
    for event in session.stream(prompt, max_output_tokens=128):
        printer.show(event)
        if isinstance(event, MessageComplete):
            printer.end()
            out.print(f"  [dim]{show_line(usage_line(event.message))}[/]", soft_wrap=True)
    out.print()


def _summary(out: Console, session: Session) -> None:
    usage = session.usage
    out.rule("[bold]summary[/]", align="left", style="dim")
    out.print(
        f"{len(session.messages)} messages, {usage.prompt_tokens:,} tokens read and {usage.output_tokens:,} written."
        f" They cost {show_line(str(session.cost))}, because both models ran on local machines."
        f" Elsewhere, at today's prices:"
    )
    table = Table("model", "cost there", box=None, pad_edge=False)
    for model in COMPARED_MODELS:
        table.add_row(model, show_line(str(session.cost_on(model))))
    out.print(table)
