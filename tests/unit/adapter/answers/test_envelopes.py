"""State of a provider travels through clients: it comes back whole, or it is a loss and reaches no provider."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import get_adapter
from dragoman.adapter.answers import provider_state
from dragoman.adapter.answers.state_keys import StateKeys, StateMemory
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import Citation, ProviderBlock, TextBlock, ThinkingBlock
from tests.sampling import examples
from tests.unit.adapter.answers.echoes import KEYS, REDACTED, SIGNATURE, context, echo, model_behind, read, reply

SEALING_WIRES = ("anthropic", "openai", "google")
STORING_WIRES = ("openai-chat", "ollama")


@pytest.mark.parametrize("wire", SEALING_WIRES)
def test_state_comes_back_to_its_provider(wire: str) -> None:
    """The client sees neither the signature nor the sealed thinking; the provider gets both, and its own ids."""
    sent = echo(wire, context(wire))
    assert SIGNATURE not in json.dumps(sent.body)
    assert REDACTED not in json.dumps(sent.body)
    fresh = context(wire)
    messages, body = read(sent, fresh)
    assert messages[1].content == reply(wire).content
    assert messages[1].metadata.model == model_behind(wire)
    assert messages[1].metadata.provider == model_behind(wire).partition(":")[0]
    assert SIGNATURE in body
    assert REDACTED in body
    assert "toolu_native0" in body
    assert fresh.losses == []


@pytest.mark.parametrize("wire", STORING_WIRES)
def test_a_store_keeps_the_state_for_wires_without_a_field(wire: str) -> None:
    """By the id of the call, or by what the reply says if the client returns no ids."""
    store = StateMemory()
    sent = echo(wire, context(wire, store=store))
    messages, body = read(sent, context(wire, store=store))
    assert [block.type for block in messages[1].content] == [block.type for block in reply(wire).content]
    assert SIGNATURE in body
    assert REDACTED in body


@pytest.mark.parametrize("wire", STORING_WIRES)
def test_without_a_store_the_state_is_a_loss(wire: str) -> None:
    first = context(wire)
    sent = echo(wire, first)
    assert [loss.block_type for loss in first.losses if loss.kind is LossKind.STATE] == [
        "thinking",
        "redacted_thinking",
    ]
    _, body = read(sent, context(wire))
    assert SIGNATURE not in body


@pytest.mark.parametrize("wire", SEALING_WIRES)
def test_without_a_key_the_state_is_a_loss(wire: str) -> None:
    """The client still gets the thinking itself."""
    first = context(wire, keys=None)
    sent = echo(wire, first)
    assert [loss.block_type for loss in first.losses if loss.kind is LossKind.STATE] == [
        "thinking",
        "redacted_thinking",
    ]
    assert "Let me think." in json.dumps(sent.body)
    assert sent.envelopes == []


@pytest.mark.parametrize("wire", SEALING_WIRES)
@pytest.mark.parametrize("other", ["team", "key", "version"])
def test_state_opens_in_its_own_place_only(wire: str, other: str) -> None:
    """State opens in its own place only, not for another team, with another key, and not of another version."""
    second, sent = context(wire), echo(wire, context(wire))
    match other:
        case "team":
            second = context(wire, team="blue")
        case "key":
            second = context(wire, keys=StateKeys({"a": bytes(64)}))
        case _:
            for place, field in sent.envelopes:
                sealed = provider_state.from_text(place[field])
                place[field] = provider_state.to_text(b"\x09" + sealed[1:])
    _, body = read(sent, second)
    assert {loss.kind for loss in second.losses} == {LossKind.STATE}
    assert len(second.losses) == len(sent.envelopes)
    assert SIGNATURE not in body
    assert provider_state.MARK not in body


@pytest.mark.parametrize("wire", SEALING_WIRES)
def test_an_envelope_counts_once(wire: str) -> None:
    """The same envelope for a second block is a loss."""
    sent = echo(wire, context(wire))
    (one, field), (other, other_field) = sent.envelopes[:2]
    other[other_field] = one[field]
    second = context(wire)
    messages, body = read(sent, second)
    assert LossKind.STATE in {loss.kind for loss in second.losses}
    assert REDACTED not in body
    assert body.count(SIGNATURE) <= 1
    assert provider_state.MARK not in body
    assert messages[1].text == "I add."


@pytest.mark.parametrize("wire", SEALING_WIRES)
def test_a_signature_needs_its_own_thinking(wire: str) -> None:
    """If the client changed the text, the signature is void: nobody gets it."""
    sent = echo(wire, context(wire))
    sent.body = json.loads(json.dumps(sent.body).replace("Let me think.", "Let me sing."))
    second = context(wire)
    _, body = read(sent, second)
    assert SIGNATURE not in body
    assert "another one" in second.losses[0].reason


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_a_note_needs_its_block_as_it_was(wire: str) -> None:
    """Google signs texts and calls: if the client changed one, the note with its signature is void."""
    message = reply(wire)
    metadata = message.metadata.model_copy(
        update={
            "provider": "google",
            "model": "google:gemini-3-pro-preview",
            "provider_raw": {"by": "google", "blocks": {"0": {"set": {"thoughtSignature": "U0lHTkVE"}}}},
        }
    )
    call = message.tool_uses[0]
    message = message.model_copy(update={"content": (TextBlock(text="I add."), call)})
    message = message.model_copy(update={"metadata": metadata})
    for change, kept in (("", True), ("I subtract.", False)):
        sent = echo(wire, context(wire), message)
        assert "U0lHTkVE" not in json.dumps(sent.body)
        if change:
            sent.body = json.loads(json.dumps(sent.body).replace("I add.", change))
        second = context(wire)
        messages, _, options = get_adapter(f"{wire}:client").from_wire_request(sent.body, second)
        body = get_adapter("google:gemini-3-pro-preview").to_wire(messages, [], options).body.decode()
        assert ("U0lHTkVE" in body) is kept
        assert bool(second.losses) is not kept


@pytest.mark.parametrize("wire", SEALING_WIRES)
def test_a_bare_signature_beside_an_envelope_is_a_loss(wire: str) -> None:
    """The message is its provider's own again, so the provider would take a client's signature for its own."""
    sent = echo(wire, context(wire))
    place, field = sent.envelopes[0]
    place[field] = "Zm9yZ2Vk" * 10
    second = context(wire)
    messages, body = read(sent, second)
    assert "Zm9yZ2Vk" not in body
    assert [loss.kind for loss in second.losses] == [LossKind.STATE]
    assert messages[1].content[0] == ThinkingBlock(text="Let me think.")


@pytest.mark.parametrize("wire", SEALING_WIRES)
def test_sources_come_back_as_their_provider_sent_them(wire: str) -> None:
    """The client has them in the form of its own wire, which means nothing to the provider."""
    data = {"type": "web_search_result_location", "url": "https://a.example", "encrypted_index": "E"}
    source = Citation(kind="web_search_result_location", url="https://a.example", data=data)
    message = reply(wire)
    cited = TextBlock(text="I add.", citations=(source,))
    message = message.model_copy(update={"content": (*message.content[:2], cited, *message.content[3:])})
    messages, _ = read(echo(wire, context(wire), message), context(wire))
    assert messages[1].content == message.content


@pytest.mark.parametrize("wire", SEALING_WIRES)
def test_numbers_may_be_written_in_another_way(wire: str) -> None:
    """A client in JavaScript reads 1.0 and writes 1, and has doubles only."""
    message = reply(wire)
    numbers = {"a": 1.0, "b": 2**63 + 1, "c": -0.0, "d": 1e21, "e": 10**400}
    call = message.tool_uses[0].model_copy(update={"input": numbers})
    message = message.model_copy(update={"content": (*message.content[:3], call)})
    sent = echo(wire, context(wire), message)
    text = json.dumps(sent.body).replace("1.0", "1").replace("9223372036854775809", "9223372036854776000")
    sent.body = json.loads(text.replace('\\"a\\":1.0', '\\"a\\":1'))
    fresh = context(wire)
    read(sent, fresh)
    assert fresh.losses == []


def test_white_space_does_not_matter() -> None:
    """Clients trim texts, change instructions, and move marks for caches."""
    wire = "anthropic"
    sent = echo(wire, context(wire))
    sent.body["system"] = "Another instruction."
    sent.body["messages"][0]["content"] = [
        {"type": "text", "text": "What is 1 + 1? \n", "cache_control": {"type": "ephemeral"}}
    ]
    fresh = context(wire)
    _, body = read(sent, fresh)
    assert fresh.losses == []
    assert SIGNATURE in body


def test_large_state_is_a_loss() -> None:
    """An envelope has a limit, so that a client's requests do not grow without bounds."""
    large = ThinkingBlock(text="t", signature="s" * provider_state.MAX_STATE_BYTES)
    for wire in (*SEALING_WIRES, *STORING_WIRES):
        message = reply(wire)
        message = message.model_copy(update={"content": (large, *message.content[1:])})
        first = context(wire, store=StateMemory())
        echo(wire, first, message)
        assert any("over 262144 bytes" in loss.reason for loss in first.losses), wire


