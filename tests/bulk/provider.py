"""A provider of the Messages wire without a network, written by hand. The test decides what it answers."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx

from dragoman.transport import RetryPolicy

HAIKU = "anthropic:claude-haiku-4-5"
SONNET = "anthropic:claude-sonnet-4-6"
Answer = Callable[[str, int], "httpx.Response | str | None"]
"""From a prompt and how often it was sent by now: a text, a whole response, or None for a broken connection."""


class Provider:
    """``prompt_counts`` counts requests by model and prompt; ``max_in_flight`` is the most at once."""

    def __init__(self, answer: Answer = lambda prompt, times: f"re: {prompt}") -> None:
        self.prompt_counts: Counter[tuple[str, str]] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.in_flight = self.max_in_flight = 0
        self._answer = answer

    @property
    def requests(self) -> int:
        return self.prompt_counts.total()

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of one run: its client."""
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._handle), trust_env=False)
        retry = RetryPolicy(max_retries=2, initial_wait=0.001, max_wait=0.002)
        return {"anthropic": {"client": client, "api_key": "none", "base_url": "http://unreal.invalid", "retry": retry}}

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        content = body["messages"][0]["content"]  # a request to answer again follows the prompt of the row
        prompt = content if isinstance(content, str) else "".join(part["text"] for part in content)
        self.prompt_counts[body["model"], prompt] += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        answer = self._answer(prompt, self.prompt_counts[body["model"], prompt])
        if answer is None:
            raise httpx.ReadError("the connection broke", request=request)
        return answer if isinstance(answer, httpx.Response) else reply(answer, body["model"])


def reply(
    text: str, model: str = "claude-haiku-4-5", headers: dict[str, str] | None = None, *, tokens_in: int = 1000
) -> httpx.Response:
    body = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model,
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": tokens_in, "output_tokens": 100},
    }  # fmt: skip
    return httpx.Response(200, json=body, headers=headers)


def error_reply(status: int, kind: str, headers: dict[str, str] | None = None) -> httpx.Response:
    body = {"type": "error", "error": {"type": kind, "message": f"a {kind}"}}
    return httpx.Response(status, json=body, headers=headers)


def number(prompt: str) -> int:
    match = re.search(r"\d+", prompt)
    assert match is not None
    return int(match[0])
