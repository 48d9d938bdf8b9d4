"""The ready policies on a recorded session: three wires, a tool call on each."""

import io
import sys
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.bundled import bundled_path
from dragoman.cli import demo
from dragoman.cli.demo import replay_settings
from dragoman.policy import Pipeline, PolicyDeniedError
from dragoman.policy.plugins.presets import PRESETS, build_preset, preset_texts
from dragoman.session import Session, Tool
from dragoman.testing import Cassette, CassetteMissError, CassetteTransport

TOOLS = {"read_file": "read", "add": "none"}
GRANTING: dict[str, dict[str, Any]] = {
    "personal-data": {},
    "secrets": {},
    "tool-confirmation": {"tools": TOOLS},
    "url-allow-list": {"patterns": ["tool://_/*"]},
    "untrusted-data": {},
}
"""Settings with which the recorded session is allowed."""
EXTRAS = {"redaction": ("datafog", "kingfisher_sdk")}


def policy(preset: str, **settings: Any) -> Pipeline:
    for module in EXTRAS.get(preset_texts()[preset].extra or "", ()):
        pytest.importorskip(module, reason="the extra `redaction` is not installed")
    return Pipeline([build_preset(preset, settings)])


class Played:
    """The recorded session under a policy; ``sent`` are the bodies of its requests."""

    def __init__(self, pipeline: Pipeline | None, tools: list[Tool] | None = None, **settings: Any) -> None:
        self.tape = Cassette.load(bundled_path("cassettes") / demo.CASSETTE)
        self.sent: list[str] = []
        transport = CassetteTransport(self.tape)

        def note(request: httpx.Request) -> httpx.Response:
            self.sent.append(request.read().decode())
            return transport.handle_request(request)

        client = httpx.Client(transport=httpx.MockTransport(note))
        providers = {part.provider: replay_settings(part.provider, client) for part in demo.RECORDED_PARTS}
        self.session = Session(
            demo.RECORDED_PARTS[0].model,
            tools=demo.TOOLS if tools is None else tools,
            providers=providers,
            new_id=demo.sequential_ids(),
            policy=pipeline,
            **settings,
        )

    def run(self) -> None:
        for part in demo.RECORDED_PARTS:
            if self.session.model != part.model:
                self.session.swap(part.model)
            self.ask(part)

    def ask(self, part: demo.Part) -> None:
        for _ in self.session.stream(part.prompt, max_output_tokens=128):
            pass


@pytest.mark.parametrize("preset", PRESETS)
def test_what_a_policy_allows_stays_as_it_was_recorded(preset: str) -> None:
    """No byte of any request changes, and the replies are those without a policy."""
    free, played = Played(None), Played(policy(preset, **GRANTING[preset]))
    free.run()
    played.run()
    assert played.tape.unplayed == 0
    assert played.sent == free.sent
    assert [message.text for message in played.session.messages] == [message.text for message in free.session.messages]
    assert played.session.labels == ({"untrusted"} if preset == "untrusted-data" else frozenset())


@pytest.mark.parametrize(
    ("preset", "settings", "code", "requests"),
    [
        ("tool-confirmation", {"tools": {"add": "none"}}, "not_confirmed", 1),
        ("url-allow-list", {"patterns": ["tool://_/add"]}, "uri_denied", 1),
        ("untrusted-data", {"tools": {"add": "write"}}, "untrusted_data", 3),
    ],
)
def test_what_a_policy_denies_ends_the_recorded_session(
    preset: str, settings: dict[str, Any], code: str, requests: int
) -> None:
    """At the first call that it forbids: nothing is sent after it."""
    played = Played(policy(preset, **settings))
    with pytest.raises(PolicyDeniedError) as raised:
        played.run()
    assert (raised.value.plugin, raised.value.code, len(played.sent)) == (preset, code, requests)


@pytest.mark.parametrize(
    ("preset", "secret", "label"),
    [
        ("personal-data", "ann@example.org", "PII"),
        ("secrets", "hunter2hunter2", "SECRET"),
    ],
)
def test_what_a_policy_hides_is_in_no_request(preset: str, secret: str, label: str) -> None:
    """The file that the recorded call reads holds it; the request after it differs from the recorded one."""

    def read_file(path: str) -> str:
        return f"admin = ann@example.org\nurl = postgres://admin:hunter2hunter2@localhost/{path}"

    recorded = {each.name: each for each in demo.TOOLS}
    tools = [Tool(recorded["read_file"].definition, read_file), recorded["add"]]
    played = Played(policy(preset), tools)
    with pytest.raises(CassetteMissError):
        played.run()
    assert len(played.sent) == 2
    assert secret not in played.sent[1]
    assert "postgres://" in played.sent[1]
    assert played.session.labels == {label}


def test_somebody_answers_in_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Only yes is yes."""
    for word, allowed in (("y", True), ("YES", True), ("", False), ("n", False), ("sure", False)):
        terminal = io.StringIO(f"{word}\n")
        terminal.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdin", terminal)
        played = Played(policy("tool-confirmation", tools={"add": "none"}))
        if allowed:
            played.ask(demo.RECORDED_PARTS[0])
        else:
            with pytest.raises(PolicyDeniedError):
                played.run()
        assert "Run read_file with" in capsys.readouterr().err


def test_data_of_trusted_tools_has_no_label() -> None:
    """A declassification opens the tools again."""
    played = Played(policy("untrusted-data", trusted=["tool://_/read_file", "tool://_/add"], tools={"add": "write"}))
    played.run()
    assert played.session.labels == frozenset()


def test_a_wrong_setting_is_refused() -> None:
    for settings in (
        {"trusted": "tool://a/b"},
        {"trusted": [7]},
        {"tools": {"add": "harmless"}},
        {"trusted": ["x" * 5000]},
    ):
        with pytest.raises(ConfigurationError):
            build_preset("untrusted-data", settings)
