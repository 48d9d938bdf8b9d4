"""The body of a stream beside its signs of life, which a timer sends."""

import asyncio
import time

import pytest
from starlette.types import Message

from dragoman_gateway import GatewaySettings
from dragoman_gateway.turn.replies import StreamBody
from dragoman_gateway.wires import MESSAGES as WIRE

DUE = 0.001


@pytest.mark.parametrize("stops", [False, True])
def test_a_stream_that_was_stopped_does_not_begin_with_a_sign_of_life_that_was_due(stops: bool) -> None:
    assert asyncio.run(_begins(stops=stops)) is not stops


def test_signs_of_life_come_as_often_as_the_settings_say() -> None:
    async def count() -> int:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        body = StreamBody(send, list, WIRE, GatewaySettings(first_event_seconds=DUE, ping_seconds=DUE))
        for _ in range(3):
            time.sleep(DUE * 2)
            for _ in range(5):
                await asyncio.sleep(0)
        body.stop()
        return sum(message["type"] == "http.response.body" for message in sent)

    assert asyncio.run(count()) >= 3


async def _begins(*, stops: bool) -> bool:
    """Return whether anything is sent if the body is stopped in the same round of the loop as its timer runs."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    body = StreamBody(send, list, WIRE, GatewaySettings(first_event_seconds=DUE))
    if stops:
        asyncio.get_running_loop().call_later(DUE, body.stop)
    time.sleep(DUE * 2)  # both timers are due before the loop runs again
    for _ in range(5):
        await asyncio.sleep(0)
    body.stop()
    return bool(sent)
