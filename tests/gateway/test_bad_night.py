"""What a client sees when a provider, or the client itself, fails."""

import httpx
import pytest

from dragoman.testing.faults.server import RESET, Pause, json_reply, sse_reply
from tests.gateway.upstream import PATHS, PROVIDERS, gateway_before, question, stream_bytes

CASES = [(client, behind) for client in PATHS for behind in PATHS]


def cut(wire: str, share: float = 0.6) -> bytes:
    """Return the first part of a stream, whole events only."""
    frames = stream_bytes(wire, *(f"word{number} " for number in range(20))).split(b"\n\n")
    return b"\n\n".join(frames[: int(len(frames) * share)]) + b"\n\n"


def ask_to_the_end(url: str, wire: str, body: dict) -> tuple[bytes, bool]:
    """Return the bytes of a stream, and whether it ended in order."""
    received = b""
    try:
        with httpx.stream("POST", url + PATHS[wire], json=body, timeout=30) as reply:
            for chunk in reply.iter_raw():
                received += chunk
    except httpx.RemoteProtocolError:
        return received, False
    return received, True


ERROR_EVENTS = {"messages": b"event: error", "chat": b'data: {"error"', "responses": b"event: response.failed"}
ENDS = {"messages": b"message_stop", "chat": b"[DONE]", "responses": b"response.completed"}


@pytest.mark.parametrize(("client", "behind"), CASES)
@pytest.mark.parametrize("end", [None, RESET])
def test_a_stream_that_breaks_ends_in_the_wire_s_error_and_a_cut_connection(client: str, behind: str, end) -> None:
    steps = (cut(behind), Pause(0.02), *([end] if end else []))
    with gateway_before(sse_reply(*steps), models={"house": f"{PROVIDERS[behind]}:m"}) as (url, _):
        received, in_order = ask_to_the_end(url, client, question(client, "house", stream=True))
    assert not in_order
    assert b"word3" in received
    assert received.count(ERROR_EVENTS[client]) == 1
    assert ENDS[client] not in received


@pytest.mark.parametrize(("client", "behind"), CASES)
def test_a_provider_s_refusal_keeps_its_meaning(client: str, behind: str) -> None:
    error = {"error": {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "slow down"}}
    refusal = json_reply({"type": "error", **error}, 429, retry_after="7")
    with gateway_before(refusal, models={"house": f"{PROVIDERS[behind]}:m"}) as (url, _):
        replies = [
            httpx.post(url + PATHS[client], json=question(client, "house", stream=stream)) for stream in (False, True)
        ]
    for reply in replies:
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "7")
        assert reply.json()["error"]["message"] == "slow down"
        assert reply.headers["content-type"] == "application/json"
