"""Frameworks for agents, protocols and chat templates: what their handwritten samples say is read."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dragoman import ImageBlock, Message, TextBlock
from dragoman.canonical.blocks import DocumentBlock, ResourceBlock, ResourceRefBlock, ThinkingBlock
from dragoman.formats import FormatError, identify, read
from dragoman.formats.importers.agent_protocols import read_task
from dragoman.formats.importers.langchain_runs import unpack
from tests.tables import each_row
from tests.unit.formats.importers.framework_samples import FRAMEWORK_SAMPLES, TEXT_SAMPLES


def _sample(name: str) -> list[Message]:
    format_name, document = {**FRAMEWORK_SAMPLES, **TEXT_SAMPLES}[name]
    return read(document, format_name).messages


@each_row(("name", "roles"), [
    ("haystack", "user assistant tool assistant"),
    ("llama-index", "user assistant tool assistant"),
    ("autogen", "user assistant tool assistant"),
    ("google-adk", "user assistant tool assistant"),
    ("mcp", "system user assistant tool assistant"),
    ("harmony", "developer user assistant tool assistant"),
    ("langgraph", "user assistant"),
    ("langsmith", "user assistant"),
    ("openinference", "user assistant tool assistant"),
    ("harmony text", "developer user assistant tool assistant"),
    ("llama", "system user assistant tool assistant"),
    ("glm", "system user assistant tool assistant"),
    ("deepseek", "system user assistant tool assistant"),
    ("report of llm", "system user assistant tool assistant"),
])  # fmt: skip
def test_each_speaks_in_turn(name: str, roles: str) -> None:
    """Each result answers the call before it, texts are whole, and the last message is the answer."""
    messages = _sample(name)
    assert " ".join(str(message.role) for message in messages) == roles
    calls = [call for message in messages for call in message.tool_uses]
    results = [result for message in messages for result in message.tool_results]
    assert [result.tool_use_id for result in results] == [call.id for call in calls]
    assert [call.name for call in calls] == ["weather"] * len(calls)
    assert all(isinstance(result.content[0], TextBlock) and result.content[0].text == "Rain." for result in results)
    assert messages[-1].text == "Rain."
    assert next(message for message in messages if str(message.role) == "user").text.startswith("Weather?")


@each_row("name", list(FRAMEWORK_SAMPLES))
def test_each_is_detected(name: str) -> None:
    """Values of Python, JSON and a list from JSON lines are detected."""
    format_name, document = FRAMEWORK_SAMPLES[name]
    assert identify(document).format == format_name
    assert identify(json.dumps(document)).format == format_name
    if isinstance(document, list):
        assert identify("\n".join(map(json.dumps, document)) + "\n").format == format_name


@each_row("name", list(TEXT_SAMPLES))
def test_each_text_is_detected(name: str) -> None:
    format_name, text = TEXT_SAMPLES[name]
    assert identify(text).format == identify(text.encode()).format == format_name


@each_row(("name", "model", "prompt", "cached", "output"), [
    ("haystack", "claude-opus-5-5", 30, 20, 4),
    ("google-adk", "google:gemini-3.5-pro", 30, 20, 4),
    ("autogen", None, 30, 0, 4),
    ("langsmith", "openai:gpt-6.1", 30, 0, 4),
    ("openinference", "openai:gpt-6.1", 30, 20, 4),
])  # fmt: skip
def test_what_a_reply_cost_is_read(name: str, model: str | None, prompt: int, cached: int, output: int) -> None:
    """The model, and the tokens with those from a cache."""
    reply = next(message for message in _sample(name) if message.usage is not None)
    assert reply.usage is not None
    assert (reply.metadata.model, reply.usage.prompt_tokens, reply.usage.cached_input_tokens,
            reply.usage.output_tokens) == (model, prompt, cached, output)  # fmt: skip


@each_row("name", ["haystack", "llama-index", "google-adk", "harmony", "harmony text", "glm", "report of llm"])
def test_thinking_is_read(name: str) -> None:
    reply = next(message for message in _sample(name) if message.tool_uses)
    assert isinstance(reply.content[0], ThinkingBlock)
    assert reply.content[0].text == "Look."


def test_a_thought_of_autogen_before_calls_is_the_text_of_the_reply() -> None:
    """AutoGen sends it as the content of the message with the calls; any other thought is reasoning."""
    replies = [message for message in _sample("autogen") if str(message.role) == "assistant"]
    assert [block.type for block in replies[0].content] == ["text", "tool_use"]
    assert [block.type for block in replies[1].content] == ["thinking", "text"]


def test_media_and_citations_are_read() -> None:
    """Images of all, the source that a reply cites, and the resources of MCP."""
    for name in ("haystack", "llama-index", "autogen", "google-adk"):
        image = _sample(name)[0].content[1]
        assert isinstance(image, ImageBlock), name
        assert image.media_type == "image/png"
    for name in ("haystack", "llama-index"):
        answer = _sample(name)[-1].content[0]
        assert isinstance(answer, TextBlock), name
        assert answer.citations[0].url == "https://example.org"
    found = _sample("mcp")[3].tool_results[0].content
    assert [type(block) for block in found] == [TextBlock, ImageBlock, ResourceBlock, ResourceRefBlock]


def test_the_signature_of_gemini_stays_on_its_call() -> None:
    raw = _sample("google-adk")[1].metadata.provider_raw
    assert raw is not None
    assert raw["blocks"] == {"1": {"set": {"thoughtSignature": "c2ln"}}}


def test_only_the_text_of_a_prompt_is_left_of_what_a_run_sent() -> None:
    """The lines are split at the speakers, which is a loss; an earlier run of the same conversation says more."""
    _, run = FRAMEWORK_SAMPLES["langsmith"]
    text = "System: Be brief.\nHuman: Weather?\nAI: Look.[{'name': 'weather', 'args': {}, 'id': 'call_1'}]\nTool: Rain."
    result = read([{**run, "inputs": {"prompts": [text]}}], "langsmith")
    assert [str(message.role) for message in result.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert result.messages[3].tool_results[0].tool_use_id == result.messages[2].tool_uses[0].id
    assert [loss.path for loss in result.losses] == ["$[0].inputs.prompts"]
    later = {**run, "id": "r2", "inputs": {"prompts": ["Human: Weather?\nAI: Rain.\nHuman: Sure?"]}}
    joined = read([run, later], "langsmith").messages
    assert [message.usage is not None for message in joined] == [False, True, False, True]


def test_a_definition_of_tools_is_no_instruction() -> None:
    """Templates write them before the instructions or before the first text of the user: a loss."""
    text = (
        "<|start_header_id|>user<|end_header_id|>\n\nGiven the following functions, please respond with a JSON.\n\n"
        'Respond in the format {}.Do not use variables.\n\n{"type": "function"}\n\nWeather?<|eot_id|>'
    )
    result = read(text, "chat-template")
    assert result.messages[0].text == "Weather?"
    assert [str(loss.kind) for loss in result.losses] == ["tools"]


def test_a_checkpoint_is_read_without_its_classes() -> None:
    """MessagePack with objects of pydantic, of which only the fields are read."""
    fields = b"\x83\xa7content\xa3Hi.\xa4type\xa5human\xa2id\xc0"
    model = b"\x94\xb0langchain.human.\xacHumanMessage" + fields + b"\xb3model_validate_json"
    data = b"\x82\xa1v\x04\xaechannel_values\x81\xa8messages\x91" + b"\xc7" + bytes([len(model)]) + b"\x05" + model
    assert identify(data).format == "langgraph"
    assert [message.text for message in read(data).messages] == ["Hi."]
    assert unpack(b"\x94\xcb?\xf0\x00\x00\x00\x00\x00\x00\xd0\xff\xcd\x01\x00\xc3") == [1.0, -1, 256, True]
    for end in range(len(data)):
        with pytest.raises(FormatError):
            unpack(data[:end])


def test_sqlite_files_are_told_apart(tmp_path: Path) -> None:
    """SQLite files are told apart: sessions of ADK and checkpoints of LangGraph, by their tables."""
    _, session = FRAMEWORK_SAMPLES["google-adk"]
    adk, graph = tmp_path / "adk.db", tmp_path / "graph.sqlite"
    with closing(sqlite3.connect(adk)) as database, database:
        database.execute("CREATE TABLE app_states (app_name text)")
        database.execute("CREATE TABLE events (id text, session_id text, timestamp text, event_data text)")
        for number, event in enumerate(session["events"]):
            database.execute("insert into events values (?, 's-1', ?, ?)", (event["id"], number, json.dumps(event)))
    _, checkpoint = FRAMEWORK_SAMPLES["langgraph"]
    with closing(sqlite3.connect(graph)) as database, database:
        database.execute(
            "CREATE TABLE checkpoints (thread_id text, checkpoint_ns text, checkpoint_id text, type text, "
            "checkpoint blob)"
        )
        for number, kept in (("1", {**checkpoint, "channel_values": {"messages": []}}), ("2", checkpoint)):
            database.execute("insert into checkpoints values ('t', '', ?, 'json', ?)", (number, json.dumps(kept)))
    read_adk, read_graph = read(adk), read(graph)
    assert (read_adk.format, read_adk.conversations[0].name) == ("google-adk", "s-1")
    assert [str(message.role) for message in read_adk.messages] == ["user", "assistant", "tool", "assistant"]
    assert (read_graph.format, read_graph.messages[-1].text) == ("langgraph", "Rain.")


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def test_a_task_of_a2a_is_read_from_its_bytes() -> None:
    """Protocol Buffers, with the same result as from JSON; a field of a later version is refused."""
    data = _field(4, _field(5, _field(1, _field(1, b"type") + _field(2, _field(3, b"note")))))
    message = _field(1, b"m1") + b"\x20\x01" + _field(5, _field(1, b"Weather?")) + _field(5, data) + _field(
        5, _field(2, b"%PDF") + _field(6, b"a.pdf") + _field(7, b"application/pdf"))  # fmt: skip
    task = _field(1, b"t") + _field(2, b"c") + _field(3, b"\x08\x03") + _field(5, message)
    assert identify(task).format == "a2a"
    found = read(task).messages[0]
    assert found.text == "Weather?"
    assert [block.type for block in found.content] == ["text", "provider", "document"]
    document = found.content[2]
    assert isinstance(document, DocumentBlock)
    assert document.title == "a.pdf"
    for broken in (task + _field(9, b""), task[:-3], b"\x0a" + b"\xff" * 20):
        with pytest.raises(FormatError):
            read_task(broken)


_REPORT = "# 2026-01-02T03:04:05    conversation: a id: b\n\n## Prompt\n\n## Response\n### Tool calls\n\n"


@each_row(("format_name", "start", "mark"), [
    ("chat-template", "[gMASK]<sop><|assistant|>\n", "<tool_call>"),
    ("chat-template", "[gMASK]<sop><|observation|>\n", "<tool_response>"),
    ("chat-template", "<\uff5cAssistant\uff5c>", "<\uff5ctool\u2581call\u2581begin\uff5c>"),
    ("harmony", "<|start|>user<|message|>", "<|message|>"),
    ("llm-json", _REPORT, "- **a**: `b`  \n    ```\n"),
])  # fmt: skip
def test_marks_that_never_end_are_read_once(format_name: str, start: str, mark: str) -> None:
    """A text with many of them takes time in proportion: quadratic work would take hours."""
    assert len(read(start + mark * 200_000, format_name).conversations) == 1


@each_row("name", [*FRAMEWORK_SAMPLES])
def test_a_value_of_a_wrong_type_has_a_path(name: str) -> None:
    """Each text of a document as a number in its place: a typed error, or read without it."""
    format_name, document = FRAMEWORK_SAMPLES[name]
    for changed in _with_numbers(document):
        path = _path_of_fault(changed, format_name)
        assert path is None or path.startswith("$")


def _path_of_fault(document: Any, format_name: str) -> str | None:
    try:
        read(document, format_name)
    except FormatError as error:
        return error.path
    return None


def _with_numbers(document: Any) -> list[Any]:
    """Return copies of the document, each with one text replaced by a number."""
    text = json.dumps(document)
    places: list[list[Any]] = []

    def walk(value: Any, path: list[Any]) -> None:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in pairs:
            if isinstance(item, str):
                places.append([*path, key])
            walk(item, [*path, key])

    walk(document, [])
    found = []
    for place in places:
        copied = json.loads(text)
        inner = copied
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = 7
        found.append(copied)
    return found


@each_row("kwargs", [{}, {"additional_kwargs": {}}, {"additional_kwargs": None}])
def test_a_result_of_llama_index_without_an_id_answers_the_open_call(kwargs: dict[str, Any]) -> None:
    call = {"block_type": "tool_call", "tool_call_id": "c1", "tool_name": "weather", "tool_kwargs": {}}
    answer = {"role": "tool", "blocks": [{"block_type": "text", "text": "Rain."}], **kwargs}
    messages = read([{"role": "assistant", "blocks": [call]}, answer], "llama-index").messages
    assert messages[1].tool_results[0].tool_use_id == messages[0].tool_uses[0].id
