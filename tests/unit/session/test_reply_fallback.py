"""A fallback that the reply decides: a refusal, an empty or a wrong answer sends the turn to the next model."""

import httpx
import pytest

from dragoman import Message
from dragoman.adapter.errors import ConfigurationError
from dragoman.routing import Router
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, texts, types
from tests.unit.session.handwritten_replies import handwritten_anthropic, handwritten_ollama
from tests.unit.session.test_routes import QWEN, STREAMED, record, router, wires

REFUSED = handwritten_anthropic("I can't help with that.", stop="refusal")


def short(reply: Message) -> bool:
    return len(reply.text) < 5


@STREAMED
@pytest.mark.parametrize(
    ("bad", "test", "fault"),
    [
        (REFUSED, "refusal", "reply_refusal"),
        (handwritten_anthropic(" "), "empty", "reply_empty"),
        (handwritten_anthropic("Once upon", stop="max_tokens"), "truncated", "reply_truncated"),
        (handwritten_anthropic("No."), short, "reply_short"),
    ],
    ids=["refusal", "empty", "truncated", "function"],
)
def test_the_next_model_answers_and_both_replies_are_paid(
    driver: Driver, streamed: bool, bad: object, test: object, fault: str
) -> None:
    """The caller sees nothing of the first reply, the history has one answer, and the cost has both."""
    session = driver.session(wires([bad]), router=router(global_default="house", fall_back_on=[test]))
    if streamed:
        seen = driver.stream(session, "Who?")
        assert types(seen) == ["message_start", "text_delta", "usage_update", "message_complete"]
        assert "".join(getattr(event, "text", "") for event in seen) == "Qwen says so."
    else:
        driver.ask(session, "Who?")
    assert texts(session) == [("user", "Who?"), ("assistant", "Qwen says so.")]
    assert record(session) == (OLLAMA, "default", f"the global default; passed over: {ANTHROPIC} ({fault})")
    assert (session.cost.by_model.keys(), session.cost.replies) == ({ANTHROPIC, OLLAMA}, 2)


@STREAMED
def test_a_good_reply_stands(driver: Driver, streamed: bool) -> None:
    """All its events arrive, and no other model is asked."""
    provider = wires()
    session = driver.session(provider, router=router(global_default="house", fall_back_on=["refusal", "empty", short]))
    if streamed:
        text = "".join(getattr(event, "text", "") for event in driver.stream(session, "Who?"))
        assert text == "Opus says so."
    else:
        driver.ask(session, "Who?")
    assert texts(session)[-1] == ("assistant", "Opus says so.")
    assert provider["ollama"].requests == []


@STREAMED
def test_the_last_model_answers_whatever_it_says(driver: Driver, streamed: bool) -> None:
    """A fault is not an error: without another candidate the reply stands."""
    session = driver.session(wires([REFUSED]), router=router(fall_back_on=["refusal"]))
    (driver.stream if streamed else driver.ask)(session, "Who?")
    assert texts(session)[-1] == ("assistant", "I can't help with that.")


def test_a_failing_fallback_follows_a_refusal(driver: Driver) -> None:
    """Each candidate is asked once."""
    broken = [httpx.Response(500, json={"error": "no"}) for _ in range(30)]
    provider = wires([REFUSED], broken)
    session = driver.session(provider, router=router(global_default="house", fall_back_on=["refusal"]))
    with pytest.raises(Exception, match="no") as caught:
        driver.ask(session, "Who?")
    assert f"{ANTHROPIC}: reply_refusal" in "\n".join(caught.value.__notes__)


def test_an_answer_of_another_type_goes_to_the_next_model(driver: Driver) -> None:
    """No retry of the first model is used."""
    provider = wires([handwritten_anthropic("many")], [handwritten_ollama('{"answer": 3}'), QWEN])
    session = driver.session(provider, router=router(global_default="house", fall_back_on=["invalid"]))
    reply = driver.ask(session, "How many?", output=dict[str, int])
    assert reply.output == {"answer": 3}
    assert len(provider["anthropic"].requests) == 1


def test_a_file_holds_the_words() -> None:
    """Functions are the program's own; another word is refused."""
    kept = Router(fall_back_on=["refusal", short]).configuration
    assert kept == {"fall_back_on": ["refusal"]}
    assert Router.from_configuration(kept).configuration == kept
    assert Router.from_toml('fall_back_on = ["empty"]').configuration == {"fall_back_on": ["empty"]}
    with pytest.raises(ConfigurationError, match="refusal, empty, truncated, invalid"):
        Router(fall_back_on=["boring"])  # type: ignore[list-item]
