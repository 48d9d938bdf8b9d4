"""Everything for writing an adapter: the contract, the tools that encode requests and decode replies, and the registry.

Content, messages and events have modules of their own: `dragoman.blocks`, `dragoman.messages`, `dragoman.events` and
`dragoman.errors`.
"""

from dragoman.adapter.context import RequestContext
from dragoman.adapter.contract import Adapter, Endpoint
from dragoman.adapter.facts.capabilities import (
    AdapterCapabilities,
    ModelTable,
    SchemaRule,
    Support,
    ThinkingPolicy,
    ToolIdRule,
    ToolNameRule,
)
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions, NamedTool
from dragoman.adapter.registry import adapter_class, get_adapter, providers, register_adapter
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame, JsonArrayDecoder, NdjsonDecoder, SseDecoder
from dragoman.adapter.replies.reply_builder import ReplyBuilder, UsageReader
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.requests.block_fields import BlockField
from dragoman.adapter.requests.option_table import OptionTable, record_cache_hint_loss, tool_choice
from dragoman.adapter.requests.request_builder import RequestBuilder, Target, fit_tool_schemas
from dragoman.adapter.requests.request_reader import HistoryReader, extra_fields
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire import Headers, WireChunk, WireRequest, WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.adapter.wirejson import dumps, loads_object, parse_arguments
from dragoman.canonical.tools import ToolDefinition

__all__ = [
    "Adapter",
    "AdapterCapabilities",
    "AdapterOptions",
    "BlockField",
    "Endpoint",
    "ErrorContext",
    "Frame",
    "Headers",
    "HistoryReader",
    "JsonArrayDecoder",
    "Loss",
    "LossKind",
    "ModelTable",
    "NamedTool",
    "NdjsonDecoder",
    "OptionTable",
    "ReplyBuilder",
    "RequestBuilder",
    "RequestContext",
    "SchemaRule",
    "Severity",
    "SseDecoder",
    "StreamDecoder",
    "Support",
    "Target",
    "ThinkingPolicy",
    "ToolDefinition",
    "ToolIdRule",
    "ToolNameRule",
    "Turn",
    "UsageReader",
    "WireAdapter",
    "WireChunk",
    "WireRequest",
    "WireResponse",
    "adapter_class",
    "dumps",
    "extra_fields",
    "fit_tool_schemas",
    "get_adapter",
    "loads_object",
    "parse_arguments",
    "providers",
    "record_cache_hint_loss",
    "register_adapter",
    "tool_choice",
]
