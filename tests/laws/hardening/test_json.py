"""Hostile JSON ends as a value that the docs describe or as a typed error, wherever it enters."""

# ruff: noqa: PT017 -- most cases may end either way, and an error is judged where it is caught.

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import ConfigurationError, DragomanError, MalformedReplyError, StreamTruncatedError
from dragoman.adapter.registry import adapter_class
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message, read_message, write_message
from dragoman.canonical.usage import TokenUsage
from dragoman.pricing import PriceTable
from dragoman.session import Session
from dragoman.testing.cassettes import file as cassette_file
from tests.laws.hardening.json_bombs import BOMBS, Bomb
from tests.laws.hardening.wires import SLOTS, WIRES, WireTemplate

HEAVY = 300_000
"""Bytes from which on a bomb is tried on one wire only: it concerns the parser, which all share."""
LIGHT = 50_000
"""Bytes up to which a bomb is tried by default."""
FIXED = datetime(2026, 11, 21, tzinfo=UTC)
OLD_SESSION = Path(__file__).parents[2] / "compatibility" / "session_v1.json"

every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
every_bomb = pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(
            bomb,
            id=bomb.name[:30].encode("ascii", "replace").decode(),
            marks=[pytest.mark.exhaustive] if len(bomb.value) > LIGHT else [],
        )
        for bomb in BOMBS
    ],
)


def context(provider: str) -> RequestContext:
    return RequestContext(model=f"{provider}:m", new_id=lambda: "id", clock=lambda: FIXED)


def bomb_places(wire: WireTemplate, root: str, exhaustive: bool) -> Iterator[tuple[Bomb, str]]:
    """Every bomb with every place; the heavy ones on one wire at three, and none of them by default."""
    for bomb in BOMBS if exhaustive else [bomb for bomb in BOMBS if len(bomb.value) <= LIGHT]:
        if len(bomb.value) < HEAVY:
            yield from ((bomb, place) for place in (root, *SLOTS))
        elif wire.provider == "openai-chat":
            yield from ((bomb, place) for place in (root, "odd", "args"))


def check(message: Message | None, bomb: Bomb, place: str) -> None:
    """A message can be written as strict JSON and read again; arguments are the object or the text as it came."""
    if message is None:
        return
    written = write_message(message)
    json.loads(written, parse_constant=pytest.fail)
    assert read_message(written) == message
    for call in message.tool_uses if place == "args" else ():
        if call.raw_input is not None:
            assert call.input == {}
        elif bomb.value.startswith(b"{"):
            assert bomb.fits
            assert call.input == json.loads(bomb.value)


def test_there_are_over_sixty_bombs() -> None:
    assert len({bomb.value for bomb in BOMBS}) >= len(BOMBS) - 2
    assert len(BOMBS) >= 60


@every_wire
def test_the_wires_are_as_the_adapters_read_them(wire: WireTemplate) -> None:
    """Without a bomb, whole and streamed replies are messages with a text and a call: the places are real."""
    adapter = adapter_class(wire.provider)("m")
    whole = adapter.from_wire_response(WireResponse(200, wire.reply("text", b'"hi"')), context(wire.provider))
    *_, last = adapter.iter_stream([wire.stream("text", b'"hi"')], context(wire.provider))
    assert isinstance(last, MessageComplete), last
    for message in (whole, last.message):
        assert message.text == "hi"
        assert [call.input for call in message.tool_uses] == [{"a": 1}]


@every_wire
def test_a_bomb_in_a_whole_reply(wire: WireTemplate, exhaustive: bool) -> None:
    """As the body, and at every place in the body: the result is a message or a DragomanError."""
    adapter = adapter_class(wire.provider)("m")
    for bomb, place in bomb_places(wire, "body", exhaustive):
        body = bomb.value if place == "body" else wire.reply(place, bomb.value)
        if place == "body":
            failed = adapter.error(500, body, {})
            assert len(str(failed)) < 2_000
        try:
            message = adapter.from_wire_response(WireResponse(200, body), context(wire.provider))
        except (MalformedReplyError, StreamTruncatedError) as error:  # A list may be a stream that came whole.
            assert len(str(error)) < 2_000
            continue
        check(message, bomb, place)


