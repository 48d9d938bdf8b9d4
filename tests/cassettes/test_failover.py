"""A model that fails in a cassette falls back to the next one, and the reply says so."""

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from dragoman.adapter.errors import OverloadedError
from dragoman.bundled import bundled_path
from dragoman.cli import demo
from dragoman.cli.demo import replay_settings
from dragoman.events import Event, EventBus
from dragoman.routing import Router
from dragoman.session import Session
from dragoman.testing import Cassette, CassetteTransport
from dragoman.transport import RetryPolicy

FAILS = f"anthropic:{demo.RECORDED_MODEL}"
ANSWERS = f"openai-chat:{demo.RECORDED_MODEL}"
QUESTION = "What is the capital of France?"


@pytest.fixture
def cassettes() -> dict[str, Cassette]:
    """The failure is written by hand; the answer is a real server's."""
    return {
        "anthropic": Cassette.load(Path(__file__).with_name("handwritten_overloaded.yaml")),
        "openai-chat": Cassette.load(bundled_path("cassettes") / "llama-server" / "answers" / "openai-chat-plain.yaml"),
    }


def session(
    stack: ExitStack, cassettes: dict[str, Cassette], router: Router, events: EventBus | None = None
) -> Session:
    providers = {}
    for provider, cassette in cassettes.items():
        client = stack.enter_context(httpx.Client(transport=CassetteTransport(cassette)))
        providers[provider] = {**replay_settings(provider, client), "retry": RetryPolicy(max_retries=0)}
    return stack.enter_context(Session(FAILS, providers=providers, router=router, events=events))


def test_the_next_model_answers_and_names_the_failed_one(cassettes: dict[str, Cassette]) -> None:
    """The request goes to both, each on its own wire; the history holds one answer, and the events both calls."""
    seen: list[Event] = []
    with ExitStack() as stack:
        bus = stack.enter_context(EventBus(strict=True))
        bus.subscribe(seen.append)
        chat = session(stack, cassettes, Router(global_default=ANSWERS), bus)
        reply = chat.ask(QUESTION, max_output_tokens=32)
        assert bus.flush(60)
    assert "Paris" in reply.text
    assert [cassette.unplayed for cassette in cassettes.values()] == [0, 0]
    routing = reply.message.metadata.routing
    assert routing is not None
    assert routing.chosen_model == ANSWERS
    assert routing.reason == f"the global default; passed over: {FAILS} (rate_limit)"
    assert [message.text for message in chat.messages] == [QUESTION, reply.text]
    assert [event.type for event in seen].count("route.decided") == 2
    assert [event.type for event in seen][-1] == "turn.completed"


def test_without_another_candidate_the_failure_is_raised(cassettes: dict[str, Cassette]) -> None:
    """No unrequested model answers."""
    with ExitStack() as stack:
        chat = session(stack, cassettes, Router())
        with pytest.raises(OverloadedError):
            chat.ask(QUESTION, max_output_tokens=32)
        assert chat.messages == ()
    assert cassettes["openai-chat"].unplayed == 1
