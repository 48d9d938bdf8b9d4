"""The template: an adapter that declares its models and a path, and implements encoding and decoding, is complete."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition, WireResponse
from dragoman.adapter.contract import Endpoint
from dragoman.adapter.errors import MalformedReplyError, ProviderError, RateLimitError, RequestError
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.request_reader import HistoryReader
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.message import Role, StopReason
from tests.unit.adapter.toy_adapter import ToyDecoder


class SmallAdapter(WireAdapter):
    provider: ClassVar[str] = "small"
    endpoint: ClassVar[Endpoint] = Endpoint("https://small.example")
    models: ClassVar[ModelTable] = ModelTable({"model": [{"match": "*", "listed": ["m", "n"]}]})
    path: ClassVar[str] = "/say"

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        warmth = request.used.take("temperature")
        texts = request.encode_history(request.turns, lambda turns: [turn.message.text for turn in turns])
        return {"texts": texts, "how": {"warmth": warmth}}

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        text = TextBlock(text=native["text"])
        return reply.build((text,), model="m", stop_reason=StopReason.END_TURN, usage=None, raw={})

    def decode_request(
        self, native: dict[str, Any], reader: HistoryReader
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        for text in native["texts"]:
            reader.add(Role.USER, (TextBlock(text=text),))
        return [], AdapterOptions(temperature=native["how"]["warmth"], context=reader.context)

    def decode_error(self, native: dict[str, Any], origin: ErrorContext) -> ProviderError:
        return origin.failure(message=native.get("oops"), code=None).error(None)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return ToyDecoder(context)


ADAPTER = SmallAdapter("m")
CONTEXT = RequestContext(model="small:m")


def test_a_request_is_written_and_read_back() -> None:
    """The caller's own fields are merged into the fields that the class lists."""
    extra = {"small": {"how": {"loud": True}}}
    wire = ADAPTER.to_wire([Message.user("Hi")], [], AdapterOptions(temperature=0.5, extra=extra))
    assert (wire.method, wire.path, wire.losses) == ("POST", "/say", ())
    assert json.loads(wire.body) == {"texts": ["Hi"], "how": {"warmth": 0.5, "loud": True}}
    messages, tools, options = ADAPTER.from_wire_request(wire.body, CONTEXT)
    assert ([message.text for message in messages], tools, options.temperature) == (["Hi"], [], 0.5)


def test_options_that_the_encoder_did_not_take_are_losses() -> None:
    """This needs no declaration."""
    wire = ADAPTER.to_wire([Message.user("Hi")], [], AdapterOptions(temperature=0.5, seed=7, effort="low"))
    assert [loss.reason for loss in wire.losses] == [
        "seed: the wire has no such option",
        "effort: the wire has no such option",
    ]
    assert json.loads(wire.body)["how"] == {"warmth": 0.5}


def test_each_request_begins_with_unused_options() -> None:
    """A later request with the same options has the same losses."""
    options = AdapterOptions(seed=7, context=CONTEXT)
    first, second = (ADAPTER.to_wire([Message.user("Hi")], [], options) for _ in range(2))
    assert first.losses == second.losses != ()


def test_a_reply_is_decoded_and_a_failure_raised() -> None:
    """By its status, or because its body does not fit the protocol."""
    assert ADAPTER.from_wire_response(WireResponse(200, b'{"text": "So"}'), CONTEXT).text == "So"
    with pytest.raises(RateLimitError, match="too fast"):
        ADAPTER.from_wire_response(WireResponse(429, b'{"oops": "too fast"}'), CONTEXT)
    with pytest.raises(MalformedReplyError, match="KeyError: 'text'"):
        ADAPTER.from_wire_response(WireResponse(200, b"{}"), CONTEXT)
    with pytest.raises(RequestError, match="small"):
        ADAPTER.from_wire_request(b"{}", CONTEXT)


def test_facts_come_from_the_table() -> None:
    """So do the provider's names."""
    assert SmallAdapter.listed_models == ("m", "n")
    assert ADAPTER.capabilities == SmallAdapter.models.capabilities("m")
    assert SmallAdapter.telemetry_name == "small"

    class Other(SmallAdapter):
        provider = "other"
        telemetry_name = "other.inc"

    class Another(Other):
        provider = "another"

    assert (Other.telemetry_name, Another.telemetry_name) == ("other.inc", "another")
