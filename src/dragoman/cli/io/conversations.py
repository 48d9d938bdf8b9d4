"""Starts or continues the conversation of a command, with the tools that its options name."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import one_line
from dragoman.cli.io.client import conversation_client, names_model
from dragoman.cli.io.console import counted, show_line
from dragoman.cli.io.conversation_log import ConversationLog
from dragoman.session import Session
from dragoman.session.config import SessionSettings
from dragoman.session.turn.unfinished import UnfinishedTurn
from dragoman.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class OpenConversation:
    """The session of a command, the prompt of its words, and the log that keeps it, if any."""

    session: Session
    prompt: str | None
    log: ConversationLog | None

    def close(self, notes: Console) -> None:
        """Close the session, and say so if the log could not keep it."""
        self.session.close()
        if self.log is not None:
            self.log.close()
            if self.log.problem:
                hint = "log = false in dragoman.toml turns the log off"
                notes.print(
                    f"[yellow]the conversation is not kept:[/] {show_line(self.log.problem)} ({hint})", soft_wrap=True
                )


def open_conversation(
    command: str,
    model: str | None,
    prompt: str | None = None,
    *,
    takes_prompt: bool = False,
    continued: str | None = None,
    dumped: bytes | None = None,
    system: str | None = None,
    tools: Sequence[str] = (),
    base_url: str | None = None,
    mentions: bool = False,
) -> OpenConversation:
    """Return a new conversation, the one of the log that ``continued`` names, or the one that was ``dumped``.

    If a command ``takes_prompt`` and the model may be left out, its only argument is the model if it names one, else
    the prompt. With ``mentions``, the router reads those of the prompts. Raises ConfigurationError if there is no model
    or nothing to continue, and as `Session` does.
    """
    client, log = conversation_client(command)
    router = client.config.router
    has_model = (
        continued is not None or dumped is not None or (router is not None and router.global_default is not None)
    )
    if takes_prompt and has_model and prompt is None and model is not None and not names_model(client, model):
        model, prompt = None, model
    if model is None and not has_model:
        raise ConfigurationError(
            f"name a model, such as: dragoman {command} local:smollm2-135m; or set default_model in dragoman.toml"
        )
    settings: SessionSettings = {"tools": [_load_tool(name) for name in tools], "base_url": base_url}
    if router is not None:  # a stored conversation may have no model of its own
        settings["router"] = router.with_mentions() if mentions else router
    session: Any
    if continued is None and dumped is None:
        session = client.session(model, system=system, **settings)
    elif system is not None:
        raise ConfigurationError("a system prompt starts a conversation: leave it out to continue one")
    elif dumped is not None:
        session = client.load(dumped, model=model, **settings)
    elif log is None:
        raise ConfigurationError("conversations are not kept here: the configuration has log = false")
    else:
        session = client.resume(log.find(continued or "1"), model=model, **settings)
    return OpenConversation(session, prompt, log)


def describe(session: Session) -> str:
    """Return a line about the conversation that is continued."""
    return (
        f"continues a conversation of {counted(len(session.messages), 'message')} with"
        f" {session.model or 'the model of the rules'}"
    )


def describe_unfinished(turn: UnfinishedTurn) -> Iterator[str]:
    """Yield lines about a turn that was interrupted: what was asked, and what its calls have done."""
    asked = " ".join(message.text for message in turn.prompt).strip()
    yield f"the last turn was interrupted: {one_line(asked):.200}" if asked else "the last turn was interrupted"
    for calls, state in ((turn.ran, "ran"), (turn.may_have_run, "may have run"), (turn.not_run, "has not run")):
        for call in calls:
            yield f"{call.name}({json.dumps(call.input, ensure_ascii=False)}) {state}"
    for attempt in turn.attempts:
        cost = "" if attempt.cost_usd is None else f", at least ${attempt.cost_usd:.6f}"
        yield f"{attempt.model} failed: {attempt.error}{cost}"
    if turn.awaits_reply:
        yield "it waited for a reply, which may have been billed"
    if turn.cost.replies:
        yield f"it has cost {turn.cost}"


def _load_tool(name: str) -> Any:
    """Return the function that ``MODULE:function`` names. The module may be in the working folder.

    Raises ConfigurationError if it cannot be imported or does not exist.
    """
    module_name, separator, attribute = name.partition(":")
    if not (module_name and separator and attribute):
        raise ConfigurationError(f"--tool {name!r:.80} is not of the form MODULE:function, such as mytools:add")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # the module is the user's own, and may raise anything
        raise ConfigurationError(f"--tool {name}: the import fails with {type(error).__name__}: {error}") from None
    finally:
        # The module may import others of this folder later. They do not hide installed ones, which come first now.
        sys.path.remove(folder)
        sys.path.append(folder)
    found = getattr(module, attribute, None)
    if not isinstance(found, Tool) and not callable(found):
        near = get_close_matches(attribute, [each for each in vars(module) if not each.startswith("_")], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"--tool {name}: the module {module_name} has no such function{hint}")
    return found
