"""Files of a provider with a request in each row: batches, and data for fine-tuning.

A row of a batch has a request, its reply, or both side by side. A row for fine-tuning is one of Chat Completions,
supervised or with a preference. Sources: https://platform.openai.com/docs/guides/batch,
https://platform.openai.com/docs/guides/supervised-fine-tuning, .../direct-preference-optimization, and
https://docs.claude.com/en/docs/build-with-claude/batch-processing.
"""

from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.canonical.message import Message
from dragoman.formats.document import parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.native import read_reply, read_request
from dragoman.formats.reading.blocks import to_text
from dragoman.formats.reading.fields import (
    Fields,
    RowNames,
    drop_tools,
    iter_fields,
    iter_rows,
    list_inside,
    source_losses,
    typed_errors,
)
from dragoman.formats.results import Conversation

FORMAT = "openai-finetuning"
_WIRE = "openai-chat"
OPENAI, ANTHROPIC = "openai-batch", "anthropic-batch"
_BY_URL = {"/v1/chat/completions": "openai-chat", "/v1/responses": "openai"}
_BY_OBJECT = {"chat.completion": "openai-chat", "response": "openai"}


@typed_errors
def from_openai_finetuning(document: Any) -> list[Conversation]:
    """Return one conversation for each row; of a preference, the preferred one. Raises FormatError, with a path."""
    names = RowNames()
    found = []
    for row in iter_rows(document, FORMAT):
        messages: list[Any] = []
        if "input" in row:
            prompt = row.inner("input")
            messages += _messages(prompt, "messages") + _messages(row, "preferred_output")
            _drop_request(prompt)
            reason = "a conversation has one continuation: the one that is not preferred is left out"
            row.drop("non_preferred_output", reason)
        else:
            messages = _messages(row, "messages")
        _drop_request(row)
        for index, message in enumerate(messages):
            if isinstance(message, dict) and message.get("weight") is not None:
                reason = "a message has no weight in a training: left out"
                source_losses().add(f"{row.path}.messages[{index}].weight", reason)
                messages[index] = {name: value for name, value in message.items() if name != "weight"}
        found.append(Conversation(names.next(), read_request(_WIRE, {"messages": messages}, row.path)))
    return found


def _messages(fields: Fields, name: str) -> list[Any]:
    return [item for item, _ in fields.items(name)]


def _drop_request(fields: Fields) -> None:
    drop_tools(fields)
    drop_tools(fields, "functions")
    fields.ignore("parallel_tool_calls")  # how a model may call tools, and no part of what it did


@typed_errors
def from_openai_batch(document: Any) -> list[Conversation]:
    """Return one conversation for each request, with its reply if the document has both, and for each reply.

    A failed request without a reply is a loss. Raises FormatError, with a path.
    """
    names = RowNames()
    found: list[Conversation] = []
    for row in iter_rows(document, OPENAI):
        request, output = (row.object("input"), row.inner("output")) if "output" in row else (None, row)
        messages = _openai_request(request) if request is not None else []
        name = output.look("custom_id")
        messages += _openai_request(output) if "url" in output else _openai_reply(output)
        if messages:
            found.append(Conversation(names.next(name), messages))
    return found


def _openai_request(row: Fields) -> list[Message]:
    row.ignore("custom_id", "method")
    url = row.required_text("url")
    provider = _BY_URL.get(url)
    if provider is None:
        raise FormatError(f"requests to {url[:80]!r} hold no conversation", path=f"{row.path}.url")
    return read_request(provider, row.take("body"), f"{row.path}.body")


def _openai_reply(row: Fields) -> list[Message]:
    row.ignore("id", "custom_id")
    response, error = row.inner("response"), row.take("error")
    status, body = response.take("status_code"), response.take("body")
    response.ignore("request_id")
    if error is not None or status != 200 or not isinstance(body, dict):
        _report_failure(row, error or body or status)
        return []
    provider = _BY_OBJECT.get(to_text(body.get("object")))
    if provider is None:
        raise FormatError("this is not a reply of a language model", path=f"{row.path}.response.body")
    return [read_reply(provider, body, f"{row.path}.response.body")]


@typed_errors
def from_anthropic_batch(document: Any) -> list[Conversation]:
    """Return one conversation for each request or reply of Anthropic: those of a batch, or one as ``request`` next to
    its ``response``. Raises FormatError, with a path.
    """
    data, at = list_inside(parse_json_or_lines(document, format_name=ANTHROPIC), "requests", ANTHROPIC)
    names = RowNames()
    found: list[Conversation] = []
    for row in iter_fields(data, ANTHROPIC, at):
        name = row.text("custom_id")
        messages: list[Message] = []
        for field in ("params", "request"):
            if field in row:
                messages += read_request("anthropic", row.take(field), f"{row.path}.{field}")
        if "response" in row:
            messages.append(read_reply("anthropic", row.take("response"), f"{row.path}.response"))
        result = row.object("result")
        if result is not None:
            if result.text("type") == "succeeded":
                messages.append(read_reply("anthropic", result.take("message"), f"{result.path}.message"))
            else:
                _report_failure(row, result.take("error") or result.look("type"))
        if messages:
            found.append(Conversation(names.next(name), messages))
    return found


def _report_failure(row: Fields, error: Any) -> None:
    reason = f"the request failed and has no reply: {to_text(error)[:200]}"
    source_losses().add(row.path, reason, kind=LossKind.EMPTY_MESSAGE)
