"""`dragoman ask MODEL PROMPT`: one question and its answer, for people and for pipes."""

import json
import sys
from contextlib import redirect_stdout
from typing import Annotated, Any

import typer
from rich.console import Console

from dragoman.canonical.message import StopReason
from dragoman.cli.io.console import console, show_line
from dragoman.cli.io.conversations import describe, describe_unfinished, open_conversation
from dragoman.cli.io.inputs import read_prompt
from dragoman.cli.io.options import (
    BaseUrl,
    Continued,
    ModelOption,
    Options,
    OutputRetries,
    Resumed,
    SchemaFile,
    SystemPrompt,
    ToolNames,
    continued_name,
    model_argument,
    read_options,
)
from dragoman.cli.io.terminal import EventPrinter, PlainWriter, answer_writer, load_local, show_losses, usage_line
from dragoman.session import Reply, Session

_UNFINISHED = {
    StopReason.MAX_TOKENS: "the answer is cut off: it reached the limit of tokens",
    StopReason.CONTEXT_OVERFLOW: "the answer is cut off: the model's window is full",
    StopReason.REFUSAL: "the model refused to answer",
}


def ask(
    model: Annotated[str | None, model_argument("-c")] = None,
    prompt: Annotated[
        str | None, typer.Argument(help="The question. Text from standard input goes in front of it.")
    ] = None,
    model_option: ModelOption = None,
    system: SystemPrompt = None,
    attachment: Annotated[
        list[str] | None,
        typer.Option(
            "--attachment",
            "-a",
            metavar="FILE",
            help="A text, image, audio, video or PDF file, or its https address; - is standard input.",
        ),
    ] = None,
    option: Options = None,
    schema: SchemaFile = None,
    output_retries: OutputRetries = None,
    tool: ToolNames = None,
    continued: Continued = False,
    resumed: Resumed = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer with its tokens, cost and losses as JSON.")
    ] = False,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Write the answer as it arrives.")] = True,
    max_output_tokens: Annotated[int | None, typer.Option(help="The maximum number of tokens in the answer.")] = None,
    base_url: BaseUrl = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Write only warnings and errors to stderr, no tokens, cost or calls.")
    ] = False,
) -> None:
    """Sends one prompt to a model. The answer goes to stdout, tokens, cost and warnings to stderr."""
    if model_option is not None:
        if prompt is not None:
            raise typer.BadParameter("name the model once: as the first word, or with --model")
        model, prompt = model_option, model
    notes = console(stderr=True)
    options = read_options(
        option or (), max_output_tokens=max_output_tokens, schema=schema, output_retries=output_retries
    )
    writer = PlainWriter(sys.stdout) if as_json else answer_writer(console())
    is_streamed = stream and not as_json and schema is None
    with (
        # What the functions of --tool print is not an answer.
        redirect_stdout(sys.stderr if tool and not sys.stdout.isatty() else sys.stdout),
        open_conversation(
            "ask",
            model,
            prompt,
            takes_prompt=model_option is None,
            continued=continued_name(continued, resumed),
            system=system,
            tools=tool or (),
            base_url=base_url,
        ) as (session, words, _),
    ):
        content = read_prompt(words, attachment or ())
        if (continued or resumed) and not quiet:
            notes.print(f"[dim]{show_line(describe(session))}[/]")
            for line in () if session.unfinished is None else describe_unfinished(session.unfinished):
                notes.print(f"[yellow]{show_line(line)}[/]")
        if not quiet and session.model is not None:
            load_local(notes, session.model)
        if is_streamed:
            printer = EventPrinter(Console(quiet=True) if quiet else notes, writer, thinking=False)
            reply = printer.show_stream(session.stream(content, **options))
        else:
            reply = session.ask(content, **options)
    if not is_streamed:
        writer.write(json.dumps(_to_json(session, reply), indent=2) if as_json else reply.text)
        writer.end()
    show_losses(notes, reply.losses)
    if reply.stop_reason in _UNFINISHED:
        notes.print(f"[yellow]{_UNFINISHED[reply.stop_reason]}[/]")
    if not quiet and not is_streamed:
        notes.print(f"[dim]{show_line(usage_line(reply.message))}[/]")


def _to_json(session: Session, reply: Reply[str]) -> dict[str, Any]:
    usage, cost = reply.usage, reply.cost
    counted = cost.uncounted < cost.replies or not cost.replies
    return {
        "text": reply.text,
        "model": reply.message.metadata.model,
        "session_id": session.session_id,
        "stop_reason": reply.stop_reason,
        "input_tokens": usage.prompt_tokens if counted else None,
        "output_tokens": usage.output_tokens if counted else None,
        "uncounted_replies": cost.uncounted,
        "cost_usd": None if cost.usd is None else f"{cost.usd:f}",
        "cost_status": cost.status.value,
        "losses": [
            {"kind": loss.kind.value, "severity": loss.severity.value, "reason": loss.reason} for loss in reply.losses
        ],
    }
