"""A cache of replies as a middleware, over a cassette: the second session plays nothing."""

import httpx

from dragoman.bundled import bundled_path
from dragoman.cli import demo
from dragoman.cli.demo import replay_settings
from dragoman.session import Session
from dragoman.testing import Cassette, CassetteTransport
from tests.unit.session.middleware.reply_cache import ReplyCache

MODEL = f"openai-chat:{demo.RECORDED_MODEL}"
QUESTION = "What is the capital of France?"


def test_a_cached_reply_is_the_recorded_one() -> None:
    """Both sessions have the same answer and the same cost; one exchange is played."""
    cassette = Cassette.load(bundled_path("cassettes") / "llama-server" / "answers" / "openai-chat-plain.yaml")
    cache = ReplyCache()
    with httpx.Client(transport=CassetteTransport(cassette)) as client:
        providers = {"openai-chat": replay_settings("openai-chat", client)}
        replies = [
            Session(MODEL, providers=providers, middleware=[cache]).ask(QUESTION, max_output_tokens=32)
            for _ in range(2)
        ]
    first, second = replies
    assert cassette.unplayed == 0
    assert "Paris" in first.text
    assert second.message == first.message
    assert second.response is None
    assert first.response is not None
    assert first.cost == second.cost
