"""The scripted provider: its replies, the requests that it records, its failures; and its adapter is like any other."""

import asyncio
import json

import pytest

from dragoman import AdapterCapabilities, AsyncSession, Client, Message, Session, tool
from dragoman.adapter.errors import (
    ConfigurationError,
    OverloadedError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.adapter.facts.capabilities import ABSENT
from dragoman.canonical.events import MessageComplete, TextDelta, ToolUseInputDelta
from dragoman.canonical.message import MessageStatus, StopReason
from dragoman.testing import ScriptedProvider, ScriptError, block_network, scripted_reply
from dragoman.testing.conformance import LAWS, Effort, Mark, conform
from dragoman.testing.doubles.scripted_adapter import ScriptedAdapter
from dragoman.testing.doubles.scripted_wire import WIRE
from dragoman.testing.stream_laws import Effort as StreamEffort


@tool(side_effects="none")
def add(a: int, b: int) -> str:
    """Adds."""
    return str(a + b)


def test_a_session_plays_the_script() -> None:
    """Text, a call, its answer: a whole turn with tools, without any network."""
    with (
        ScriptedProvider(scripted_reply(calls={"add": {"a": 17, "b": 25}}), "It is 42.") as provider,
        block_network(allow=()),
    ):
        reply = Session(provider.model, tools=[add]).ask("What is 17 and 25?")
    assert (reply.text, reply.stop_reason) == ("It is 42.", StopReason.END_TURN)
    first, second = provider.requests
    assert (first.text, [each.name for each in first.tools]) == ("What is 17 and 25?", ["add"])
    assert second.tool_results == ["42"] == [second.text]


def test_a_stream_comes_in_pieces() -> None:
    """Word by word, or in the given pieces; the input of a call in two."""
    with ScriptedProvider(
        "It is about 7 metres.", scripted_reply("It", " is"), scripted_reply(calls={"add": {"a": 1, "b": 2}}), "3"
    ) as it:
        session = Session(it.model, tools=[add])
        texts = [event.text for event in session.stream("How far?") if isinstance(event, TextDelta)]
        assert texts == ["It", " is", " about", " 7", " metres."]
        assert [event.text for event in session.stream("So?") if isinstance(event, TextDelta)] == ["It", " is"]
        pieces = [event.partial_json for event in session.stream("And?") if isinstance(event, ToolUseInputDelta)]
    assert len(pieces) == 2
    assert json.loads("".join(pieces)) == {"a": 1, "b": 2}


def test_a_reply_reports_its_usage_without_a_cost() -> None:
    """Counts are those of the script; there is no price."""
    with ScriptedProvider(
        scripted_reply("Hi", thinking="Hm.", input_tokens=3, cached_tokens=4, output_tokens=2, truncated=True)
    ) as it:
        reply = Session(it.model).ask("Hi")
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.cached_input_tokens, reply.usage.output_tokens) == (3, 4, 2)
    assert (reply.cost.usd, reply.message.thinking, reply.stop_reason) == (None, "Hm.", StopReason.MAX_TOKENS)


def test_a_line_can_be_made_from_the_request() -> None:
    """A function returns the reply."""
    with ScriptedProvider(lambda request: f"{request.text}, indeed, at {request.options.temperature}") as provider:
        assert Session(provider.model).ask("Rain", temperature=0.5).text == "Rain, indeed, at 0.5"


def test_errors_are_raised_as_they_are() -> None:
    """A failed request leaves the history as it was."""
    with ScriptedProvider(OverloadedError("busy"), "Now.") as provider:
        session = Session(provider.model)
        with pytest.raises(OverloadedError, match="scripted: busy") as caught:
            session.ask("Hello")
        assert len(caught.value.attempts) == 1
        assert session.messages == ()
        assert session.ask("Hello").text == "Now."


@pytest.mark.parametrize("error", [ServerError("gone"), ConnectionResetError("reset")])
def test_a_stream_breaks_after_its_text(error: Exception) -> None:
    """What had arrived is in the error, and is not a success."""
    with ScriptedProvider(scripted_reply("It", " is", error=error)) as provider:
        session = Session(provider.model)
        with pytest.raises(Exception, match=r"gone|reset") as caught:
            list(session.stream("How far?"))
    partial = getattr(caught.value, "partial", None)
    assert isinstance(partial, Message)
    assert (partial.text, partial.metadata.status) == ("It is", MessageStatus.ERROR)
    assert not isinstance(caught.value, StreamTruncatedError)