@pytest.mark.parametrize("wire", SEALING_WIRES)
def test_two_replies_in_a_row_stay_two(wire: str) -> None:
    """A turn that paused goes on in a second message of the assistant."""
    adapter = get_adapter(f"{wire}:client")
    sent = echo(wire, context(wire))
    history = next(value for key, value in sent.body.items() if key in ("messages", "input", "contents"))
    results = history[-1] if wire != "openai" else None
    del history[-1]
    second = context(wire)
    adapter.from_wire_request(sent.body, second)
    other = ThinkingBlock(text="Go on.", signature="OTHER" * 20)
    content = (other, TextBlock(text="Then."))
    message = reply(wire).model_copy(update={"id": "01K0000000000000000000000B", "content": content})
    native = json.loads(adapter.to_wire_response(message, second).body)
    match wire:
        case "anthropic":
            history.append({"role": "assistant", "content": native["content"]})
        case "google":
            history.append(native["candidates"][0]["content"])
        case _:
            history += native["output"]
    assert results is None or results["role"] == "user"
    third = context(wire)
    messages, _, _ = adapter.from_wire_request(sent.body, third)
    signed = [block for each in messages for block in each.content if isinstance(block, ThinkingBlock)]
    assert [block.signature for block in signed] == [SIGNATURE, "OTHER" * 20]
    assert third.losses == []


