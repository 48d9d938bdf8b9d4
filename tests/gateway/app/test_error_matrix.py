"""Each way to fail, before the first event and behind content, on each client's own wire and on another one: what the
official client raises, and how often the provider was asked. The gateway has its default settings of retries."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import anthropic
import ollama
import openai
import pytest
import tenacity
from google import genai
from google.genai import errors, types

from dragoman.testing.faults.server import HANG_UP, HttpReply, ReceivedRequest, ReplyStep, json_reply
from dragoman.transport import RetryPolicy
from tests.gateway.app.test_late_errors import BODIES, MODELS, OTHER, PATHS, STREAMS
from tests.gateway.app.test_unread import read_until_cut
from tests.gateway.upstream import KEY, gateway_before

WAYS = [(wire, behind) for wire in PATHS for behind in (wire, OTHER[wire])]
ENDS = (b"message_stop", b"response.completed", b"[DONE]", b'"done":true', b'"finishReason"')
"""What only a whole stream has."""
WORDS = "no, says http://10.1.2.3:8080/internal"
STATUSES = {
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    529: ("overloaded_error", "UNAVAILABLE"),
}
"""The type of each refusal by Anthropic's and OpenAI's words, and by Google's."""
SEEN = {400: {400}, 401: {502}, 429: {429}, 529: {529, 503}}
"""The statuses of which the client may get one."""
BROKEN = {500, 502, 503}


@dataclass(frozen=True)
class Fault:
    """``status`` is that of a refusal; None for a stream that ends too early."""

    name: str
    status: int | None = None
    wait: str | None = None


FAULTS = [
    Fault("400", 400),
    Fault("401", 401),
    *(Fault(f"429 after {wait} s", 429, wait) for wait in ("1", "3", "40")),
    Fault("529", 529),
    Fault("cut"),
    Fault("clean end"),
]


@dataclass
class Seen:
    """What a client raised, and with which status and headers of a reply."""

    error: Exception
    text: str
    kind: str | None = None
    status: int | None = None
    headers: Mapping[str, str] | None = None


