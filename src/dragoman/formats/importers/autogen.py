"""AutoGen's messages and events as their `dump` writes them, and the saved states of agents and teams.

A thought before calls is the text of the reply: AutoGen sends it as the content of the message with the calls. Any
other thought is reasoning. Source: autogen_agentchat/messages.py and autogen_ext/models/openai/_openai_client.py, 0.7.
"""

from typing import Any

from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import build_usage, media_block, provider_block, text_blocks, to_text
from dragoman.formats.reading.entry_marks import named
from dragoman.formats.reading.fields import Fields, iter_fields, source_losses, typed_errors
from dragoman.formats.reading.turns import Turns, read_time
from dragoman.formats.results import Conversation

FORMAT = "autogen"

_STEPS = frozenset(
    {
        "MemoryQueryEvent", "UserInputRequestedEvent", "ModelClientStreamingChunkEvent", "SelectSpeakerEvent",
        "SelectorEvent", "CodeGenerationEvent", "CodeExecutionEvent",
    }
)  # fmt: skip
"""Events that are steps of a program: no model and no user says them."""
_USERS = frozenset({"user", "user_proxy", "UserProxyAgent"})


@typed_errors
def from_autogen(document: Any) -> list[Conversation]:
    """Return the conversation in a list of messages, or those in the saved state of an agent or a team.

    Raises FormatError, with a path.
    """
    data = parse_json_or_lines(document, format_name=FORMAT)
    found = [Conversation(name, _Reader().read(messages, at)) for name, messages, at in _lists(data, "$", "1")]
    if not found:
        raise FormatError("the state holds no messages")
    return found


def _lists(data: Any, path: str, name: str) -> list[tuple[str, Any, str]]:
    """Return the lists of messages in a document, with their names and paths."""
    if not isinstance(data, dict):
        return [(name, data, path)]
    if named("autogen")(data):
        return [(name, data, path)]
    fields = Fields(data, path, FORMAT)
    fields.ignore("type", "version", "stop_reason", "current_turn", "next_speaker_index", "previous_speaker")
    found: list[tuple[str, Any, str]] = []
    held = [key for key in ("messages", "message_thread") if isinstance(fields.look(key), list)]
    found += [(name, fields.take(key), f"{path}.{key}") for key in held]
    for key in ("llm_context", "agent_state", "inner_team_state"):
        if isinstance(fields.look(key), dict):
            found += _lists(fields.take(key), f"{path}.{key}", name)
    states = fields.take("agent_states")
    for agent, state in states.items() if isinstance(states, dict) else ():
        found += _lists(state, f"{path}.agent_states.{agent}", agent)
    fields.close()
    return found


class _Reader:
    def __init__(self) -> None:
        self._turns = Turns()
        self._thought: tuple[str, str] | None = None
        """The text and the path of a thought whose message has not come yet."""

    def read(self, messages: Any, path: str) -> list[Message]:
        for message in iter_fields(messages, FORMAT, path):
            message.ignore("id")
            message.drop("metadata", "a program's own metadata is left out")
            self._message(message, message.required_text("type"))
        self._flush()
        return self._turns.messages

    def _message(self, message: Fields, kind: str) -> None:
        source, time = message.text("source"), read_time(message.take("created_at"))
        usage = message.object("models_usage")
        role = Role.USER if kind == "UserMessage" or (source in _USERS and kind != "AssistantMessage") else None
        if kind == "ThoughtEvent":
            self._flush()
            self._thought = (message.text("content") or "", message.path)
            return
        if kind == "SystemMessage":
            self._add(Role.SYSTEM, text_blocks(message.text("content")), message)
        elif kind in ("ToolCallExecutionEvent", "FunctionExecutionResultMessage"):
            self._flush()
            self._turns.start(Role.TOOL, has_results=True)
            blocks: list[ContentBlock] = []
            for result in message.objects("content"):
                native_id, name = result.text("call_id"), result.text("name")
                content = text_blocks(result.take("content"))
                blocks.append(self._turns.result(native_id, name, content, is_error=result.flag("is_error")))
            self._add(Role.TOOL, blocks, message)
        elif kind in _STEPS:
            message.whole()
            source_losses().add(message.path, f"a {kind} is a step of the program: left out")
        elif named("autogen")({"type": kind}):
            if source is not None and role is None and source != "assistant":
                source_losses().add(f"{message.path}.source", "a message has no name of its speaker: left out")
            blocks = self._content(message, kind)
            counts = usage and build_usage(usage.count("prompt_tokens"), usage.count("completion_tokens"))
            metadata = {"usage": counts} if role is None else None
            self._add(role or Role.ASSISTANT, blocks, message, metadata=metadata, created_at=time)
        else:
            blocks = [provider_block(FORMAT, kind, message.whole())]
            self._add(role or Role.ASSISTANT, blocks, message, created_at=time)

    def _add(self, role: Role, blocks: list[ContentBlock], message: Fields, **fields: Any) -> None:
        self._turns.add(role, blocks, message.path, **fields)

    def _content(self, message: Fields, kind: str) -> list[ContentBlock]:
        """Return the blocks of a message, after the thought before it."""
        content = message.look("content")
        is_reply = (
            kind not in ("UserMessage", "TextMessage", "MultiModalMessage") or message.look("source") not in _USERS
        )
        has_calls = is_reply and isinstance(content, list) and any(isinstance(each, dict) and "arguments" in each
                                                                   for each in content)  # fmt: skip
        thoughts = [self._thought[0] if self._thought is not None else None, message.text("thought")]
        self._thought = None
        self._turns.start(Role.ASSISTANT if is_reply else Role.USER)
        blocks: list[ContentBlock] = []
        blocks += [
            TextBlock(text=thought) if has_calls else ThinkingBlock(text=thought) for thought in thoughts if thought
        ]
        if kind in ("HandoffMessage", "ToolCallSummaryMessage"):
            for name in ("target", "context", "tool_calls", "results"):  # copies, and the next agent's name
                message.ignore(name)
        if has_calls:
            for call in message.objects("content"):
                blocks.append(self._turns.call(call.text("id"), call.required_text("name"), call.take("arguments")))
            return blocks
        if isinstance(content, list):
            return [*blocks, *(self._part(item, path, message) for item, path in message.items("content"))]
        return [*blocks, *text_blocks(message.take("content"))]

    def _part(self, item: Any, path: str, message: Fields) -> ContentBlock:
        if isinstance(item, str):
            return TextBlock(text=item)
        if not isinstance(item, dict):
            return TextBlock(text=to_text(item))
        part = message.adopt(item, path)
        if isinstance(part.look("data"), str):
            # AutoGen stores every image as a PNG.
            return media_block("base64", part.required_text("data"), "image/png")
        return provider_block(FORMAT, "part", part.whole())

    def _flush(self) -> None:
        """Add a thought that no message of the model follows."""
        if self._thought is not None:
            (text, path), self._thought = self._thought, None
            self._turns.start(Role.ASSISTANT)
            self._turns.add(Role.ASSISTANT, [ThinkingBlock(text=text)] if text else [], path)
