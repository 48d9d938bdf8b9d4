"""The small parts of the adapter package: turns, texts for blocks, diffs, losses, JSON, headers."""

import logging
import pickle
from typing import Any

import pytest
from hypothesis import given

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import MalformedReplyError, RequestError, UnknownProviderError
from dragoman.adapter.losses import Loss, LossKind, Severity, log_losses
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.adapter.requests.unsupported_blocks import flatten_block
from dragoman.adapter.wire import Headers, WireResponse
from dragoman.adapter.wire_diff import apply_diff, diff_objects
from dragoman.canonical.blocks import (
    ContentBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
)
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.testing.strategies import json_objects


class TestTurns:
    a, b, c = (TextBlock(text=text) for text in "abc")
    noted = Message.assistant(
        [a, b], metadata=MessageMetadata(provider_raw={"by": "p", "blocks": {"1": {"set": {"x": 1}}}})
    )

    def test_a_turn_starts_as_its_message(self) -> None:
        """The same role and blocks, each from its own place."""
        turn = Turn.of(self.noted)
        assert (turn.role, turn.blocks, turn.origins) == (Role.ASSISTANT, (self.a, self.b), (0, 1))

    def test_a_changed_block_loses_its_origin(self) -> None:
        """An unchanged block keeps its origin; a block may become none or several."""
        changes: dict[TextBlock, tuple[ContentBlock, ...]] = {self.a: (), self.b: (self.b, self.c)}
        turn = Turn.of(self.noted).map_blocks(lambda block, _: changes[block])  # type: ignore[index]
        assert turn.blocks == (self.b, self.c)
        assert turn.origins == (1, SYNTHETIC)

    def test_an_unchanged_turn_is_the_same_turn(self) -> None:
        """An unchanged turn is not copied."""
        turn = Turn.of(self.noted)
        assert turn.map_blocks(lambda block, _: (block,)) is turn

    def test_notes_are_read_by_their_writer_only(self) -> None:
        """Another adapter gets none, and a changed block has none."""
        turn = Turn.of(self.noted)
        assert turn.raw("p")["by"] == "p"
        assert turn.raw("q") == {}
        assert Turn.of(Message.user("Hi")).raw("p") == {}
        assert [turn.restore_block(index, {"t": 1}, "p") for index in (0, 1)] == [{"t": 1}, {"t": 1, "x": 1}]
        assert turn.restore_block(1, {"t": 1}, "q") == {"t": 1}
        made = Turn.synthetic(self.noted, Role.USER, (self.c,))
        assert made.restore_block(0, {"t": 1}, "p") == {"t": 1}


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (ResourceBlock(resource_request_id="r", uri="u", resource_type="file", name="n", content="x"),
         "[resource n]\nx"),
        (ResourceBlock(resource_request_id="r", uri="u", resource_type="file", content=""), "[resource u]\n"),
        (ResourceBlock(resource_request_id="r", uri="u", resource_type="file", blob="eA=="),
         "[resource u]\n[binary content left out]"),
        (ResourceRefBlock(resource_request_id="r", uri="u", resource_type="file", name="n"), "[reference to n: u]"),
        (PromptRequestBlock(prompt_request_id="p", name="n"), "[prompt n {}]"),
        (PromptResultBlock(prompt_request_id="p", prompt_name="n", content="x"), "[prompt n]\nx"),
        (PromptResultBlock(prompt_request_id="p", prompt_name="n", is_error=True, error_message="no"),
         "[prompt n]\nno"),
        (PromptResultBlock(prompt_request_id="p", prompt_name="n", messages=({"role": "user"},)),
         '[prompt n]\n[{"role":"user"}]'),
    ],
)  # fmt: skip
def test_blocks_without_a_wire_form_become_text(block: ContentBlock, text: str) -> None:
    assert flatten_block(block) == TextBlock(text=text)


def test_blocks_with_a_wire_form_stay() -> None:
    """They are not flattened."""
    assert flatten_block(ThinkingBlock(text="Hm.")) is None


class TestResidue:
    @given(native=json_objects, encoded=json_objects)
    def test_the_diff_restores_the_native_object(self, native: dict[str, Any], encoded: dict[str, Any]) -> None:
        """For any encoding: applying the difference gives what the provider sent."""
        restored = apply_diff(encoded, diff_objects(native, encoded))
        assert restored == native
        assert wirejson.dumps({key: restored[key] for key in native}) == wirejson.dumps(native)

    @given(native=json_objects)
    def test_an_equal_encoding_needs_no_diff(self, native: dict[str, Any]) -> None:
        assert diff_objects(native, native) is None
        assert apply_diff(native, None) == native

    @pytest.mark.parametrize(
        ("ours", "theirs"), [(1, True), (1, 1.0), (0, False), ([1], [True]), ({"a": 1}, {"a": 1.0})]
    )
    def test_python_equality_is_not_wire_equality(self, ours: Any, theirs: Any) -> None:
        """1, 1.0 and true are three things in JSON."""
        assert diff_objects({"x": theirs}, {"x": ours}) == {"set": {"x": theirs}}