def test_a_whole_reply_that_breaks_fails() -> None:
    """There is no partial one."""
    with ScriptedProvider(scripted_reply("It is", error=ServerError("gone"))) as provider, pytest.raises(ServerError):
        Session(provider.model).ask("How far?")


def test_a_delay_over_the_time_limit_is_a_timeout() -> None:
    with ScriptedProvider(scripted_reply("Late.", delay=3600.0)) as provider:
        session = Session(provider.model, providers={"scripted": {"timeout": 5.0}})
        with pytest.raises(RequestTimeoutError, match="no reply in 5 s"):
            session.ask("Hello")


def test_two_scripts_play_in_one_session() -> None:
    """After a swap, the second one receives what the first one replied."""
    with ScriptedProvider("One.", name="first") as first, ScriptedProvider("Two.", name="second") as second:
        session = Session(first.model)
        session.ask("Who?")
        session.swap(second.model)
        session.ask("And now?")
    assert [message.text for message in second.requests[0].messages] == ["Who?", "One.", "And now?"]


def test_limited_models_lose_what_they_lack() -> None:
    """Capabilities are configurable."""
    plain = AdapterCapabilities(supports_system_prompt=ABSENT)
    with ScriptedProvider("Two.", capabilities=plain) as provider:
        session = Session(provider.model, system="Be brief.")
        losses = session.preview(provider.model).losses
        session.ask("Hello")
    assert [loss.kind for loss in losses] == ["role"]
    assert "Be brief." in provider.requests[0].messages[0].text
    assert provider.requests[0].messages[0].role == "user"


def test_a_script_is_enforced() -> None:
    """One request too many, an unexpected one, and unused lines are errors."""
    with ScriptedProvider("Hello.") as provider:
        session = Session(provider.model)
        session.ask("Hello")
        with pytest.raises(ScriptError, match="has 1 lines, but one more request came: 'And'"):
            session.ask("And")
    with (
        ScriptedProvider(scripted_reply("Hello.", expects="rain")) as provider,
        pytest.raises(ScriptError, match="'rain' was expected"),
    ):
        Session(provider.model).ask("Snow?")
    with pytest.raises(ScriptError, match="1 of 2 lines"), ScriptedProvider("One.", "Two.") as provider:
        Session(provider.model).ask("Hello")
    with ScriptedProvider(lambda _: 7) as provider, pytest.raises(ScriptError, match="7: return a text"):  # type: ignore[arg-type, return-value]
        Session(provider.model).ask("Hello")


def test_invalid_scripts_are_refused() -> None:
    """An invalid line, the name of an installed provider, and settings."""
    with pytest.raises(ConfigurationError, match="7 is not a line"):
        ScriptedProvider(7)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="installed"):
        ScriptedProvider("Hi", name="anthropic")
    with pytest.raises(ConfigurationError, match="no settings: api_key"):
        Session(ScriptedProvider("Hi").model, providers={"scripted": {"api_key": "k"}}).ask("Hello")


def test_settings_for_a_scripted_provider_are_refused() -> None:
    provider = ScriptedProvider("Hi.")
    client = Client(providers={"scripted": {"max_retries": 0}})
    with client.session(provider.model) as session, pytest.raises(ConfigurationError, match="takes no settings: retry"):
        session.ask("Hi")


def test_async_sessions_play_a_script_as_well() -> None:
    """Whole and streamed, with delays and a break."""

    async def play() -> list[str]:
        with ScriptedProvider(
            "One.", scripted_reply("Two", " words", chunk_delay=0.001), scripted_reply("x", error=ServerError("gone"))
        ) as it:
            async with AsyncSession(it.model) as session:
                texts = [(await session.ask("Hello")).text]
                texts += [
                    event.message.text async for event in session.stream("More") if isinstance(event, MessageComplete)
                ]
                with pytest.raises(ServerError, match="gone"):
                    async for _ in session.stream("More"):
                        pass
                return texts

    assert asyncio.run(play()) == ["One.", "Two words"]


def test_its_adapter_passes_the_kit() -> None:
    """All laws except that of the entry point: a test registers it."""
    effort = Effort(6, 3, StreamEffort(replays=0, mutations=20, stride=11, cuts=11), processes=0)
    laws = [law for law in LAWS if law.name != "is found by its name"]
    card = conform(ScriptedAdapter("actor"), WIRE, effort, laws)
    assert card.passed, [fault for result in card.results for fault in result.verdict.faults]
    assert card.count(Mark.HOLDS) > 60
