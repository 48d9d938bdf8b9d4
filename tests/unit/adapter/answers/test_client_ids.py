"""Ids for clients hold the canonical ids that they were made from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.answers.client_ids import ClientToolIds, client_message_id, client_tool_id, read_tool_id
from dragoman.canonical.ids import format_ulid

ULIDS = st.integers(min_value=0, max_value=(1 << 127) - 1).map(format_ulid)


@given(ULIDS, st.sampled_from(["toolu_", "call_"]))
def test_the_id_of_a_call_is_read_back(ulid: str, prefix: str) -> None:
    """Any process finds the canonical id again, and the id is at most 40 plain characters long."""
    made = client_tool_id(prefix, f"tu_{ulid}")
    assert read_tool_id(made) == f"tu_{ulid}"
    assert len(made) <= 40
    assert made.replace("_", "").isalnum()


@given(st.text(max_size=50), st.text(max_size=50))
def test_other_ids_stay_distinct(one: str, other: str) -> None:
    """An id of any form gives a legal one, and two of them give two."""
    made = client_tool_id("call_", one)
    assert made.replace("_", "").isalnum()
    assert (made == client_tool_id("call_", other)) is (one == other)


@pytest.mark.parametrize("invented", ["call_abc", "toolu_1", "f.x:0", "x" * 200, "", "toolu_01ILOU0000000000000000000"])
def test_an_invented_id_is_accepted(invented: str) -> None:
    """It gets a canonical id that is the same in every process."""
    one, other = ClientToolIds(), ClientToolIds()
    assert one.receive_history("anthropic", invented) == other.receive_history("anthropic", invented)
    assert read_tool_id(invented) is None


def test_an_id_that_occurs_again_is_another_call() -> None:
    """Some clients number the calls of each turn from 0, and some send no ids."""
    ids = ClientToolIds()
    made = client_tool_id("call_", "tu_" + format_ulid(7))
    got = [ids.receive_history("openai-chat", native) for native in (made, made, "call_0", "call_0", None, None)]
    assert got[0] == "tu_" + format_ulid(7)
    assert len(set(got)) == 6
    assert ids.find("openai-chat", "call_0") == got[3]


def test_a_longer_history_begins_with_the_same_ids() -> None:
    """So the prefix of the request to the provider behind stays the same."""
    natives = ["call_0", "call_1", None, "call_0"]
    one, other = ClientToolIds(), ClientToolIds()
    short = [one.receive_history("ollama", native) for native in natives[:3]]
    assert [other.receive_history("ollama", native) for native in natives][:3] == short


def test_the_ids_of_messages_and_parts_are_plain() -> None:
    """A message's own id stands in them if it is plain."""
    assert client_message_id("msg_", "01ABC") == "msg_01ABC"
    assert client_message_id("rs_", "01ABC", 2) == "rs_01ABC0002"
    assert client_message_id("msg_", "a b/c").removeprefix("msg_").isalnum()
