"""``@model`` at the start of a text, and everything that only looks like it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import RequestError
from dragoman.canonical.blocks import ContentBlock, ImageBlock, MediaSource, TextBlock
from dragoman.canonical.message import Message
from dragoman.routing import RouteRequest
from dragoman.routing.aliases import read_mention
from tests.tables import each_row
from tests.unit.routing.models import router


@pytest.mark.parametrize(
    ("text", "name", "rest"),
    [
        ("@sonnet hello", "sonnet", "hello"),
        ("@Sonnet  hello", "Sonnet", "hello"),
        ("@sonnet\thello", "sonnet", "hello"),
        ("@openai:gpt-6.1-sol hello", "openai:gpt-6.1-sol", "hello"),
        ("@openrouter:vendor/model:free hello", "openrouter:vendor/model:free", "hello"),
        ("@cloudflare:@cf/meta/llama hello", "cloudflare:@cf/meta/llama", "hello"),
        ("@gpt-6.2 hello", "gpt-6.2", "hello"),
        ("@sonnet", "sonnet", ""),
        ("@sonnet\n    indented code", "sonnet", "    indented code"),
        ("@sonnet \n\nhello", "sonnet", "\nhello"),
        ("@sonnet @opus hello", "sonnet", "@opus hello"),
    ],
)
def test_a_mention_is_removed(text: str, name: str, rest: str) -> None:
    """It starts the text and ends at white space."""
    assert read_mention(text) == (name, rest)


@each_row(
    "text",
    [
        "",
        "@",
        "@ sonnet",
        "hello @sonnet",
        " @sonnet hello",
        "bob@example.com wrote",
        "Email me @haiku tomorrow",
        "@bob@example.social hello",
        "@sonnet, hello",
        "@sonnet: hello",
        "@@sonnet hello",
        "@-sonnet hello",
        "@7 o'clock",
        "@sonnet\u200b hello",
        "@openai:gpt\u202e hello",
        "@openai: hello",
        "@" + "a" * 65 + " hello",
        "@a:" + "b" * 201 + " hello",
        "@ünïcode hello",
        "\uff20sonnet hello",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    """Addresses, handles, later names and invisible characters."""
    assert read_mention(text) == (None, text)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("\\@sonnet hello", "@sonnet hello"),
        ("\\@dataclass\nclass A: ...", "@dataclass\nclass A: ..."),
        ("\\\\@sonnet hello", "\\\\@sonnet hello"),
        ("\\@{x} hello", "\\@{x} hello"),
    ],
)
def test_a_backslash_escapes_a_mention(text: str, rest: str) -> None:
    """It is removed only in front of a mention."""
    assert read_mention(text) == (None, rest)


IMAGE = ImageBlock(source=MediaSource(kind="url", data="https://example.com/a.png"))


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("hello", [TextBlock(text="hello")]),
        ("@north:able hello", [TextBlock(text="hello")]),
        ("\\@north:able hello", [TextBlock(text="@north:able hello")]),
        ([IMAGE, TextBlock(text="@north:able look"), TextBlock(text="!")],
         [IMAGE, TextBlock(text="look"), TextBlock(text="!")]),
        ([TextBlock(text="@north:able"), IMAGE], [IMAGE]),
        ([IMAGE], [IMAGE]),
    ],
)  # fmt: skip
def test_the_prompt_is_sent_without_the_mention(content: Any, sent: list[ContentBlock]) -> None:
    """Everything else of the message stays."""
    message = Message.user(content)
    routed = router(global_default="north:able", mentions=True)
    decision = routed.choose(RouteRequest.of([], [message], estimated_tokens=1))
    (left,) = decision.without_mention([message])
    assert (left.id, list(left.content)) == (message.id, sent)


def test_a_message_of_a_mention_only_is_refused() -> None:
    """There is nothing to send."""
    message = Message.user("@north:able")
    decision = router(mentions=True).choose(RouteRequest.of([], [message], estimated_tokens=1))
    with pytest.raises(RequestError, match="only the mention"):
        decision.without_mention([message])


@given(st.text(alphabet=st.sampled_from("@\\ab:-. \n\té\ud800"), max_size=40) | st.text())
def test_reading_never_fails_and_removes_a_prefix_only(text: str) -> None:
    """For any text, the rest is its end."""
    name, rest = read_mention(text)
    assert text.endswith(rest)
    if name is None:
        assert len(text) - len(rest) in (0, 1)
    else:
        assert text.startswith(f"@{name}")
        assert text[: len(text) - len(rest)].strip() == f"@{name}"


@given(st.text())
def test_a_backslash_always_helps(text: str) -> None:
    """Any text can be sent as it is."""
    name, _ = read_mention(text)
    if name is not None:
        assert read_mention("\\" + text) == (None, text)


def test_a_router_without_mentions_takes_them_for_text_and_shares_what_is_known() -> None:
    chooses = router(global_default="north:able", mentions=True)
    without = chooses.without_mentions()
    request = RouteRequest(text="@south:able Hello", estimated_tokens=1)
    assert chooses.choose(request).model == "south:able"
    decision = without.choose(request)
    assert (decision.model, decision.text) == ("north:able", "@south:able Hello")
    assert without.availability is chooses.availability
    again = without.with_mentions()
    assert (again.choose(request).model, without.choose(request).model) == ("south:able", "north:able")
    assert again.availability is chooses.availability
