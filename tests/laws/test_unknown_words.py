"""Laws of words that a newer version wrote: they are kept, and nothing that reads a message fails on them."""

import copy
import json
import pickle
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.message import read_message, write_message
from dragoman.canonical.message_view.parts import UnknownPartError
from dragoman.canonical.rules import check
from dragoman.events.catalogue import LlmCallCompleted
from dragoman.events.conventions import format_messages, format_reply
from dragoman.formats import history_to_umf
from dragoman.formats.registry import FORMATS
from dragoman.pricing.analytics.cost_lines import cost_line
from dragoman.session.cost import total_cost, total_usage
from dragoman.store import Store
from dragoman.testing.strategies import conversations
from dragoman.view.page import page
from tests.conformance.swaps.histories import TARGETS
from tests.sampling import examples

WORDS = st.sampled_from(["robot", "<|im_end|>", 'a "word"', "x" * 100, "ünïcode", "User"])
"""Words that no list of this version has."""


def _with_words(draw: st.DrawFn, value: Any) -> Any:
    """Return JSON of a message in which some words of its closed lists are unknown."""
    if isinstance(value, list):
        return [_with_words(draw, item) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _with_words(draw, item) for key, item in value.items()}
    for name in ("role", "channel", "status", "stop_reason", "mode", "cost_status", "resource_type"):
        if name in changed and draw(st.booleans()):
            changed[name] = draw(WORDS)
    if set(changed) >= {"kind", "data"} and draw(st.booleans()):
        changed["kind"] = draw(WORDS)
    return changed


@st.composite
def histories_of_a_newer_version(draw: st.DrawFn) -> list[Message]:
    history: list[Message] = []
    for message in draw(conversations()):
        raw = json.loads(write_message(message))
        changed = _with_words(draw, {name: raw[name] for name in ("role", "content", "channel") if name in raw})
        metadata = {"stop_reason": "end_turn", **raw["metadata"]}
        routing = {"mode": "manual", "chosen_model": "a:b", "reason": "r"}
        metadata |= {"routing": routing, "usage": {"cost_status": "free"}}
        provider_raw = metadata.pop("provider_raw", None)  # belongs to one adapter
        metadata = _with_words(draw, metadata) | ({"provider_raw": provider_raw} if provider_raw else {})
        history.append(read_message({**raw, **changed, "metadata": metadata}))
    return history


@given(history=histories_of_a_newer_version())
def test_unknown_words_survive_writing_pickling_and_copying(history: list[Message]) -> None:
    """The same text, the same hash, the same bytes; also after another field has changed."""
    for message in history:
        written = write_message(message)
        for twin in (read_message(written), pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
            assert twin == message
            assert hash(twin) == hash(message)
            assert write_message(twin) == written
        moved = message.model_copy(update={"session_id": "sess_b"})
        assert (moved.role, moved.metadata, moved.content) == (message.role, message.metadata, message.content)


@examples(30)
@given(history=histories_of_a_newer_version(), data=st.data())
def test_every_adapter_sends_a_history_with_unknown_words(history: list[Message], data: st.DataObject) -> None:
    """A message of an unknown role is left out, which is a warning for that message; nothing else raises."""
    adapter = get_adapter(data.draw(st.sampled_from(sorted(TARGETS.values()))))
    request = adapter.to_wire(history, [], AdapterOptions(context=RequestContext.for_model("local:smollm2-135m")))
    left_out = {message.id for message in history if not message.role.is_known}
    reported = {
        loss.message_id
        for loss in request.losses
        if loss.kind is LossKind.ROLE and loss.severity is Severity.WARNING and "unknown" in loss.reason
    }
    assert reported == left_out
    assert adapter.estimate_input_tokens(history, []) >= 0


@examples(20)
@given(history=histories_of_a_newer_version())
def test_unknown_words_stay_readable_everywhere(history: list[Message]) -> None:
    """They stay readable in a store and its export, in reports, in every format, on a page, in policies and in
    telemetry.
    """
    history = [message.model_copy(update={"id": f"{index:026d}"}) for index, message in enumerate(history)]
    with Store("sqlite://") as store, Store("sqlite://") as other:
        record = store.create("local:smollm2-135m")
        store.append(record.id, history, expected_version=record.version)
        kept = list(store.load(record.id).messages)
        other.import_lines(store.export(record.id))
        assert list(other.load(record.id).messages) == kept
        assert [(each.role, each.content, each.metadata) for each in kept] == [
            (each.role, each.content, each.metadata) for each in history
        ]
        lines = [cost_line((), reply.usage) for reply in store.billed_replies()]
    assert all(isinstance(str(line), str) for line in lines)
    check(history)
    assert page(history)
    assert total_usage(history).total_tokens >= 0
    assert str(total_cost(history))
    assert format_messages(history)
    assert list(history_to_umf(history))
    for message in history:
        assert format_reply(message)
        assert LlmCallCompleted.of(message).stop_reason == message.stop_reason
        with suppress(UnknownPartError):  # a native block, which no view can show
            assert all(view.to_dict() for view in message.iter_views())
    for name, form in FORMATS.items():
        if form.write is not None and name != "message-body":
            written = form.write(history, None)
            assert form.read or form.read_all or form.read_many, name
            if form.read is not None:
                form.read(written.data, None)
            elif form.read_all is not None:
                form.read_all(written.data)
