"""Every plan on every framing: on the bytes, and over an exchange and a cassette below sync and async clients."""

import asyncio
import logging
from collections.abc import Iterator

import httpx
import pytest

from dragoman import RequestContext, Session, get_adapter
from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.bundled import bundled_path
from dragoman.testing import AsyncCassetteTransport, Cassette, CassetteMissError, CassetteTransport, faults
from dragoman.testing.cassettes.file import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.faults import Framing
from dragoman.testing.stream_checks import message_content
from dragoman.testing.stream_laws import Effort, stream_laws
from dragoman.transport import RetryPolicy
from tests.tables import each_row
from tests.unit.testing.sample_streams import BODIES, CASES, payloads

ANSWERS = bundled_path("cassettes") / "llama-server" / "answers"
RECORDED = ["anthropic-stream", "openai-chat-stream-tools", "openai-stream"]
every_framing = pytest.mark.parametrize("framing", BODIES)
every_case = each_row(("framing", "plan"), CASES)

Arrived = tuple[list[bytes], type[Exception] | None]
"""The chunks, and the error that ended them."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Corrupt streams are full of unknown events, and each would be a warning."""
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        yield


def read_chunks(chunks: Iterator[bytes]) -> Arrived:
    arrived: list[bytes] = []
    try:
        arrived.extend(chunks)
    except (ConnectionResetError, TimeoutError) as error:
        return arrived, type(error)
    return arrived, None


def cassette_of(body: bytes, *, times: int = 1) -> Cassette:
    exchange = Exchange(RecordedRequest("POST", "/chat", b"{}"), RecordedResponse(200, body))
    return Cassette("by hand", [exchange] * times)


@every_framing
def test_the_streams_have_their_framings(framing: Framing) -> None:
    """Of several events, whose payloads the library's own decoders find as well."""
    body = BODIES[framing]
    assert faults.detect_framing(body) is framing
    assert b"".join(faults.split_events(body)) == body
    assert len(faults.split_events(body)) == len(payloads(framing, body)) >= 4


@every_framing
def test_events_are_dropped_doubled_moved_and_added(framing: Framing) -> None:
    """The result is a stream of that framing: a decoder reads all other payloads unchanged."""
    body = BODIES[framing]
    events, event_payloads = faults.split_events(body), payloads(framing, body)
    for n in range(len(event_payloads)):
        edits: list[tuple[faults.Plan, list[bytes]]] = [
            (faults.DropEvent(n), [*event_payloads[:n], *event_payloads[n + 1 :]]),
            (faults.DuplicateEvent(n), [*event_payloads[: n + 1], *event_payloads[n:]]),
            (faults.InjectEvent(n, events[-2]), [*event_payloads[:n], event_payloads[-2], *event_payloads[n:]]),
        ]
        if n + 1 < len(event_payloads):
            edits.append(
                (
                    faults.SwapEvents(n),
                    [*event_payloads[:n], event_payloads[n + 1], event_payloads[n], *event_payloads[n + 2 :]],
                )
            )
        for plan, left in edits:
            assert payloads(framing, b"".join(plan.apply(body))) == left, plan
    after = faults.InjectEvent(len(event_payloads), events[-2])
    assert payloads(framing, b"".join(after.apply(body))) == [*event_payloads, event_payloads[-2]]


@every_case
def test_a_plan_does_what_it_promises(framing: Framing, plan: faults.Plan) -> None:
    """A harmless one changes no payload, a cut arrives up to its byte, a corrupt byte is the only difference."""
    body = BODIES[framing]
    chunks, broken = read_chunks(plan.apply(body))
    arrived = b"".join(chunks)
    assert all(chunks)
    if plan.harmless:
        assert payloads(framing, arrived) == payloads(framing, body)
    match plan:
        case faults.Cut():
            assert (arrived, broken) == (body[: plan.at], ConnectionResetError if plan.reset else None)
        case faults.Stall():
            assert (arrived, broken) == (body[: plan.after], TimeoutError)
        case faults.Rechunk():
            assert arrived == body
            assert len(chunks) > 1
        case faults.Corrupt():
            assert [at for at, (a, b) in enumerate(zip(arrived, body, strict=True)) if a != b] == [plan.at]
        case faults.Chain():
            assert (len(arrived), broken) == (9, ConnectionResetError)
        case _:
            assert arrived != body
            assert broken is None


@every_case
def test_a_plan_is_deterministic(framing: Framing, plan: faults.Plan) -> None:
    body = BODIES[framing]
    assert read_chunks(plan.apply(body)) == read_chunks(plan.apply(body))


@every_framing
def test_another_seed_gives_another_result(framing: Framing) -> None:
    """Ten seeds, at least eight results, of every kind of plan that has one."""
    body = BODIES[framing]
    for kind in (lambda seed: faults.Rechunk(seed=seed), lambda seed: faults.Corrupt(9, seed), faults.Mutate):
        results = {tuple(kind(seed).apply(body)) for seed in range(10)}
        assert len(results) >= 8
    assert list(faults.plans(body, 1)) == list(faults.plans(body, 1)) != list(faults.plans(body, 2))


