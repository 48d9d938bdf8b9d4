"""Laws of the canonical form: what is written can be read, equal values have equal hashes, nothing unsafe gets in."""

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dragoman.canonical.blocks import ContentBlock, ToolUseBlock
from dragoman.canonical.guard import copy_json
from dragoman.canonical.message import Message, MessageMetadata, Role, read_message, write_message
from dragoman.canonical.rules import check
from dragoman.canonical.words import READING
from dragoman.testing.strategies import BLOCKS_BY_KIND, histories, json_objects, json_values, messages

_any_block: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)


@given(message=messages)
def test_a_message_survives_writing_and_reading(message: Message) -> None:
    """The copy is equal, with the same hash and provider_raw, and is written as the same bytes again."""
    written = write_message(message)
    read = read_message(written)
    assert read == message
    assert hash(read) == hash(message)
    assert read.metadata.provider_raw == message.metadata.provider_raw
    assert write_message(read) == written


@given(message=messages)
def test_a_message_can_be_pickled_and_copied(message: Message) -> None:
    """A message can be pickled and copied between processes, and by callers who copy immutable objects."""
    for twin in (pickle.loads(pickle.dumps(message)), copy.copy(message), copy.deepcopy(message)):
        assert twin == message
        assert hash(twin) == hash(message)
        assert twin.metadata.provider_raw == message.metadata.provider_raw


@pytest.mark.parametrize("kind", BLOCKS_BY_KIND)
@given(data=st.data())
def test_every_kind_of_block_survives_json(kind: str, data: st.DataObject) -> None:
    """A block's JSON names its kind and gives the same block again."""
    block = data.draw(BLOCKS_BY_KIND[kind])
    assert block.type == kind
    assert _any_block.validate_json(block.model_dump_json(), context=READING) == block


@given(message=messages, raw=json_objects)
def test_provider_raw_does_not_count_for_equality(message: Message, raw: dict[str, Any]) -> None:
    """Two messages that differ only in it are equal with equal hashes."""
    metadata = message.metadata.model_copy(update={"provider_raw": {**raw, "by": "another"}})
    other = message.model_copy(update={"metadata": metadata})
    assert other.metadata == message.metadata
    assert other == message
    assert {hash(other.metadata), hash(other)} == {hash(message.metadata), hash(message)}


@given(one=json_objects, data=st.data())
def test_equal_blocks_have_equal_hashes(one: dict[str, Any], data: st.DataObject) -> None:
    """The order of keys is not a difference, and neither is 1 against 1.0."""
    shuffled = dict(data.draw(st.permutations(list(one.items()))))
    twin = {key: float(value) if value in (0, 1) else value for key, value in shuffled.items()}
    first, second = (ToolUseBlock(id="tu_1", name="f", input=given) for given in (one, twin))
    assert first == second
    assert hash(first) == hash(second)


def places(raw: Any) -> list[dict[str, Any]]:
    """Every object of a written message that is one of our models, to which a newer version might add a field."""
    found = [raw, raw["metadata"]]
    found += [raw["metadata"][name] for name in ("usage", "routing") if name in raw["metadata"]]
    waiting = list(raw["content"])
    while waiting:
        block = waiting.pop()
        found.append(block)
        found += [block[name] for name in ("source",) if name in block and block["type"] != "hologram"]
        if block["type"] == "tool_result":
            waiting += block["content"]
    return found


@given(message=messages, unknown=json_values, data=st.data())
def test_additions_of_a_newer_version_are_kept_verbatim(message: Message, unknown: Any, data: st.DataObject) -> None:
    """A field or a kind of block that this version does not know is written again as it was read."""
    raw = json.loads(write_message(message))
    data.draw(st.sampled_from(places(raw)))["of_the_future"] = unknown
    raw["content"].append({"type": "thought_bubble", "shape": unknown, "empty": None})
    assert json.loads(write_message(read_message(raw))) == raw


_hostile = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=3)
    | st.sampled_from(["\ud800", "ok\udfff", 10**4250, float("nan"), 1e999, object(), {1: 2}, {1, 2}, ...]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "input", "content", "source", "data", "\ud800"]), inner)
    ),
    max_leaves=8,
)


@given(content=_hostile, raw=_hostile, role=_hostile | st.sampled_from(Role))
def test_hostile_values_are_refused_or_harmless(content: Any, raw: Any, role: Any) -> None:
    """They give a message that can be written and read, or a ValidationError, and nothing else."""
    try:
        message = Message(role=role, content=content, metadata={"provider_raw": raw})
    except ValidationError:
        return
    assert read_message(write_message(message)) == message


@given(raw=json_objects.map(lambda extra: {"role": "user", **extra}) | _hostile)
def test_reading_hostile_objects_fails_in_one_way(raw: Any) -> None:
    """Reading gives a message that can be written again, or a ValueError."""
    if not isinstance(raw, dict):
        raw = {"role": "user", "metadata": raw, "x": raw}
    try:
        message = read_message(raw)
    except ValueError:
        return
    assert read_message(write_message(message)) == message


@given(value=json_values)
def test_an_owned_copy_is_equal_and_shares_nothing(value: Any) -> None:
    """Later changes of the argument do not change what was made from it."""
    before = json.dumps(value)
    owned = copy_json([value])
    assert json.dumps(owned[0]) == before
    for node in _containers(value):
        node.clear()
    assert json.dumps(owned[0]) == before


def _containers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [inner for item in value.values() for inner in _containers(item)] + [value]
    if isinstance(value, list):
        return [inner for item in value for inner in _containers(item)] + [value]
    return []


@given(history=histories())
def test_checking_a_history_never_raises(history: list[Message]) -> None:
    """The rules name what is wrong, message by message."""
    for violation in check(history):
        index, _, what = violation.partition("] ")
        assert 0 <= int(index.removeprefix("[")) < len(history)
        assert what


def test_empty_metadata_are_valid() -> None:
    """Without any field they are complete, and have no user."""
    assert MessageMetadata().model_dump(exclude_none=True) == {"status": "complete", "critical": False}
