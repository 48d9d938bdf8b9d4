"""The fault kit: plans do what they say, to any recorded reply, and below any HTTP client."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import ConfigurationError, NetworkError, RequestTimeoutError, StreamTruncatedError
from dragoman.adapter.replies.aws_event_stream import AwsEventStreamDecoder
from dragoman.testing import AsyncCassetteTransport, Cassette, CassetteTransport, faults
from dragoman.testing.cassettes.file import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.event_bytes import event_payload, replace_payload
from dragoman.testing.faults import Framing
from dragoman.testing.sample_reply import SHORT
from dragoman.transport import HttpTransport
from tests.laws.wires.handwritten_bedrock import handwritten_stream
from tests.unit.adapter.toy_adapter import ToyAdapter, lines
from tests.unit.transport.drivers import ADAPTER, PLAIN_REQUEST, STREAM_REQUEST, VirtualClock

FIRST, SECOND = b'event: a\ndata: {"n": 0}\n\n', b": a comment\n\n"
THIRD, LAST = b'data: {"n": 1}\n\n', b"data: [DONE]\n\n"
SSE = FIRST + SECOND + THIRD + LAST
LINES = b'{"n": 0}\n{"n": 1}\n{"n": 2}'
AWS = handwritten_stream(SHORT)


def apply_plan(plan: faults.Plan, body: bytes) -> bytes:
    return b"".join(plan.apply(body))


@pytest.mark.parametrize(
    ("body", "framing", "number"), [(SSE, Framing.SSE, 4), (LINES, Framing.LINES, 3), (AWS, Framing.AWS, 16)]
)
def test_a_body_is_cut_into_its_events(body: bytes, framing: Framing, number: int) -> None:
    """Joined, they are the body; a binary message ends after its stated length."""
    assert faults.detect_framing(body) is framing
    events = faults.split_events(body)
    assert len(events) == number
    assert b"".join(events) == body


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=repr)
@pytest.mark.parametrize("body", [SSE, LINES], ids=["sse", "lines"])
def test_line_ends_do_not_matter_for_events(body: bytes, end: bytes) -> None:
    assert faults.split_events(body.replace(b"\n", end)) == [
        event.replace(b"\n", end) for event in faults.split_events(body)
    ]


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"data: x", b"{", b"\0", b":"]), max_size=20).map(b"".join))
def test_any_bytes_are_the_join_of_their_events(body: bytes) -> None:
    """Any bytes are the join of their events, also those that are not a stream."""
    assert b"".join(faults.split_events(body)) == body


def test_a_payload_is_replaced_and_the_message_stays_whole() -> None:
    """Length and checksum of a binary message fit its new payload; a text event keeps its other lines."""
    event = replace_payload(faults.split_events(AWS)[0], b'{"role": "assistant, at length"}')
    (frame,) = AwsEventStreamDecoder().feed(event)
    assert frame.event == "messageStart"
    assert frame.data == event_payload(event) == b'{"role": "assistant, at length"}'
    assert replace_payload(faults.split_events(SSE)[0], b"{}") == b"event: a\ndata: {}\n\n"
    assert replace_payload(faults.split_events(LINES)[0], b"{}") == b"{}\n"
    assert event_payload(b": a comment\n\n") == b""


@pytest.mark.parametrize(
    ("plan", "result"),
    [
        (faults.Cut(3), b"eve"),
        (faults.Rechunk((5,)), SSE),
        (faults.Rechunk(seed=7), SSE),
        (faults.DropEvent(0), SECOND + THIRD + LAST),
        (faults.DropEvent(3), FIRST + SECOND + THIRD),
        (faults.DuplicateEvent(3), SSE + LAST),
        (faults.SwapEvents(0), SECOND + FIRST + THIRD + LAST),
        (faults.InjectEvent(0, b"x"), b"x" + SSE),
        (faults.InjectEvent(4, b"x"), SSE + b"x"),
        (faults.LineEnds("\r"), SSE.replace(b"\n", b"\r")),
        (faults.LineEnds("\r\n"), SSE.replace(b"\n", b"\r\n")),
        (faults.Bom(), b"\xef\xbb\xbf" + SSE),
        (faults.Chain((faults.DropEvent(0), faults.DropEvent(0), faults.Bom())), b"\xef\xbb\xbf" + THIRD + LAST),
        (faults.Chain(()), SSE),
    ],
    ids=str,
)
def test_a_plan_adds_exactly_its_fault(plan: faults.Plan, result: bytes) -> None:
    """The joined chunks are the stream with that fault only."""
    assert apply_plan(plan, SSE) == result


def test_chunks_have_the_requested_sizes() -> None:
    """Chunks have the requested sizes in rotation; the same for the same seed."""
    assert [len(chunk) for chunk in faults.Rechunk((1, 40)).apply(SSE)] == [1, 40, 1, len(SSE) - 42]
    first, second = (list(faults.Rechunk(seed=3).apply(SSE)) for _ in range(2))
    assert first == second


def test_a_break_is_reported_after_its_chunks() -> None:
    """A reset and a stall raise, a clean cut does not."""
    for plan, kind in ((faults.Cut(9, reset=True), ConnectionResetError), (faults.Stall(9), TimeoutError)):
        chunks = plan.apply(SSE)
        assert next(chunks) == SSE[:9]
        with pytest.raises(kind, match="as planned"):
            next(chunks)
    assert list(faults.Cut(0).apply(SSE)) == []


def test_corrupting_changes_one_byte() -> None:
    for seed in range(50):
        changed = apply_plan(faults.Corrupt(5, seed), SSE)
        assert [at for at, pair in enumerate(zip(changed, SSE, strict=True)) if pair[0] != pair[1]] == [5]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: apply_plan(faults.DropEvent(4), SSE),
        lambda: apply_plan(faults.SwapEvents(3), SSE),
        lambda: apply_plan(faults.DuplicateEvent(-1), SSE),
        lambda: apply_plan(faults.InjectEvent(9, b""), SSE),
        lambda: apply_plan(faults.Corrupt(len(SSE)), SSE),
        lambda: apply_plan(faults.LineEnds("\r"), AWS),
        lambda: apply_plan(faults.Bom(), AWS),
        lambda: apply_plan(faults.Comments(), AWS),
        lambda: faults.Rechunk(),
        lambda: faults.Rechunk((1,), seed=1),
        lambda: faults.Rechunk((0,)),
        lambda: faults.status_then_success(200),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(wrong: Callable[[], Any]) -> None:
    """The caller's mistake has a message of its own."""
    with pytest.raises(ConfigurationError):
        wrong()