def read_with_httpx(plan: faults.Plan, cassette: Cassette) -> Arrived:
    arrived: list[bytes] = []
    faulty = faults.FaultyTransport(CassetteTransport(cassette), plan)
    with httpx.Client(transport=faulty) as client:
        try:
            with client.stream("POST", "http://x.invalid/chat", content=b"{}") as response:
                arrived.extend(response.iter_raw())
        except httpx.HTTPError as error:
            return arrived, type(error)
    return arrived, None


async def read_with_async_httpx(plan: faults.Plan, cassette: Cassette) -> Arrived:
    arrived: list[bytes] = []
    faulty = faults.AsyncFaultyTransport(AsyncCassetteTransport(cassette), plan)
    async with httpx.AsyncClient(transport=faulty) as client:
        try:
            async with client.stream("POST", "http://x.invalid/chat", content=b"{}") as response:
                async for chunk in response.aiter_raw():
                    arrived.append(chunk)  # noqa: PERF401 -- what came before an error is wanted as well
        except httpx.HTTPError as error:
            return arrived, type(error)
    return arrived, None


@every_case
def test_sync_and_async_clients_see_the_plan(framing: Framing, plan: faults.Plan) -> None:
    """Sync and async clients see the plan: the same chunks, and the HTTP library's own errors for a reset and for
    silence.
    """
    chunks, broken = read_chunks(plan.apply(BODIES[framing]))
    error = {ConnectionResetError: httpx.ReadError, TimeoutError: httpx.ReadTimeout, None: None}[broken]  # type: ignore[index]
    assert read_with_httpx(plan, cassette_of(BODIES[framing])) == (chunks, error)
    assert asyncio.run(read_with_async_httpx(plan, cassette_of(BODIES[framing]))) == (chunks, error)


@every_framing
def test_refusals_come_before_the_whole_reply(framing: Framing) -> None:
    """Sync and async: twice 429 with the requested headers, and the cassette is used once."""
    refusals = faults.status_then_success(429, {"retry-after": "1"}, times=2, body=b"slow down")

    def seen(responses: list[httpx.Response]) -> None:
        assert [response.status_code for response in responses] == [429, 429, 200]
        assert [response.headers.get("retry-after") for response in responses] == ["1", "1", None]
        assert [response.content for response in responses] == [b"slow down", b"slow down", BODIES[framing]]

    async def later() -> list[httpx.Response]:
        transport = faults.AsyncFaultyTransport(AsyncCassetteTransport(cassette_of(BODIES[framing])), refusals)
        async with httpx.AsyncClient(transport=transport) as client:
            return [await client.post("http://x.invalid/chat", content=b"{}") for _ in range(3)]

    transport = faults.FaultyTransport(CassetteTransport(cassette_of(BODIES[framing])), refusals)
    with httpx.Client(transport=transport) as client:
        seen([client.post("http://x.invalid/chat", content=b"{}") for _ in range(3)])
    seen(asyncio.run(later()))


def test_a_plan_is_applied_to_every_reply_of_a_cassette() -> None:
    """A plan that does not fit one of them is reported when the body is read."""
    cassette = Cassette(
        "by hand",
        [*cassette_of(b"0123456789").exchanges, *cassette_of(b"012345").exchanges, *cassette_of(b"0").exchanges],
    )
    with httpx.Client(transport=faults.FaultyTransport(CassetteTransport(cassette), faults.Cut(3))) as client:
        for _ in range(2):
            assert client.post("http://x.invalid/chat", content=b"{}").content == b"012"
        with pytest.raises(ConfigurationError, match="no byte 3"):
            client.post("http://x.invalid/chat", content=b"{}")


# ---- Over cassettes that were recorded from a real server


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_stream_under_every_plan(name: str) -> None:
    """A cassette, its exchange and its body give the same plans; a harmless one keeps the message, all end typed."""
    cassette = Cassette.load(ANSWERS / f"{name}.yaml")
    exchange = cassette.exchanges[0]
    provider = name.removesuffix("-tools").removesuffix("-stream")
    model = f"{provider}:qwen2.5-coder-0.5b"
    plans = list(faults.plans(cassette, seed=3))
    assert plans == list(faults.plans(exchange, seed=3)) == list(faults.plans(exchange.response.body, seed=3))

    def last(plan: faults.Plan) -> object:
        events = get_adapter(model).iter_stream(plan.apply(faults.reply_body(cassette)), RequestContext(model=model))
        *_, end = events
        return end

    whole = last(faults.Rechunk((1000,)))
    assert whole.type == "message_complete"  # type: ignore[attr-defined]
    harmless = 0
    for plan in plans:
        end = last(plan)
        if plan.harmless:
            harmless += 1
            assert message_content(end.message) == message_content(whole.message), plan  # type: ignore[attr-defined]
        elif end.type == "error":  # type: ignore[attr-defined]
            assert isinstance(end.error, DragomanError)  # type: ignore[attr-defined]
    assert 20 < harmless < len(plans)


