"""`dragoman demo`: one session over three recorded wires and a live model, without a key or network.

Prompts, tools and ids are those of the recording, because a cassette replays only the requests that it holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import count
from typing import Any

import httpx
from rich.console import Console

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import MissingExtraError
from dragoman.bundled import bundled_path
from dragoman.canonical.ids import format_ulid
from dragoman.cli.io.console import console, print_table, show_line
from dragoman.cli.io.conversations import command_client
from dragoman.cli.io.terminal import EventPrinter, load_local, show_preview
from dragoman.pricing import price_table
from dragoman.session import Session, Tool, tool
from dragoman.testing.cassettes.replay import Cassette, CassetteTransport

RECORDED_MODEL = "qwen2.5-coder-0.5b"
"""The model behind the recorded server (llama.cpp), which serves three providers' wires."""

CASSETTE = "llama-server/swap/three_wires.yaml"

LOCAL_MODEL = "local:smollm2-135m"


@dataclass(frozen=True, slots=True)
class Part:
    """One turn of the demo: the provider's wire and the user's prompt."""

    provider: str
    wire: str
    prompt: str

    @property
    def model(self) -> str:
        return f"{self.provider}:{RECORDED_MODEL}"


FREE_SERVER = {
    provider: {
        "source": "the recorded server ran on the machine that recorded it",
        "checked": date(2026, 11, 21),
        "model": [{"id": RECORDED_MODEL, "match": {"equals": [RECORDED_MODEL]}, "prices": [{"free": True}]}],
    }
    for provider in ("anthropic", "openai")
}
"""A price overlay: the recorded model was free on every wire."""

RECORDED_PARTS = (
    Part("anthropic", "Anthropic's Messages", "Use read_file to read config.toml and tell me the port."),
    Part("openai", "OpenAI's Responses", "Add 17 and 25 with the add tool."),
    Part("openai-chat", "OpenAI's Chat Completions", "Use read_file to read notes.txt and tell me the day."),
)

LOCAL_PROMPT = "Use the add tool to add 8080 and 1."

FILES = {
    "config.toml": "port = 8080",
    "notes.txt": "The new port goes live on Monday.",
}

COMPARED_MODELS = (
    "anthropic:claude-opus-5-5",
    "anthropic:claude-haiku-4-5",
    "openai:gpt-5.4",
    "openai:gpt-5.4-mini",
    "openrouter:deepseek/deepseek-v3.2",
)


@tool(side_effects="read")
def read_file(path: str) -> str:
    """Read a text file and return its content.

    Args:
        path: Path of the file.
    """
    if path not in FILES:
        raise FileNotFoundError(f"{path}; there are {', '.join(FILES)}")
    return FILES[path]


@tool(side_effects="none")
def add(a: float, b: float) -> str:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return f"{a + b:g}"


TOOLS: tuple[Tool, ...] = (read_file, add)

BASE_PATHS = {"anthropic": "", "openai": "/v1", "openai-chat": "/v1"}
"""The path after the recorded server's origin in each provider's base URL."""


def sequential_ids() -> Callable[[], str]:
    """The same ids in every run, so that a replayed request equals the recorded one."""
    numbers = count(1)
    return lambda: format_ulid(next(numbers))


def demo() -> None:
    """Runs one conversation over four models and shows what happens at each swap."""
    out = console()
    cassette = Cassette.load(bundled_path("cassettes") / CASSETTE)
    out.print(
        f"[bold]One conversation, three providers' APIs and a model in this process.[/]\n"
        f"The first three replay a recording of a real {show_line(cassette.server)}, without a network;"
        f" the last one runs live.\n"
    )
    with httpx.Client(transport=CassetteTransport(cassette)) as client:
        first, *others = RECORDED_PARTS
        replayed = {part.provider: replay_settings(part.provider, client) for part in RECORDED_PARTS}
        session = command_client(replayed).session(
            first.model,
            tools=TOOLS,
            options=AdapterOptions(),  # those of the recording
            prices=price_table().with_overlay(FREE_SERVER),
            new_id=sequential_ids(),
        )
        with session:
            _part(out, session, f"{first.wire} wire, replayed", first.prompt)
            for part in others:
                _swap(out, session, part.model)
                _part(out, session, f"{part.wire} wire, replayed", part.prompt)
            _swap(out, session, LOCAL_MODEL)
            missing: MissingExtraError | None = None
            try:
                load_local(out, LOCAL_MODEL)
                _part(out, session, "the embedded model, live", LOCAL_PROMPT)
            except MissingExtraError as error:
                missing = error
            usage = session.usage
            out.rule("[bold]summary[/]", align="left", style="dim")
            out.print(
                f"{len(session.messages)} messages, {usage.prompt_tokens:,} tokens read and {usage.output_tokens:,}"
                f" written. They cost {show_line(str(session.cost))}, because both models ran on local machines."
                f" Elsewhere, at today's prices:"
            )
            costs = [(model, str(session.cost_on(model))) for model in COMPARED_MODELS]
            print_table(out, ("model", "cost there"), costs)
    if missing is not None:
        out.print(f"\n[yellow]The live part was left out:[/] {show_line(str(missing))}")


def replay_settings(provider: str, client: httpx.Client) -> Mapping[str, Any]:
    """Settings that send a provider's requests to the cassette."""
    return {
        "client": client,
        "api_key": "replayed",
        "base_url": f"http://replayed.invalid{BASE_PATHS[provider]}",
    }


def _swap(out: Console, session: Session, model: str) -> None:
    out.print(f"[bold magenta]swap[/] to {show_line(model)}")
    show_preview(out, session.swap(model))
    out.print()


def _part(out: Console, session: Session, where: str, prompt: str) -> None:
    out.rule(f"[bold]{show_line(str(session.model))}[/] · {where}", align="left", style="dim")
    out.print(f"[bold blue]you[/] {show_line(prompt)}")
    EventPrinter(out, indent="  ").show_stream(session.stream(prompt, max_output_tokens=128))
    out.print()
