"""Whether anything was sent is a fact on each error: what was not sent costs nothing."""

import pickle
import socket

import pytest

from dragoman.errors import (
    BudgetExceededError,
    MissingKeyError,
    NetworkError,
    PolicyDeniedError,
    ProviderError,
    RateLimitError,
    RequestError,
)
from dragoman.testing.faults.server import RESET, STALL, FaultyServer, HttpReply, sse_reply
from dragoman.transport import RetryPolicy
from tests.unit.transport.drivers import ENGINES, PLAIN_REQUEST, STREAM_REQUEST, Driver

NO_RETRY = RetryPolicy(max_retries=0)
OVER_HTTP = pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)


def error_of(driver: Driver, reply: HttpReply, *, stream: bool = False, timeout: float | None = None) -> Exception:
    with FaultyServer(reply) as server:
        request = STREAM_REQUEST if stream else PLAIN_REQUEST
        error = driver.call(request, base_url=server.url, retry=NO_RETRY, timeout=timeout).error
    assert isinstance(error, ProviderError)
    return error


@OVER_HTTP
def test_a_refused_connection_sent_nothing(driver: Driver) -> None:
    """Nothing listens at the port, so no byte of the request left."""
    with socket.socket() as silent:  # bound, so that no other program listens there meanwhile
        silent.bind(("127.0.0.1", 0))
        error = driver.call(base_url=f"http://127.0.0.1:{silent.getsockname()[1]}", retry=NO_RETRY).error
    assert isinstance(error, NetworkError)
    assert error.sent is False
    assert pickle.loads(pickle.dumps(error)).sent is False


@OVER_HTTP
def test_a_name_without_an_address_sent_nothing(driver: Driver) -> None:
    """The name is reserved: no resolver knows it (RFC 6761)."""
    error = driver.call(base_url="http://nobody.invalid", retry=NO_RETRY).error
    assert isinstance(error, NetworkError)
    assert error.sent is False


@OVER_HTTP
@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_a_refusal_of_the_provider_was_sent(driver: Driver, status: int) -> None:
    """The provider answered: what it bills is what it reports."""
    assert error_of(driver, HttpReply(status=status, body=b"{}")).sent is True


@OVER_HTTP
@pytest.mark.parametrize("reply", [HttpReply(before=RESET), HttpReply(before=STALL)], ids=["cut", "silent"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_connection_that_broke_before_the_head_is_unknown(driver: Driver, reply: HttpReply, stream: bool) -> None:
    """The provider may have answered a request whose connection broke: it may have been billed."""
    assert error_of(driver, reply, stream=stream, timeout=0.2).sent is None


@OVER_HTTP
def test_a_stream_that_broke_behind_its_head_was_sent(driver: Driver) -> None:
    """The head of the reply shows that the provider has the request."""
    assert error_of(driver, sse_reply(b"data: 1\n\n", RESET), stream=True).sent is True


def test_what_is_refused_here_was_never_sent() -> None:
    """Errors of the program, of its budgets and of its policy come before anything is sent."""
    refused = [
        MissingKeyError("no key"),
        RequestError("not a request"),
        BudgetExceededError("turn", "tokens", 1, 0, 2),
        PolicyDeniedError("cmf.llm_input", "plugin", "code", "reason"),
    ]
    assert [error.sent for error in refused] == [False] * 4
    assert PolicyDeniedError("cmf.llm_output", "plugin", "code", "reason").sent is True
    assert RateLimitError("slow down").sent is None
    assert RateLimitError("slow down", status=429).sent is True
