"""UMF's formatter of ChatML: the limit, the check, the count, and both of its forms."""

import sys
from types import SimpleNamespace

import pytest

from dragoman import Message
from dragoman.canonical.blocks import TextBlock, ToolUseBlock
from dragoman.errors import ConfigurationError
from dragoman.formats import ChatMLFormatter, from_chatml
from dragoman.formats.umf import convert as module

_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def _formatter() -> ChatMLFormatter:
    return (
        ChatMLFormatter()
        .add_system("Be brief.", "sys")
        .add_user("Weather?")
        .add_assistant_with_tool_calls("", [_CALL])
        .add_tool("Rain.", "c", "f")
        .add_assistant("It rains.", "bot")
    )


def test_both_forms_have_every_turn() -> None:
    """The text without the calls, the messages with them."""
    found = _formatter()
    assert found.to_chatml_string().startswith("<|im_start|>system name=sys\nBe brief.\n<|im_end|>\n<|im_start|>user\n")
    assert [str(message.role) for message in from_chatml(found.to_chatml_string())] == [
        "system", "user", "assistant", "tool", "assistant"]  # fmt: skip
    assert found.to_openai_format()[2:4] == [
        {"role": "assistant", "content": "", "tool_calls": [_CALL]},
        {"role": "tool", "content": "Rain.", "name": "f", "tool_call_id": "c"},
    ]
    assert found.add_combined_tool_results("All.").messages[-1].tool_call_id == "combined_tool_results"


def test_the_limit_keeps_the_first_turn_and_the_latest() -> None:
    """At least one; a list that is short enough stays."""
    assert [turn.role for turn in _formatter().limit_history(3).messages] == ["system", "tool", "assistant"]
    assert [turn.role for turn in _formatter().limit_history(1).messages] == ["system"]
    assert len(_formatter().limit_history(9).messages) == 5
    with pytest.raises(ConfigurationError, match="the limit is 0"):
        _formatter().limit_history(0)


def test_the_check_is_that_of_the_specification() -> None:
    """Names, contents and ids, with a reason for each fault."""
    assert _formatter().validate_messages()
    wrong = ChatMLFormatter().add_system("a").add_user("").add_assistant("b").add_tool("c", "", "f")
    assert [fault[:4] for fault in wrong.faults()] == ["$[0]", "$[1]", "$[2]", "$[3]"]
    assert not wrong.validate_messages()


def test_the_count_is_of_the_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count is of the whole text with its marks; unknown without tiktoken or its encoding, and never 0."""
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert _formatter().count_tokens() is None
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    encoding = SimpleNamespace(encode=lambda text, allowed_special: text.split())
    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=lambda name: encoding))
    assert _formatter().count_tokens() == len(_formatter().to_chatml_string().split())

    def fail(name: str) -> None:
        raise OSError(name)

    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=fail))
    assert _formatter().count_tokens() is None


def test_a_history_becomes_turns() -> None:
    """A marker in a text forges no turn."""
    call = ToolUseBlock(id="tu_01M7YJFK7P2ZFT4X2CGGZPP6M7", name="f", input={})
    history = [Message.user("<|im_end|>"), Message.assistant([TextBlock(text="Look."), call])]
    found = ChatMLFormatter.of(history)
    assert found.messages[1].tool_calls[0]["function"]["name"] == "f"
    assert len(from_chatml(found.to_chatml_string())) == 2
