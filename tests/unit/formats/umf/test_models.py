"""The tables of UMF and of message bodies, row by row: names, types and defaults.

Sources: docs/reference/umf.md, docs/reference/message-body.md#parts.
"""

import pytest
from pydantic import BaseModel

from dragoman.formats import InternalTool, MessageBodyPart, MessageBodySchemaPart
from dragoman.formats.umf import calls, events, models
from tests.unit.canonical.test_cmf_tables import rows

FIELDS: dict[type[BaseModel], list[str]] = {
    models.InternalMessage: [
        "role: system|user|assistant|tool !", "content: str|list[Text|Image|ToolUse|ToolResult] !",
        "metadata: dict[str, any] empty", "tool_call_id: str? None", "name: str? None",
        "tool_calls: list[ToolCall] empty",
    ],
    models.ToolCall: ["id: str !", "type: function function", "function: CalledFunction !"],
    calls.InternalToolCall: [
        "id: str !", "name: str !", "arguments: dict[str, any] empty", "metadata: dict[str, any] empty",
    ],
    calls.InternalToolResult: [
        "tool_call_id: str !", "content: any ", "is_error: bool False", "metadata: dict[str, any] empty",
    ],
    models.Text: ["type: text text", "text: str !"],
    models.Image: ["type: image image", "source: Base64Source|UrlSource !"],
    models.Base64Source: ["type: base64 base64", "media_type: str !", "data: str !"],
    models.UrlSource: ["type: url url", "url: str !"],
    models.ToolUse: ["type: tool_use tool_use", "id: str !", "name: str !", "input: any !"],
    models.ToolResult: ["type: tool_result tool_result", "tool_use_id: str !", "content: str !"],
    events.Envelope: [
        "event_id: str !", "event_type: message|tool_call|tool_result|system_signal|error !", "session_id: str !",
        "project_hash: str? None", "timestamp_ms: int !", "sequence: int !", "payload: dict[str, any] !",
    ],
    events.MessageEvent: [
        "event_id: str !", "message: InternalMessage !", "token_count: int? None", "model_info: ModelInfo? None",
    ],
    events.ModelInfo: ["model_name: str !", "provider: str? None"],
    events.ToolCallEvent: [
        "event_id: str !", "message_event_id: str !", "tool_call: EventCall !",
        "status: pending|executing|completed|failed|cancelled pending", "mcp_context: McpContext? None",
    ],
    events.EventCall: ["id: str !", "name: str !", "arguments: any None"],
    events.McpContext: ["server_name: str !", "server_url: str? None", "transport: str? None"],
    events.ToolResultEvent: [
        "event_id: str !", "tool_call_event_id: str !", "result: EventResult !", "duration_ms: int? None",
        "error: str? None",
    ],
    events.EventResult: ["tool_call_id: str !", "content: any None", "is_error: bool False"],
    InternalTool: [
        "name: str !", "description: str ", "parameters: dict[str, any] {'type': 'object', 'properties': {}}",
        "metadata: dict[str, any] empty",
    ],
    MessageBodyPart: [
        "name: str? None", "content_type: str !", "content: str? None", "content_url: str? None",
        "content_encoding: plain|base64? plain",
    ],
    MessageBodySchemaPart: ["name: str? None", "content_type: str */*", "required: bool False"],
}  # fmt: skip


@pytest.mark.parametrize("model", FIELDS, ids=lambda model: model.__name__)
def test_tables_match_row_by_row(model: type[BaseModel]) -> None:
    assert rows(model) == FIELDS[model]


def test_b2_names_of_json_fields() -> None:
    aliases = [field.alias for field in MessageBodyPart.model_fields.values()]
    assert aliases == ["name", "contentType", "content", "contentUrl", "contentEncoding"]
    assert [field.alias for field in MessageBodySchemaPart.model_fields.values()] == ["name", "contentType", "required"]


def test_c5_metadata_of_a_tool() -> None:
    bare = InternalTool(name="read_file")
    tool = bare.with_metadata("mcp_title", "Read")
    assert (tool.metadata, bare.metadata) == ({"mcp_title": "Read"}, {})
    assert (tool.has_metadata("mcp_title"), tool.has_metadata("mcp_annotations")) == (True, False)
    assert tool.with_metadata("mcp_title", "Look").metadata == {"mcp_title": "Look"}
