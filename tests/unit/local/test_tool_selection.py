"""Which tools a message asks for, by its words."""

import pytest

from dragoman.local.prompt import select_tools

TOOLS = [{"name": name} for name in ("read_file", "write_file", "get_weather", "send_email", "add", "open_page")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Read the file README.md and tell me what it says.", ["read_file"]),
        ("What is in notes.txt?", ["read_file", "write_file"]),
        ("Reading two files at once", ["read_file"]),
        ("Write a list to plan.md", ["write_file"]),
        ("Is the weather good in Paris?", ["get_weather"]),
        ("Use get_weather for Rome", ["get_weather"]),
        ("Send this to ada@example.org", ["send_email"]),
        ("Open https://example.org/a?b=c for me", ["open_page"]),
        ("Use the add tool to add 1 and 2.", ["add"]),
    ],
)
def test_a_message_asks_for_the_tool_of_its_words(text: str, names: list[str]) -> None:
    """The last word of a tool's name decides, then the number of its other words if several tools share it."""
    assert [tool["name"] for tool in select_tools(TOOLS, text)] == names


@pytest.mark.parametrize(
    "text",
    [
        "Hello!",
        "",
        "Thank you.",
        "What is the capital of France?",
        "Write a short poem about the sea.",
        "It took 2.5 h.",
    ],
)
def test_small_talk_asks_for_no_tool(text: str) -> None:
    """A verb alone, or no word of any tool, requests no call."""
    assert select_tools(TOOLS, text) == []


def test_a_tool_without_words_in_its_name_is_never_requested() -> None:
    """A name of underscores shares no word with any message."""
    assert select_tools([{"name": "__"}], "__ read") == []