def test_a_session_over_a_corrupt_cassette_keeps_whole_turns_only() -> None:
    """Under every plan the history is both messages of the turn, or none and a typed error."""
    recorded = ANSWERS / "anthropic-stream.yaml"
    kept, lost = 0, 0
    for plan in faults.plans(Cassette.load(recorded), seed=1):
        transport = faults.FaultyTransport(CassetteTransport(Cassette.load(recorded)), plan)
        settings = {"client": httpx.Client(transport=transport), "api_key": "none", "base_url": "http://x.invalid"}
        once = {"anthropic": {**settings, "retry": RetryPolicy(max_retries=0)}}
        with Session("anthropic:qwen2.5-coder-0.5b", providers=once) as session:
            try:
                for _ in session.stream("What is the capital of France?", max_output_tokens=32):
                    pass
            except CassetteMissError:
                raise
            except DragomanError:
                lost += 1
                assert not plan.harmless, plan
                assert session.messages == ()
            else:
                kept += 1
                assert len(session.messages) == 2
    assert kept > 25
    assert lost > 25


def test_the_stream_laws_hold_over_an_array() -> None:
    """As over the other framings, which the laws of all adapters try."""
    body = BODIES[Framing.ARRAY]
    verdicts = list(
        stream_laws(get_adapter("google:m"), body, Effort(replays=300, mutations=300), ends_at=len(body.rstrip()))
    )
    assert sum(verdict.tried for verdict in verdicts) > 2000
    assert not [verdict for verdict in verdicts if verdict.faults]


# ---- Misuse


@every_framing
@pytest.mark.parametrize(
    "plan",
    [
        faults.Cut(-1),
        faults.Cut(10**6),
        faults.Stall(-1),
        faults.Stall(10**6),
        faults.Corrupt(-1),
        faults.Corrupt(10**6),
        faults.DropEvent(-1),
        faults.DropEvent(99),
        faults.DuplicateEvent(99),
        faults.SwapEvents(99),
        faults.InjectEvent(-1, b"x"),
        faults.InjectEvent(99, b"x"),
        faults.Chain((faults.Cut(3, reset=True), faults.Bom())),
        faults.Chain((faults.Stall(3), faults.DropEvent(0))),
    ],
    ids=str,
)
def test_a_plan_that_does_not_fit_is_reported(framing: Framing, plan: faults.Plan) -> None:
    """It would change nothing, and its test could not fail."""
    with pytest.raises(ConfigurationError):
        list(plan.apply(BODIES[framing]))


@pytest.mark.parametrize("plan", [faults.Bom(), faults.Comments(), faults.LineEnds("\r")], ids=str)
def test_a_binary_stream_has_no_lines(plan: faults.Plan) -> None:
    """The error says so."""
    with pytest.raises(ConfigurationError, match="this one is binary"):
        list(plan.apply(BODIES[Framing.AWS]))


def test_invalid_plans_and_transports_are_refused_at_once() -> None:
    """Before any request, with the name of what was expected."""
    cassette = cassette_of(b"x")
    with pytest.raises(ConfigurationError, match="not a fault plan"):
        faults.FaultyTransport(CassetteTransport(cassette), faults.plans(b"{}"))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="not a fault plan"):
        faults.AsyncFaultyTransport(AsyncCassetteTransport(cassette), faults.Cut)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"httpx\.BaseTransport, not a Cassette"):
        faults.FaultyTransport(cassette, faults.Cut(1))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"httpx\.AsyncBaseTransport, not a CassetteTransport"):
        faults.AsyncFaultyTransport(CassetteTransport(cassette), faults.Cut(1))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="400 to 599"):
        faults.status_then_success(302)
    with pytest.raises(ConfigurationError, match="at least 1"):
        faults.status_then_success(429, times=0)
    with pytest.raises(ConfigurationError, match="CR LF, CR or LF"):
        faults.LineEnds("\u2028")  # type: ignore[arg-type]


def test_empty_and_truncated_arrays() -> None:
    """Dropping an event of an empty array is a clear error; an array without its end does not get one."""
    assert faults.split_events(b"[]") == [b"[]"]
    assert b"".join(faults.InjectEvent(1, b'{"n": 1}').apply(b'[{"n": 0}')) == b'[{"n": 0},\r\n{"n": 1}'
    cut = b'[{"n": 0},\n{"n": 1},\n{"n'
    assert faults.split_events(cut) == [b'[{"n": 0},\n', b'{"n": 1},\n', b'{"n']
    assert b"".join(faults.DropEvent(0).apply(cut)) == b'[{"n": 1},\r\n{"n'