@every_wire
def test_a_bomb_in_a_stream(wire: WireTemplate, exhaustive: bool) -> None:
    """A bomb ends the stream with its message or with an error event, in an event and at every position of one."""
    adapter = adapter_class(wire.provider)("m")
    for bomb, place in bomb_places(wire, "event", exhaustive):
        if place == "event":
            payload = b'{"odd":' + bomb.value + b"}" if wire.provider == "bedrock" else bomb.value
            body = wire.frame(payload) + wire.stream("odd", b"null")
        else:
            body = wire.stream(place, bomb.value)
        *_, last = adapter.iter_stream([body], context(wire.provider))
        if isinstance(last, ErrorEvent):
            assert isinstance(last.error, DragomanError)
            check(last.partial, bomb, place)
        else:
            assert isinstance(last, MessageComplete)
            check(last.message, bomb, place)


@every_bomb
def test_a_bomb_in_arguments(bomb: Bomb) -> None:
    """Arguments are the object that they contain, or the text as it came."""
    text = bomb.value.decode("utf-8", "replace")
    value, raw = wirejson.parse_arguments(text)
    if raw is None:
        assert bomb.fits
        assert value == json.loads(bomb.value)
    else:
        assert (value, raw) == ({}, text)


@every_bomb
def test_a_bomb_in_a_stored_message(bomb: Bomb) -> None:
    """A row is a message or a ValueError, with pydantic's among them; what fits is kept."""
    call = b'{"type":"tool_use","id":"tu_1","name":"f","input":{"x":%s}}' % bomb.value
    rows = {
        "row": bomb.value,
        "unknown field": b'{"role":"user","content":[],"odd":%s}' % bomb.value,
        "text": b'{"role":"user","content":[{"type":"text","text":%s}]}' % bomb.value,
        "input": b'{"role":"assistant","content":[%s]}' % call,
        "unknown block": b'{"role":"user","content":[{"type":"odd","data":%s}]}' % bomb.value,
        "version": b'{"role":"user","content":[],"schema_version":%s}' % bomb.value,
    }
    for place, row in rows.items():
        try:
            message = read_message(row)
        except ValueError as error:
            assert not isinstance(error, UnicodeError)
            assert not (bomb.fits and place in ("unknown field", "input", "unknown block")), error
            continue
        assert bomb.fits or place != "input"
        assert read_message(write_message(message)) == message


@every_bomb
def test_a_bomb_in_a_stored_session(bomb: Bomb) -> None:
    """It is a session or a ConfigurationError."""
    stored = OLD_SESSION.read_bytes()
    head, _, tail = stored.partition(b'"session_id"')
    places = [
        bomb.value,
        head + b'"odd":' + bomb.value + b',"session_id"' + tail,
        b'{"dragoman_session":1,"session_id":%s,"model":"ollama:m","tool_ids":{},"messages":[]}' % bomb.value,
        b'{"dragoman_session":1,"session_id":"s","model":%s,"tool_ids":{},"messages":[]}' % bomb.value,
        b'{"dragoman_session":1,"session_id":"s","model":"ollama:m","tool_ids":%s,"messages":[]}' % bomb.value,
        b'{"dragoman_session":1,"session_id":"s","model":"ollama:m","tool_ids":{"issued":%s},"messages":[]}'
        % bomb.value,
        b'{"dragoman_session":1,"session_id":"s","model":"ollama:m","tool_ids":{"sent":{"a":%s}},"messages":[]}'
        % bomb.value,
        b'{"dragoman_session":1,"session_id":"s","model":"ollama:m","tool_ids":{},"messages":%s}' % bomb.value,
        b'{"dragoman_session":%s,"session_id":"s","model":"ollama:m","tool_ids":{},"messages":[]}' % bomb.value,
    ]
    for data in places:
        try:
            session = Session.load(data)
        except ConfigurationError as error:
            assert len(str(error)) < 2_000
            continue
        assert json.loads(session.dump(), parse_constant=pytest.fail)


