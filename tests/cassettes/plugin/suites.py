"""Suites of tests for the pytest plugin, with recordings of their own, and how they are run."""

import pytest

from dragoman.testing import plugin_cassettes
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.file import dump_exchanges
from tests.cassettes.plugin.loading import LOADING

# An in-process run forgets the modules that it imported, and the next one would have two of each.
assert plugin_cassettes

HEAD = """
import asyncio
import httpx
import pytest

URL = "https://api.anthropic.com/v1/messages"

def body(text):
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}

def ask(text):
    with httpx.Client() as client:
        return client.post(URL, json=body(text)).json()["content"][0]["text"]
"""


def exchange(question: str, answer: str) -> Exchange:
    sent = f'{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"{question}"}}]}}'
    reply = (
        '{"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":'
        f'[{{"type":"text","text":"{answer}"}}],"usage":{{"input_tokens":1,"output_tokens":1}}}}'
    )
    headers = {"content-type": "application/json"}
    return Exchange(
        RecordedRequest("POST", "/v1/messages", sent.encode()), RecordedResponse(200, reply.encode(), headers)
    )


def suite(pytester: pytest.Pytester, code: str, **cassettes: list[Exchange]) -> None:
    """A module `test_it.py` with recordings in its own folder."""
    pytester.makepyfile(test_it=HEAD + code)
    for name, exchanges in cassettes.items():
        path = pytester.path / "cassettes" / "test_it" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dump_exchanges(exchanges, server="by hand"), encoding="utf-8")


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *LOADING, *options)
