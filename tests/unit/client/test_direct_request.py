"""Requests without a session: retries, errors, losses and usage are as in a session."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from dragoman import AdapterOptions, AsyncClient, Budget, Message, RequestContext, WireRequest, get_adapter
from dragoman.answers import DirectRequest
from dragoman.errors import ConfigurationError, DragomanError, InvalidRequestError, MalformedReplyError
from dragoman.testing.faults.server import FaultyServer, ServerAnswer, ServerScript, json_reply
from tests.unit.client.test_pass_through import WHOLE, Ticket, client_before

ADAPTER = get_adapter("openai-chat:gpt-5.2")
HISTORY = [Message.user("Where is Bern?")]


def encode(context: RequestContext) -> WireRequest:
    return ADAPTER.to_wire(HISTORY, [], AdapterOptions(top_k=3, context=context))


def ask(script: ServerScript | ServerAnswer, **more: Any) -> tuple[Any, DirectRequest, int]:
    """Return the message or the error, the request, and how often it was sent."""

    async def run() -> Any:
        async with client_before(server) as client:
            made.append(DirectRequest(client.config, ADAPTER, more.get("encode", encode), **admission))
            try:
                return await made[0].send()
            except DragomanError as error:
                return error

    admission = {name: value for name, value in more.items() if name != "encode"}
    made: list[DirectRequest] = []
    with FaultyServer(script) as server:
        result = asyncio.run(run())
        return result, made[0], len(server.requests)


def test_a_reply_is_read_and_counted() -> None:
    message, request, sent = ask(json_reply(WHOLE, x_request_id="r1"), session_id="sess_1")
    assert (message.text, message.session_id, sent) == ("In Switzerland.", "sess_1", 1)
    assert request.headers["x-request-id"] == "r1"
    assert request.usages == [message.usage]
    assert message.usage is not None
    assert message.usage.cost_usd is not None
    assert message.usage.latency_ms is not None


def test_a_failure_is_retried_and_each_loss_is_named_once() -> None:
    message, request, sent = ask([json_reply({}, status=503), json_reply(WHOLE)])
    assert (message.text, sent) == ("In Switzerland.", 2)
    (loss,) = request.losses
    assert loss.reason.startswith("top_k")


def test_a_broken_reply_is_an_error() -> None:
    error, request, sent = ask(json_reply({"choices": []}))
    assert isinstance(error, MalformedReplyError)
    assert (sent, request.usages) == (1, [])


def test_each_attempt_is_admitted_and_settled() -> None:
    ends: list[Any] = []

    async def admit() -> Ticket:
        return Ticket(ends)

    def refuse(context: RequestContext) -> WireRequest:
        raise InvalidRequestError("no")

    ask([json_reply({}, status=503), json_reply(WHOLE)], admit=admit)
    ask(json_reply({"choices": []}), admit=admit)
    _, _, sent = ask(json_reply(WHOLE), admit=admit, encode=refuse)
    assert sent == 0
    assert ends == [("failed", False, True), ("whole", True), ("failed", False, False), ("failed", False, True)]


def test_a_cancelled_request_is_settled() -> None:
    ends: list[Any] = []

    async def admit() -> Ticket:
        return Ticket(ends)

    def cancel(context: RequestContext) -> WireRequest:
        raise asyncio.CancelledError

    with suppress(asyncio.CancelledError):
        ask(json_reply(WHOLE), admit=admit, encode=cancel)
    assert ends == [("failed", False, True)]


def test_settings_that_read_conversations_need_a_session() -> None:
    with pytest.raises(ConfigurationError, match="session"):
        DirectRequest(AsyncClient(budgets=[Budget(tokens=1)]).config, ADAPTER, encode)