@pytest.mark.parametrize("body", [SSE, LINES, AWS], ids=["sse", "lines", "aws"])
def test_all_plans_fit_the_body_that_they_are_made_for(body: bytes) -> None:
    """The same ones for the same seed; harmless ones change only line ends and comments."""
    plans = list(faults.plans(body, seed=5))
    assert plans == list(faults.plans(body, seed=5)) != list(faults.plans(body, seed=6))
    assert len(plans) > 40
    for plan in plans:
        try:
            result = apply_plan(plan, body)
        except (ConnectionResetError, TimeoutError):
            assert not plan.harmless
            continue
        if isinstance(plan, faults.Rechunk):
            assert result == body
    assert {plan.harmless for plan in plans} == {True, False}


def test_every_cut_and_every_split() -> None:
    """One for each byte; the whole reply is not among the cuts."""
    assert [len(apply_plan(plan, LINES)) for plan in faults.every_cut(LINES)] == list(range(len(LINES)))
    assert all(plan.reset for plan in faults.every_cut(LINES, reset=True))
    splits = [list(plan.apply(LINES)) for plan in faults.every_split(LINES)]
    assert len(splits) == len(LINES) - 1
    assert all(len(chunks) == 2 and b"".join(chunks) == LINES for chunks in splits)


def test_comments_carry_nothing_in_either_framing() -> None:
    """Comment lines in server-sent events, blank lines between JSON values."""
    assert apply_plan(faults.Comments(), SSE).replace(b":\n", b"") == SSE
    assert apply_plan(faults.Comments(), LINES).split() == LINES.split()


@given(st.integers(0, 2**48))
def test_mutations_are_the_same_for_the_same_seed(seed: int) -> None:
    """They leave bytes that are nearly a stream."""
    for body in (SSE, LINES, AWS, b""):
        assert apply_plan(faults.Mutate(seed), body) == apply_plan(faults.Mutate(seed), body)


def test_most_mutations_change_something() -> None:
    """A seed that changes nothing is a wasted trial."""
    assert sum(apply_plan(faults.Mutate(seed), SSE) != SSE for seed in range(500)) > 450


# ---- Below an HTTP client


def cassette_of(*bodies: bytes, status: int = 200) -> Cassette:
    request = RecordedRequest("POST", "/chat", PLAIN_REQUEST.body)
    headers = {"content-type": "text/event-stream", "content-length": "7"}
    return Cassette("by hand", [Exchange(request, RecordedResponse(status, body, headers)) for body in bodies])