@every_bomb
def test_a_bomb_in_a_cassette(bomb: Bomb) -> None:
    """A cassette file is exchanges or a ConfigurationError; a recorded body comes back byte for byte or as JSON."""
    text = bomb.value.decode("utf-8", "replace")
    request = "request: {method: POST, path: /x}\n"
    files = [
        text,
        f"format: 1\nserver: s\nexchanges: {text}\n",
        f"format: 1\nserver: s\nexchanges:\n- {request}  response:\n    status: 200\n    json: {text}\n",
        f"format: 1\nserver: s\nexchanges:\n- {request}  response:\n    status: {text}\n",
        f"format: {text}\nserver: s\nexchanges: []\n",
    ]
    for file in files:
        if len(file) < HEAVY or file is text:
            try:
                cassette_file.load_exchanges(file)
            except ConfigurationError as error:
                assert len(str(error)) < 2_000
    if len(bomb.value) < HEAVY:
        recorded = cassette_file.Exchange(
            cassette_file.RecordedRequest("POST", "/x"), cassette_file.RecordedResponse(200, bomb.value)
        )
        try:
            _, (back,) = cassette_file.load_exchanges(cassette_file.dump_exchanges([recorded], server="s"))
        except ConfigurationError:
            return
        if back.response.body != bomb.value:
            assert json.loads(back.response.body) == json.loads(bomb.value)


def expanding_aliases() -> str:
    """Aliases of aliases: a few lines that mean a billion entries."""
    names = "abcdefghi"
    levels = [f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]" for a, b in itertools.pairwise(names)]
    return "\n".join(["a: &a [x,x,x,x,x,x,x,x,x,x]", *levels[:6]])


@pytest.mark.parametrize(
    "text",
    [
        expanding_aliases(),
        "a: &a [*a]",
        "!!python/object/apply:os.system [x]",
        "? [[1]]\n: 2",
        "{{a: 1}: 2}",
        "&a *a",
        "- " * 9_000,
    ],
)
def test_yaml_tricks_in_a_cassette(text: str) -> None:
    """YAML features that JSON lacks are a ConfigurationError too."""
    with pytest.raises(ConfigurationError):
        cassette_file.load_exchanges(text)


@every_bomb
def test_a_bomb_in_a_price_overlay(bomb: Bomb, tmp_path: Path) -> None:
    """An overlay is prices or a ConfigurationError, as a TOML file and as an object of the program."""
    text = bomb.value.decode("utf-8", "replace")
    model = '[[acme.model]]\nid = "m"\nmatch = { equals = ["m"] }\nsource = "s"\nchecked = 2026-11-10\n'
    path = tmp_path / "overlay.toml"
    usage = TokenUsage(input_tokens=5, output_tokens=5)
    overlays: list[Any] = [
        f"acme = {text}",
        f"{model}[[acme.model.prices]]\ninput = {text}\n",
        f'{model}[[acme.model.prices]]\ninput = "{text if len(text) < HEAVY else "9" * 5_000}"\n',
        f"{model}[[acme.model.prices]]\ntools = {text}\n",
        f"accepted = {text}\n{model}",
        bomb.value,
    ]
    if len(bomb.value) < HEAVY:
        try:
            value = json.loads(bomb.value)
        except (ValueError, RecursionError):
            value = bomb.value
        row = {"id": "m", "match": {"equals": ["m"]}, "source": "s", "checked": FIXED.date()}
        overlays += [{"acme": value}, {"acme": {"model": value}}, {"acme": {"model": [{**row, "prices": value}]}}]
        overlays += [
            {"acme": {"model": [{**row, "prices": [{"input": value}]}]}},
            {"acme": {"model": [row | {"match": value}]}},
        ]
        overlays += [{"acme": {"tools": value}}, {"acme": {"surcharge": value}}, {"accepted": value}]
    overlays = [overlay for overlay in overlays if overlay is bomb.value or len(overlay) < HEAVY]
    (tmp_path / "index.toml").write_text("date = 2026-11-10\n", encoding="utf-8")
    for overlay in overlays:
        if not isinstance(overlay, dict):
            path.write_bytes(overlay if isinstance(overlay, bytes) else overlay.encode("utf-8"))
        try:
            table = PriceTable(tmp_path, overlay if isinstance(overlay, dict) else None)
            priced = table.price("acme:m", usage, FIXED)
        except ConfigurationError as error:
            assert len(str(error)) < 2_000
            continue
        finally:
            path.unlink(missing_ok=True)
        assert priced.cost_usd is None or priced.cost_usd.is_finite()