class Provider:
    """Fails as a test says, and counts."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.fault = FAULTS[0]
        self.late = False
        self.asked = 0

    def __call__(self, _: ReceivedRequest) -> HttpReply:
        self.asked += 1
        if self.fault.status is not None and not self.late:
            headers = {} if self.fault.wait is None else {"retry_after": self.fault.wait}
            return json_reply(self._refusal(self.fault.status), self.fault.status, **headers)
        kind = "application/x-ndjson" if self.behind == "ollama" else "text/event-stream"
        return HttpReply(headers={"content-type": kind}, steps=tuple(self._steps()))

    def _steps(self) -> Iterator[ReplyStep]:
        if self.late:
            whole = list(STREAMS[self.behind](list("abcdefgh")))
            yield b"".join(whole[: len(whole) // 2])
        if self.fault.status is not None:
            yield self._event(self._refusal(self.fault.status))
        elif self.fault.name == "cut":
            yield HANG_UP

    def _refusal(self, status: int) -> dict[str, Any]:
        kind, word = STATUSES[status]
        if self.behind == "ollama":
            return {"error": WORDS}
        if self.behind == "google":
            return {"error": {"code": status, "message": WORDS, "status": word}}
        error = {"message": WORDS, "type": kind, "code": kind, "param": None}
        return {"type": "error", "error": error} if self.behind == "anthropic" else {"error": error}

    def _event(self, refusal: dict[str, Any]) -> bytes:
        data = json.dumps(refusal).encode()
        if self.behind == "ollama":
            return data + b"\n"
        if self.behind == "openai":
            data = b'{"type": "error", "sequence_number": 9, ' + data[1:]
        return (b"event: error\n" if self.behind in ("anthropic", "openai") else b"") + b"data: " + data + b"\n\n"


class Asker:
    """Asks with the official client of a wire."""

    def __init__(self, wire: str, url: str, opened: ExitStack, retries: int = 0) -> None:
        self.wire = wire
        self._fields: dict[str, Any] = BODIES[wire]
        if wire == "anthropic":
            self._client: Any = opened.enter_context(
                anthropic.Anthropic(base_url=url, api_key="none", max_retries=retries)
            )
        elif wire in ("openai", "openai-chat"):
            self._client = opened.enter_context(
                openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=retries)
            )
        elif wire == "google":
            options = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions(attempts=retries + 1))
            self._client = opened.enter_context(genai.Client(api_key="none", http_options=options))
        else:
            self._client = opened.enter_context(ollama.Client(host=url))

    def ask(self) -> None:
        """Read a whole stream."""
        for _ in self._stream():
            pass

    def _stream(self) -> Any:
        match self.wire:
            case "anthropic":
                return self._client.messages.create(**self._fields)
            case "openai":
                return self._client.responses.create(**self._fields)
            case "openai-chat":
                return self._client.chat.completions.create(**self._fields)
            case "google":
                return self._client.models.generate_content_stream(model="house", contents="Hi")
            case _:
                return self._client.chat(**{**self._fields, "stream": True})

    def fail(self) -> Seen:
        """Ask, and return what the client raises: an error of its own that has the provider's words, never one of the
        connection or of a parser."""
        with pytest.raises(Exception) as caught:  # noqa: PT011  # the classes are below
            self.ask()
        error: Any = caught.value
        match error:
            case anthropic.APIStatusError():
                kind = error.body["error"]["type"]
                return Seen(error, str(error), kind, error.response.status_code, error.response.headers)
            case openai.APIStatusError():
                return Seen(error, str(error), error.type, error.response.status_code, error.response.headers)
            case openai.APIError():
                return Seen(error, error.message, error.code or error.type)
            case errors.APIError():
                headers = getattr(error.response, "headers", None)
                return Seen(error, json.dumps(error.details), error.status, error.code, headers)
            case ollama.ResponseError():
                return Seen(error, error.error, None, error.status_code)
        raise AssertionError(f"the client got no error that was said: {error!r}") from error


@dataclass(frozen=True)
class Before:
    """A client, a gateway and a provider that fails."""

    wire: str
    behind: str
    url: str
    provider: Provider
    asker: Asker

    def fail(self, fault: Fault, *, late: bool) -> Seen:
        self.provider.fault, self.provider.late, self.provider.asked = fault, late, 0
        return self.asker.fail()


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def before(request: pytest.FixtureRequest) -> Iterator[Before]:
    wire, behind = request.param
    provider = Provider(behind)
    settings = {"retry": RetryPolicy()}  # the default
    with (
        ExitStack() as opened,
        gateway_before(provider, models={"house": MODELS[behind]}, provider=settings) as (url, _),
    ):
        yield Before(wire, behind, url, provider, Asker(wire, url, opened))


CLASSES: dict[str, Callable[[int], tuple[type[Exception], ...]]] = {
    "anthropic": lambda status: (
        {400: anthropic.BadRequestError, 429: anthropic.RateLimitError}.get(status, anthropic.InternalServerError),
        anthropic.APIStatusError,
    ),
    "openai": lambda status: (
        {400: openai.BadRequestError, 429: openai.RateLimitError}.get(status, openai.InternalServerError),
    ),
    "google": lambda status: (errors.ClientError if status < 500 else errors.ServerError,),
    "ollama": lambda status: (ollama.ResponseError,),
}
CLASSES["openai-chat"] = CLASSES["openai"]
KINDS = {
    "anthropic": {400: "invalid_request_error", 401: "api_error", 429: "rate_limit_error", 529: "overloaded_error"},
    "google": {400: "INVALID_ARGUMENT", 401: "INTERNAL", 429: "RESOURCE_EXHAUSTED", 529: "UNAVAILABLE"},
}
"""The type or status that a client reads in an error of the stream, on wires with words for them."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_failure_before_the_first_event_is_a_status(before: Before, fault: Fault) -> None:
    """The provider's own, except for its refusal of the gateway's key; the wait is the client's, in a header."""
    seen = before.fail(fault, late=False)
    assert before.provider.asked == 1
    assert seen.status in (BROKEN if fault.status is None else SEEN[fault.status])
    assert isinstance(seen.error, CLASSES[before.wire](seen.status or 0)[0])
    assert not [leak for leak in (KEY, "127.0.0.1") if leak in seen.text]
    if seen.headers is not None:
        assert seen.headers.get("retry-after") == fault.wait
    if fault.status == 401:
        assert f"the provider {before.behind} refused the key of this gateway" in seen.text
        assert "10.1.2.3" not in seen.text
        assert seen.headers is None or seen.headers["x-should-retry"] == "false"


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_failure_behind_content_is_an_event(before: Before, fault: Fault) -> None:
    """Said once, in the words of the client's wire, and nothing that only a whole stream has."""
    seen = before.fail(fault, late=True)
    assert before.provider.asked == 1
    assert not [leak for leak in (KEY, "127.0.0.1") if leak in seen.text]
    if fault.status is None:
        assert re.search("broke|ended|cut|truncated", seen.text)
    elif fault.status == 401 and before.behind != "ollama":  # its stream has a text and no kind
        assert f"the provider {before.behind} refused the key of this gateway" in seen.text
        assert "10.1.2.3" not in seen.text
    else:
        assert WORDS in seen.text
    if fault.status is not None and before.behind != "ollama" and (kinds := KINDS.get(before.wire)):
        assert seen.kind == kinds[fault.status]
    received = read_until_cut(before.url + PATHS[before.wire], BODIES[before.wire])
    assert not [end for end in ENDS if end in received]
    assert before.provider.asked == 2


RETRIED = {"400": 1, "401": 1, "429 after 1 s": 3, "429 after 3 s": 3, "429 after 40 s": 3, "529": 3, "cut": 3}
"""How often a client asks that has two retries."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.name in RETRIED], ids=lambda fault: fault.name)
def test_retries_are_those_of_the_client(before: Before, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is asked as often as the client asks, with the waits that the provider says."""
    slept: list[float] = []
    for module in (anthropic._base_client, openai._base_client, tenacity.nap):
        monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), "sleep": slept.append}))
    before.provider.fault, before.provider.late, before.provider.asked = fault, False, 0
    with ExitStack() as opened:
        Asker(before.wire, before.url, opened, retries=2).fail()
    if before.wire == "google":  # its client knows 502 as one to retry, and does not know 529
        assert before.provider.asked <= 3
    else:
        assert before.provider.asked == (1 if before.wire == "ollama" else RETRIED[fault.name])
    if fault.wait is not None and fault.wait != "40" and before.wire in ("anthropic", "openai", "openai-chat"):
        assert [round(pause) for pause in slept] == [int(fault.wait)] * 2
