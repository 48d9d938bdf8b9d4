"""A conversation as one page of HTML that needs nothing else: no network, and no script but its own."""

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import MissingExtraError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.session.spending import total_cost, total_usage
from dragoman.view import chart as charts
from dragoman.view import figures
from dragoman.view.swaps import Projections, swap
from dragoman.view.turns import hues_of, is_reply, places, replies, turns

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = "pages"
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}


def page(
    messages: Sequence[Message],
    *,
    title: str = "Conversation",
    attempts: Sequence[Message] = (),
    tool_ids: ToolIdMap | None = None,
    tools: Sequence[ToolDefinition] = (),
    next_model: str | None = None,
    raw: bool = True,
) -> str:
    """The page. Whatever a message holds stays text in it, and no media but the messages' own bytes are shown.

    ``attempts`` are replies that broke and were billed. ``tool_ids`` is the session's map, which is not changed;
    without it requests have ids of their own. ``next_model`` is the one that the session is set to. ``raw`` adds
    what went over the wire: each request as it would be made of the history now, with ``tools`` and no options, and
    what the adapter kept of the reply.

    Raises MissingExtraError without the `cli` extra.
    """
    environment = _environment()
    projections = Projections(ToolIdMap.load(tool_ids.dump()) if tool_ids is not None else ToolIdMap(), tools)
    told = list(turns(messages, projections, raw=raw))
    style, script = _text("page.css"), _text("page.js")
    return environment.get_template("page.html.jinja").render(
        title=title,
        turns=told,
        next_swap=_next_swap(messages, projections, next_model),
        chart=charts.chart(replies(messages)),
        replies=replies(messages),
        totals=_totals(messages, attempts),
        models=_models(messages),
        when=_when(messages),
        numbers=places(messages),
        style=style,
        script=script,
        policy=_policy(style, script),
        charts=charts,
    )


def _next_swap(messages: Sequence[Message], projections: Projections, model: str | None) -> Any:
    """What the model that the session is set to would lose, where another one spoke last."""
    spoken = [message.metadata.model for message in messages if message.metadata.model and is_reply(message)]
    if model is None or not spoken or spoken[-1] is None or spoken[-1] == model:
        return None
    following = [*messages, Message.user("…")]
    return swap(projections.request(following, model), spoken[-1], model, behind=True)


def _totals(messages: Sequence[Message], attempts: Sequence[Message]) -> list[tuple[str, str, str]]:
    """What is told at the top: a name, a figure, and a note on it."""
    billed = [*messages, *attempts]
    usage, cost = total_usage(billed), total_cost(billed)
    calls = sum(len(message.tool_uses) for message in messages)
    answered = [message for message in messages if is_reply(message)]
    broken = figures.plural(len(attempts), "broken attempt") if attempts else ""
    found = [("replies", f"{len(answered):,}", broken or f"of {figures.plural(len(messages), 'message')}")]
    if calls:
        failed = sum(result.is_error for message in messages for result in message.tool_results)
        found.append(("tool calls", f"{calls:,}", f"{failed:,} failed" if failed else ""))
    cached = f"{usage.cached_input_tokens:,} cached" if usage.cached_input_tokens else ""
    if usage.total_tokens:
        found.append(("tokens in", f"{usage.prompt_tokens:,}", cached))
        thought = f"{usage.reasoning_tokens:,} reasoning" if usage.reasoning_tokens else ""
        found.append(("tokens out", f"{usage.output_tokens:,}", thought))
    if cost.usd is not None:
        note = {"partial": "at least", "free": "free"}.get(str(cost.status), "")
        found.append(("cost", figures.money(cost.usd), note))
    elif cost.replies:
        found.append(("cost", "unknown", "no price is known"))
    return found


def _models(messages: Sequence[Message]) -> list[tuple[str, int, str, str]]:
    """Each model with its hue, replies and cost."""
    hues, spent = hues_of(messages), total_cost(messages).by_model
    found = []
    for model, hue in hues.items():
        count = sum(is_reply(message) and message.metadata.model == model for message in messages)
        amount = spent.get(model)
        told = "" if amount is None else figures.money(amount)
        found.append((model, hue, figures.plural(count, "reply", "replies"), told))
    return found


def _when(messages: Sequence[Message]) -> str:
    return f"{messages[0].created_at.astimezone(UTC):%d %B %Y, %H:%M} UTC".lstrip("0") if messages else ""


def _policy(style: str, script: str) -> str:
    """The page's Content-Security-Policy: its own style and script, media inside it, and nothing else at all."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
    )


def _visible(value: Any) -> Any:
    """Control characters as their pictures: no document may hold them, and nobody would see them."""
    return value.translate(_PICTURES) if type(value) is str else value


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _text(name: str) -> str:
    return files("dragoman.view").joinpath(_FOLDER, name).read_text(encoding="utf-8")


@cache
def _environment() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise MissingExtraError("a page needs Jinja: pip install 'dragoman[cli]'") from None
    made = Environment(
        loader=PackageLoader("dragoman.view", _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["cost"] = figures.cost
    made.filters["plural"] = figures.plural
    made.filters["number_in"] = lambda message_id, numbers: numbers.get(message_id)
    return made