def test_a_cassette_offers_its_next_reply() -> None:
    """Like an exchange or its bytes; one that is played to its end has none."""
    cassette = cassette_of(SSE, LINES)
    assert faults.reply_body(cassette) == faults.reply_body(cassette.exchanges[0]) == faults.reply_body(SSE) == SSE
    cassette.play(cassette.exchanges[0].request)
    assert faults.reply_body(cassette) == LINES
    cassette.play(cassette.exchanges[1].request)
    assert faults.reply_body(cassette) == b""


@pytest.mark.parametrize(
    ("plan", "kind"),
    [
        (faults.Cut(9, reset=True), httpx.ReadError),
        (faults.Stall(9), httpx.ReadTimeout),
        (faults.Cut(9), None),
        (faults.Rechunk((4,)), None),
    ],
    ids=str,
)
def test_a_client_sees_the_faults_as_errors_of_its_library(plan: faults.Plan, kind: type[Exception] | None) -> None:
    """Sync and async clients see the chunks, and then the library's own error."""

    def sync() -> list[bytes]:
        faulty = faults.FaultyTransport(CassetteTransport(cassette_of(SSE)), plan)
        with (
            httpx.Client(transport=faulty) as client,
            client.stream("POST", "http://x.invalid/chat", content=PLAIN_REQUEST.body) as response,
        ):
            assert "content-length" not in response.headers
            return list(response.iter_raw())

    async def later() -> list[bytes]:
        faulty = faults.AsyncFaultyTransport(AsyncCassetteTransport(cassette_of(SSE)), plan)
        async with (
            httpx.AsyncClient(transport=faulty) as client,
            client.stream("POST", "http://x.invalid/chat", content=PLAIN_REQUEST.body) as response,
        ):
            return [chunk async for chunk in response.aiter_raw()]

    for ask in (sync, lambda: asyncio.run(later())):
        if kind is not None:
            with pytest.raises(kind, match="as planned"):
                ask()
        else:
            assert ask() == list(plan.apply(SSE))


def test_a_transport_retries_refusals() -> None:
    """Two refusals with a wait, then the recorded reply: the cassette is used once."""
    cassette, time = cassette_of(SSE), VirtualClock()
    refusing = faults.FaultyTransport(
        CassetteTransport(cassette), faults.status_then_success(429, {"retry-after": "3"}, times=2)
    )
    client = httpx.Client(transport=refusing)
    transport = HttpTransport(api_key="k", base_url="http://x.invalid", client=client, timing=time.timing)
    with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
        assert b"".join(reply.chunks) == SSE
    assert time.slept == [3.0, 3.0]
    assert (refusing.refused, cassette.unplayed) == (2, 0)
    transport.close()


def test_an_async_client_is_refused_as_often() -> None:
    """Then it is served."""

    async def ask() -> list[int]:
        plan = faults.status_then_success(529, times=1, body=b"busy")
        refusing = faults.AsyncFaultyTransport(AsyncCassetteTransport(cassette_of(SSE)), plan)
        async with httpx.AsyncClient(transport=refusing) as client:
            return [
                (await client.post("http://x.invalid/chat", content=PLAIN_REQUEST.body)).status_code for _ in range(2)
            ]

    assert asyncio.run(ask()) == [529, 200]


@pytest.mark.parametrize(
    ("plan", "kind"),
    [
        (faults.Cut(9), StreamTruncatedError),
        (faults.Cut(9, reset=True), NetworkError),
        (faults.Stall(9), RequestTimeoutError),
    ],
    ids=str,
)
def test_an_adapter_ends_with_a_typed_error(plan: faults.Plan, kind: type[Exception]) -> None:
    """It reads the chunks of a plan without any transport."""
    body = lines('{"text": "Hel"}', '{"done": true}')
    (last,) = list(ToyAdapter("m").iter_stream(plan.apply(body), RequestContext(model="toy:m")))
    assert type(last.error) is kind  # type: ignore[union-attr]


@pytest.mark.exhaustive
def test_laws_and_plans_load_no_yaml() -> None:
    """The kit needs neither the parser of cassettes nor a transport for httpx."""
    program = (
        "import sys\n"
        "import dragoman.testing.stream_laws\n"
        "print([name for name in ('yaml', 'dragoman.testing.faults.transport') if name in sys.modules])\n"
        "from dragoman.testing import faults\n"
        "print(faults.plans.__module__, 'yaml' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "dragoman.testing.faults.recorded True"]


def test_the_package_of_faults_has_its_names_and_no_others() -> None:
    assert {*faults.__all__} <= {*dir(faults)}
    assert all(getattr(faults, name) is not None for name in faults.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_fault'"):
        faults.no_such_fault  # noqa: B018 - the access is the test
