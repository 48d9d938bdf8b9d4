"""The finders over third-party libraries: what they find, where, and that they are deterministic."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.policy.plugins import Finder, Redaction, findings, personal_data, presidio, secrets

GITHUB = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SLACK = "xoxb-123456789012-1234567890123-abcdefghijklmnopqrstuvwx"
CARD = "4111 1111 1111 1111"


@pytest.fixture(scope="module")
def secret_finder() -> Finder:
    pytest.importorskip("kingfisher_sdk", reason="kingfisher-secret-scanner is not installed")
    return secrets()


@pytest.fixture(scope="module")
def personal_finder() -> Finder:
    pytest.importorskip("datafog", reason="datafog is not installed")
    return personal_data()


def findings_in(finder: Finder, text: str) -> list[tuple[str, str]]:
    return [(text[each.start : each.end], each.kind) for each in findings(text, [finder])]


def test_secrets_are_found(secret_finder: Finder) -> None:
    """Secrets are found by their format, anywhere, with positions in characters and not in bytes."""
    for before in ("", "äöü 😀 ", "\ufeff", "a\nb\n"):
        for after in ("", " ß", "\n"):
            assert findings_in(secret_finder, f"{before}{GITHUB}{after}") == [(GITHUB, "github-pat")]
    assert findings_in(secret_finder, f"{GITHUB}, {SLACK}") == [(GITHUB, "github-pat"), (SLACK, "slack-bot-token")]
    urls = findings_in(secret_finder, "postgres://bob:hunter2@db/x and https://u:p4ss@h")
    assert [value for value, _ in urls] == ["hunter2", "p4ss"]


def test_prose_and_numbers_are_no_secrets(secret_finder: Finder) -> None:
    """Prose, ids, digests, times and a URL without a password are not secrets."""
    for text in (
        "The quick brown fox", "https://example.org:8080/a@b", "3a72b67e718294d7ad0e31f92db8daa7c4aaef2d",
        "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5", "550e8400-e29b-41d4-a716-446655440000", "[github-pat] [password]", "",
    ):  # fmt: skip
        assert findings_in(secret_finder, text) == []


PERSONAL = [
    ("ann@example.org", "email"), ("+1 415 555 2671", "phone"), ("(415) 555-2671", "phone"), (CARD, "credit_card"),
    ("4111111111111111", "credit_card"), ("078-05-1120", "ssn"), ("10.1.2.3", "ip_address"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), PERSONAL)
def test_personal_data_are_found(personal_finder: Finder, value: str, kind: str) -> None:
    assert findings_in(personal_finder, f"äß 😀 {value} and more") == [(value, kind)]


@pytest.mark.parametrize(
    "text", ["took 123456789 ns", "1700000000", "5551234567", "4111 1111 1111 1112", "2026-11-21 14:33:40", "94103", ""]
)
def test_digits_alone_are_no_personal_data(personal_finder: Finder, text: str) -> None:
    """Times, counts, and numbers of the length of a card without its check digit."""
    assert findings_in(personal_finder, text) == []


def test_kinds_and_locales_select_what_is_found(personal_finder: Finder) -> None:
    """An unknown kind is an error."""
    assert findings_in(personal_data(["email"]), f"ann@example.org {CARD}") == [("ann@example.org", "email")]
    german = personal_data(locales=["de"])
    assert findings_in(german, "IBAN DE89370400440532013000") == [("DE89370400440532013000", "de_iban")]
    with pytest.raises(ConfigurationError, match="'name' is not a kind"):
        personal_data(["email", "name"])
    assert personal_finder.max_length == 320


@pytest.mark.parametrize("key", [None, b"k"])
def test_placeholders_are_not_found_again(secret_finder: Finder, personal_finder: Finder, key: bytes | None) -> None:
    """Neither finder finds the words that replace a finding."""
    text = f"{GITHUB} " + " ".join(value for value, _ in PERSONAL) + " postgres://bob:hunter2@db/x"
    plugin = Redaction([secret_finder, personal_finder], key=key)
    once = plugin.redact(text)
    assert not any(value in once for value in (GITHUB, "hunter2", *(value for value, _ in PERSONAL)))
    assert plugin.redact(once) == once
    assert Redaction([secret_finder, personal_finder], key=key).redact(text) == once
    assert Redaction().redact(text) == Redaction([secret_finder, personal_finder]).redact(text)


def test_a_piece_of_a_stream_finds_what_the_whole_does(secret_finder: Finder, personal_finder: Finder) -> None:
    """Wherever it is cut, except within the window before the cut."""
    text = f"Hi, {GITHUB} and ann@example.org, {CARD}; " + "and so on, " * 40
    for finder in (secret_finder, personal_finder):
        whole = findings(text, [finder])
        assert whole
        window = max(each.end - each.start for each in whole) + 1
        for length in range(0, len(text), 7):
            settled = length - window
            piece = [each for each in findings(text[:length], [finder]) if each.start < settled]
            assert piece == [each for each in whole if each.start < settled]


class HandwrittenAnalyzer:
    """Answers as Presidio's AnalyzerEngine does."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}

    def analyze(self, **arguments: Any) -> list[Any]:
        self.arguments = arguments
        start = arguments["text"].index("Ann")
        return [SimpleNamespace(start=start, end=start + 3, entity_type="PERSON", score=0.85)]


def test_presidio_is_supplied_by_the_program() -> None:
    """It receives the text, and its entities are the kinds."""
    analyzer = HandwrittenAnalyzer()
    finder = presidio(analyzer, entities=["PERSON"], score_threshold=0.5)
    assert findings_in(finder, "I am Ann.") == [("Ann", "person")]
    assert analyzer.arguments == {
        "text": "I am Ann.", "language": "en", "entities": ["PERSON"], "score_threshold": 0.5,
    }  # fmt: skip
    assert finder.max_length is None


@pytest.mark.parametrize(("module", "make"), [("kingfisher_sdk", lambda: secrets("high")), ("datafog", personal_data)])
def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, module: str, make: Any) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[redaction\]"):
        make()