def test_a_native_block_comes_back_in_its_place() -> None:
    """The client does not get it, which is a loss for the client; its provider gets it back."""
    for wire in SEALING_WIRES:
        message = reply(wire)
        data = {"type": "server_tool_use", "id": "srv_1", "name": "x", "input": {}}
        native = ProviderBlock(provider=str(message.metadata.provider), kind="server_tool_use", data=data)
        message = message.model_copy(update={"content": (*message.content[:2], native, *message.content[2:])})
        first = context(wire)
        sent = echo(wire, first, message)
        assert {loss.kind for loss in first.losses} == {LossKind.NATIVE_BLOCK}
        messages, _ = read(sent, context(wire))
        assert [block.type for block in messages[1].content] == [block.type for block in message.content]
        assert messages[1].content[2] == native


def test_a_signature_of_the_wires_own_provider_passes() -> None:
    """A client that talked to Anthropic before has native signatures, and they go back to Anthropic."""
    wire = "anthropic"
    sent = echo(wire, context(wire))
    sent.body["messages"][1]["content"] = [
        {"type": "thinking", "thinking": "hm", "signature": "NATIVE=="},
        {"type": "text", "text": "Two."},
    ]
    sent.body["messages"][2]["content"] = "And 2 + 2?"
    fresh = context(wire)
    messages, _ = read(sent, fresh)
    assert messages[1].content[0] == ThinkingBlock(text="hm", signature="NATIVE==")
    assert fresh.losses == []


@st.composite
def mutations(draw: st.DrawFn) -> list[tuple[str, int, int, str]]:
    """One to three changes of a text: the kind, two places in thousandths, and a character."""
    kinds = st.sampled_from(["flip", "drop", "insert", "head", "tail", "middle", "swap", "double", "other"])
    places = st.integers(0, 999)
    characters = st.sampled_from("AZaz09+/-_=. \n\u00e9")
    return draw(st.lists(st.tuples(kinds, places, places, characters), min_size=1, max_size=3))


def mutate(text: str, other: str, changes: list[tuple[str, int, int, str]]) -> str:
    """Apply changes. A piece keeps 80 characters: a shorter one looks like any other text."""
    for kind, first, second, character in changes:
        size = len(text)
        one, two = sorted((first * size // 1000, second * size // 1000))
        least = min(80, size)
        match kind:
            case "flip":
                text = text[:one] + character + text[one + 1 :]
            case "drop":
                text = text[:one] + text[one + 1 :]
            case "insert":
                text = text[:one] + character + text[one:]
            case "head":
                text = text[: max(one, least)]
            case "tail":
                text = text[min(one, size - least) :]
            case "middle":
                text = text[one : max(two, one + least)] if one + least <= size else text
            case "swap":
                text = text[:one] + text[two:] + text[one:two]
            case "double":
                text = text[:two] + text[one:]
            case _:
                text = text[:one] + other[one:]
    return text


_SENT = {wire: echo(wire, context(wire)) for wire in SEALING_WIRES}
_OTHER = {wire: echo(wire, context(wire), question="What is 6 * 7?") for wire in SEALING_WIRES}


@pytest.mark.parametrize("wire", SEALING_WIRES)
@examples(1_500, sampled=60)
@given(changes=mutations(), which=st.integers(0, 2))
def test_a_changed_envelope_reaches_no_provider(
    wire: str, changes: list[tuple[str, int, int, str]], which: int
) -> None:
    """Whatever is done to an envelope, it opens as it was, or no part of it is sent.

    It is a loss in reading as long as one mark is left; otherwise it is state of the wire's own provider, which the
    provider behind is not, and a loss in writing the request.
    """
    sent, other = copy.deepcopy(_SENT[wire]), _OTHER[wire]
    place, field = sent.envelopes[which]
    source, source_field = other.envelopes[which]
    before = place[field]
    place[field] = after = mutate(before, source[source_field], changes)
    second = context(wire)
    messages, body = read(sent, second)
    if _same(before, after):
        assert messages[1].content == reply(wire).content
        return
    if provider_state.is_envelope(after):
        assert LossKind.STATE in {loss.kind for loss in second.losses}
    assert provider_state.MARK not in body
    assert len(after) < 8 or after not in body
    assert any(isinstance(block, TextBlock) for block in messages[1].content)
    assert KEYS is second.state_sealer


def _same(before: str, after: str) -> bool:
    try:
        return provider_state.from_text(before) == provider_state.from_text(after)
    except ValueError:
        return False
