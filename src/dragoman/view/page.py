"""A conversation as one self-contained HTML page: no network, and no script but its own.

`fragment` is registered as ``html`` under the entry-point group ``dragoman.renderers``.
"""

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
from dragoman.session.cost import total_cost, total_usage
from dragoman.view import figures
from dragoman.view.pieces import show_control_characters
from dragoman.view.turns import Projections, build_turns, describe_swap, is_reply, message_numbers, model_hues, replies

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = "pages"


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
    """Return the page. Answers are Markdown, in which HTML stays text; everything else in a message is shown as text.
    Only media with their own bytes are shown.

    ``attempts`` are replies that broke and were billed. ``tool_ids`` is the session's map, which is not changed;
    without it requests have ids of their own. ``next_model`` is the session's current model. ``raw`` adds the raw data:
    each request as it would be built from the history now, with ``tools`` and no options, and what the adapter kept of
    the reply.

    Raises MissingExtraError without the `cli` extra.
    """
    templates = environment()
    projections = Projections(ToolIdMap.load(tool_ids.dump()) if tool_ids is not None else ToolIdMap(), tools)
    page_turns = list(build_turns(messages, projections, raw=raw))
    style, script = read_asset("page.css"), read_asset("page.js")
    return templates.get_template("page.html.jinja").render(
        title=title,
        turns=page_turns,
        next_swap=_next_swap(messages, projections, next_model),
        chart=figures.chart(replies(messages)),
        replies=replies(messages),
        totals=_totals(messages, attempts),
        models=_models(messages),
        when=f"{messages[0].created_at.astimezone(UTC):%d %B %Y, %H:%M} UTC".lstrip("0") if messages else "",
        numbers=message_numbers(messages),
        style=style,
        script=script,
        # Its own style and script, media inside it, and nothing else.
        policy=f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; media-src data:; base-uri 'none'; form-action 'none'",
        charts=figures,
    )


def fragment(messages: Sequence[Message]) -> str | None:
    """Return messages as an HTML fragment for notebooks, without styles or scripts of its own. None without the `cli`
    extra."""
    try:
        turns = list(build_turns(messages, Projections(ToolIdMap(), ()), raw=False))
        return environment().get_template("notebook.html.jinja").render(turns=turns)
    except MissingExtraError:
        return None


def read_asset(name: str) -> str:
    return files("dragoman.view").joinpath(_FOLDER, name).read_text(encoding="utf-8")


@cache
def environment() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise MissingExtraError("a page needs Jinja: pip install 'dragoman[cli]'") from None
    templates = Environment(
        loader=PackageLoader("dragoman.view", _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=show_control_characters,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["cost"] = figures.cost
    templates.filters["plural"] = figures.plural
    templates.filters["number_in"] = lambda message_id, numbers: numbers.get(message_id)
    return templates


def _next_swap(messages: Sequence[Message], projections: Projections, model: str | None) -> Any:
    """Return the losses of the session's current model, if another model answered last."""
    reply_models = [message.metadata.model for message in messages if message.metadata.model and is_reply(message)]
    if model is None or not reply_models or reply_models[-1] is None or reply_models[-1] == model:
        return None
    next_history = [*messages, Message.user("…")]
    return describe_swap(projections.request(next_history, model), reply_models[-1], model, is_upcoming=True)


def _totals(messages: Sequence[Message], attempts: Sequence[Message]) -> list[tuple[str, str, str]]:
    """Return the summary at the top: a name, a figure, and a note on each."""
    billed = [*messages, *attempts]
    usage, cost = total_usage(billed), total_cost(billed)
    calls = sum(len(message.tool_uses) for message in messages)
    answered = [message for message in messages if is_reply(message)]
    broken = figures.plural(len(attempts), "broken attempt") if attempts else ""
    totals = [("replies", f"{len(answered):,}", broken or f"of {figures.plural(len(messages), 'message')}")]
    if calls:
        failed = sum(result.is_error for message in messages for result in message.tool_results)
        totals.append(("tool calls", f"{calls:,}", f"{failed:,} failed" if failed else ""))
    cached = f"{usage.cached_input_tokens:,} cached" if usage.cached_input_tokens else ""
    if usage.uncounted_replies:
        unreported = f"none reported of {figures.plural(usage.uncounted_replies, 'reply', 'replies')}"
        totals.append(("tokens", "at least" if usage.total_tokens else "unknown", unreported))
    if usage.total_tokens:
        totals.append(("tokens in", f"{usage.prompt_tokens:,}", cached))
        reasoning = f"{usage.reasoning_tokens:,} reasoning" if usage.reasoning_tokens else ""
        totals.append(("tokens out", f"{usage.output_tokens:,}", reasoning))
    if cost.usd is not None:
        note = {"partial": "at least", "free": "free"}.get(str(cost.status), "")
        totals.append(("cost", figures.money(cost.usd), note))
    elif cost.replies:
        is_uncounted = cost.uncounted == cost.replies
        totals.append(("cost", "unknown", "no tokens reported" if is_uncounted else "no price is known"))
    return totals


def _models(messages: Sequence[Message]) -> list[tuple[str, int, str, str]]:
    """Each model with its hue, replies and cost."""
    hues, spent = model_hues(messages), total_cost(messages).by_model
    rows = []
    for model, hue in hues.items():
        count = sum(is_reply(message) and message.metadata.model == model for message in messages)
        amount = spent.get(model)
        cost = "" if amount is None else figures.money(amount)
        rows.append((model, hue, figures.plural(count, "reply", "replies"), cost))
    return rows


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