def test_losses_are_logged_with_five_fields(caplog: pytest.LogCaptureFixture) -> None:
    """Content lost is a warning, a change of form is information (docs/reference/contract.md#lossy-projection)."""
    losses = (
        Loss(LossKind.MEDIA, "m1", 0, "takes no image", Severity.WARNING, "image"),
        Loss(LossKind.ROLE, "m2", -1, "no developer", Severity.INFO),
    )
    with caplog.at_level(logging.INFO, "dragoman.projection"):
        log_losses(losses, session_id="sess_1", adapter="openai")
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    first = caplog.records[0].__dict__
    assert caplog.records[0].getMessage() == "openai: takes no image"
    assert {name: first[name] for name in ("session_id", "message_id", "block_type", "adapter", "reason")} == {
        "session_id": "sess_1", "message_id": "m1", "block_type": "image", "adapter": "openai",
        "reason": "takes no image",
    }  # fmt: skip


class TestJson:
    @pytest.mark.parametrize(
        "data",
        [b"", b"{", b"NaN", b"[Infinity]", b"{'a':1}", b'{"a":1,}', b"\xff", b'"\\ud800"', b"[" * 300, b"1" * 5000],
    )
    def test_text_that_is_not_json_is_malformed(self, data: bytes) -> None:
        """Every such text raises the same typed error."""
        with pytest.raises(MalformedReplyError, match="the reply is not valid JSON"):
            wirejson.loads(data)

    def test_anything_but_an_object_is_named(self) -> None:
        """The error names the type of any other value."""
        assert wirejson.loads_object(b'{"a": 1}') == {"a": 1}
        with pytest.raises(MalformedReplyError, match="the price list is a JSON list, not an object"):
            wirejson.loads_object(b"[]", what="the price list")

    @pytest.mark.parametrize("value", [float("nan"), {"a": [1e999]}, "\ud800", object(), {"a": -1e999, "b": "NaN"}])
    def test_values_outside_json_are_not_written(self, value: Any) -> None:
        """Other JSON writers replace them with NaN or null."""
        with pytest.raises(RequestError, match="the request cannot be written as JSON"):
            wirejson.dumps(value)

    @pytest.mark.parametrize(
        ("value", "written"),
        [
            ({"b": 1, "a": [True, None, 1.5]}, b'{"b":1,"a":[true,null,1.5]}'),
            ({"a": "NaN and -Infinity"}, b'{"a":"NaN and -Infinity"}'),
            ("é\u2028😀\x00", '"é\u2028😀\\u0000"'.encode()),
            (10**30, b"1" + b"0" * 30),
        ],
    )
    def test_encoded_bytes_are_compact_and_ordered(self, value: Any, written: bytes) -> None:
        assert wirejson.dumps(value) == written
        assert wirejson.loads(written) == value

    @pytest.mark.parametrize(
        ("text", "parsed"),
        [
            ('{"a": 1}', ({"a": 1}, None)), ("", ({}, None)), (" \n", ({}, None)), ("{}", ({}, None)),
            ('{"a": ', ({}, '{"a": ')), ("[1]", ({}, "[1]")), ("null", ({}, "null")), ('"x"', ({}, '"x"')),
            ('{"a": NaN}', ({}, '{"a": NaN}')), ("{'a': 1}", ({}, "{'a': 1}")), ('{"a":1}{}', ({}, '{"a":1}{}')),
        ],
    )  # fmt: skip
    def test_arguments_are_complete_or_kept_as_text(self, text: str, parsed: Any) -> None:
        """Half an object is never completed: it could run with other defaults."""
        assert wirejson.parse_arguments(text) == parsed


def test_header_names_ignore_case() -> None:
    """Their values are not shown in a repr: they may be secrets."""
    headers = WireResponse(200, b"", {"X-Request-Id": "r1"}).headers
    assert headers["x-request-ID"] == headers.get("X-REQUEST-ID") == "r1"
    assert dict(headers) == {"x-request-id": "r1"}
    assert len(headers) == 1
    assert repr(headers) == "Headers(['x-request-id'])"
    assert headers.get("absent") is None
    assert isinstance(headers, Headers)
    assert pickle.loads(pickle.dumps(headers)) == headers


def test_a_single_stop_sequence_is_one_text() -> None:
    """It is not split into letters."""
    assert AdapterOptions(stop_sequences="END").stop_sequences == ("END",)  # type: ignore[arg-type]
    assert AdapterOptions(stop_sequences=("a", "b")).stop_sequences == ("a", "b")


@pytest.mark.parametrize("model", ["claude", "", ":x", "anthropic:", 5])
def test_a_context_needs_a_full_model_id(model: Any) -> None:
    """The error is the one of a search for its adapter."""
    for look_up in (RequestContext.for_model, get_adapter):
        with pytest.raises(UnknownProviderError, match="provider:"):
            look_up(model)


@pytest.mark.parametrize(
    ("name", "value"), [("safety", "insane"), ("logprobs", -1), ("logprobs", "2"), ("logprobs", 1.5)]
)
def test_wrong_values_of_options_are_refused(name: str, value: Any) -> None:
    """What an adapter would leave out without a word, or send to be refused, is an error here."""
    with pytest.raises(RequestError, match=f"{name} must be"):
        AdapterOptions(**{name: value})


def test_logprobs_may_be_true() -> None:
    assert AdapterOptions(logprobs=True).logprobs == 0
