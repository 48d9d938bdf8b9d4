"""A program can ask for what the official SDKs can, and a claim that is not true fails."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from anthropic import AnthropicVertex

from dragoman import Message
from dragoman.adapter.wire import WireRequest
from dragoman.blocks import ProviderBlock
from tests.conformance.coverage.__main__ import main
from tests.conformance.coverage.evidence import NotSentError, Table, compare
from tests.conformance.coverage.loopback import Loopback, loopback
from tests.conformance.coverage.page import read_rows
from tests.conformance.coverage.replies import reads_event, reads_stop_reason, unknown_names, unread
from tests.conformance.coverage.sdks import SDKS
from tests.conformance.coverage.typed import encode

_FAST = ("ollama",)
"""Those of every run."""
_INSTALLED = ("anthropic", "openai", "openai-chat", "google", "google-interactions", "bedrock", "ollama")

BARE = replace(SDKS["anthropic"], parts=list, tools=list, typed=lambda: ())


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running


@pytest.fixture(scope="module")
def ollama(server: Loopback) -> Table:
    return compare(SDKS["ollama"], server)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "provider",
    [pytest.param(each, marks=[] if each in _FAST else [pytest.mark.exhaustive]) for each in _INSTALLED],
)
def test_what_an_sdk_sends_can_be_sent(provider: str, server: Loopback) -> None:
    """Each value at its place, and each event and stop reason is known. The page has the counts of this version."""
    sdk = SDKS[provider]
    table = compare(sdk, server)
    assert table.names("absent") | unread(sdk) == set()
    assert table.count("typed") > 15
    row = read_rows()[provider]
    if row.sdk == f"{sdk.package} {sdk.version}":
        assert (row.typed, row.extra) == (table.count("typed"), table.count("extra"))


def test_a_made_up_name_fails(ollama: Table) -> None:
    """The SDK sends nothing of it. A name at another place is another name."""
    assert ollama.way("parameter", "options.num_ctx") == "typed"
    for made_up in ("options.flux_capacitor", "num_ctx", "flux_capacitor"):
        with pytest.raises(NotSentError, match="sends no parameter"):
            ollama.way("parameter", made_up)


def test_a_made_up_parameter_is_refused_by_the_sdk(server: Loopback) -> None:
    """Its name cannot become a row."""
    sdk = replace(BARE, parameters=lambda: {"flux_capacitor": ["on"]})
    assert not any(compare(sdk, server).rows.values())


def test_a_misplaced_field_fails(server: Loopback) -> None:
    """A value that is sent, but elsewhere, is absent."""

    def misplace(*arguments: Any) -> WireRequest | None:
        wire = encode(*arguments)
        if wire is None:
            return None
        body = json.loads(wire.body)
        body |= body.pop("options", {})
        return replace(wire, body=json.dumps(body).encode())

    table = compare(replace(SDKS["ollama"], typed=lambda: ()), server, misplace)
    assert table.way("parameter", "options.mirostat") == "absent"
    assert table.way("parameter", "keep_alive") == "extra"


def test_a_header_is_a_header(server: Loopback) -> None:
    """`user_profile_id` of Anthropic's SDK is not a field of the body."""
    table = compare(replace(BARE, parameters=lambda: {"user_profile_id": ["sample"]}), server)
    assert table.way("header", "anthropic-user-profile-id") == "extra"
    with pytest.raises(NotSentError):
        table.way("parameter", "user_profile_id")


def test_a_renamed_event_fails() -> None:
    """So does a stop reason, a part, and on a wire without names of events a field of a chunk."""
    assert reads_event("anthropic", "content_block_delta")
    assert not reads_event("anthropic", "content_block_change")
    assert reads_stop_reason("anthropic", "pause_turn")
    assert not reads_stop_reason("anthropic", "rest_turn")
    for provider, known, renamed in (
        ("openai-chat", "choices[].delta.content", "choices[].delta.kontent"),
        ("google", "candidates[].content.parts[].text", "candidates[].content.parts[].txt"),
        ("ollama", "message.thinking", "message.thinkin"),
    ):
        assert reads_event(provider, known)
        assert not reads_event(provider, renamed)
    assert unknown_names("bedrock", {"text": "Hi"}) == []
    assert unknown_names("bedrock", {"thought": {}}) == ["part thought"]
    sdk = replace(
        SDKS["anthropic"], reply_parts=list, events=lambda: ("message_begin",), stop_reasons=lambda: ("end_turn",)
    )
    assert unread(sdk) == {"event message_begin"}


def moved() -> dict[str, list[Any]]:
    raise AttributeError("the SDK has no such module")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"package": "an-sdk-of-nobody"}, "ollama: an-sdk-of-nobody is not installed"),
        ({"parameters": moved}, "cannot be compared: AttributeError('the SDK has no such module')"),
    ],
)
def test_the_check_fails_if_an_sdk_cannot_be_compared(
    change: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scheduled report would otherwise be silent about it."""
    monkeypatch.setitem(SDKS, "ollama", replace(SDKS["ollama"], **change))
    assert main(["ollama"], check=True) == 1
    assert problem in capsys.readouterr().out


def test_a_native_document_of_converse_is_sent_again() -> None:
    """Its search for a canonical document ended in StopIteration."""
    native = {"document": {"format": "pdf", "name": "a", "source": {"bytes": "aGk="}}}
    wire = encode("bedrock", [Message.user([ProviderBlock(provider="bedrock", kind="document", data=native)])])
    assert wire is not None
    assert native in json.loads(wire.body)["messages"][0]["content"]


@pytest.mark.exhaustive
def test_a_vertex_body_has_the_version_of_the_sdk(server: Loopback) -> None:
    """With sampling parameters, which that version does not take, it is the older one."""
    body = {"max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    client = AnthropicVertex(region="global", project_id="p", access_token="token", base_url=server.url)
    with client, suppress(Exception):
        client.messages.create(model="claude-opus-5-5", **body)  # type: ignore[call-overload]
    theirs = server.sent[-1].body["anthropic_version"]
    ours = encode("anthropic-vertex", [Message.user("Hi")], [], {}, "claude-opus-5-5")
    sampled = encode("anthropic-vertex", [Message.user("Hi")], [], {"temperature": 0.5}, "claude-sonnet-4-5")
    assert ours is not None
    assert sampled is not None
    assert json.loads(ours.body)["anthropic_version"] == theirs == "2026-10-21"
    assert json.loads(sampled.body)["anthropic_version"] == "vertex-2023-10-16"
