"""One reply per wire, written by hand after the reference of the wire, with places for test values.

``"@text"`` is the answer's text, ``"@count"`` a number of tokens, ``"@odd"`` an unknown field and ``"@args"`` the
arguments of a call: a JSON value, or a text with one in it if the wire has it so.
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.laws.hardening.json_bombs import quote

SLOTS = ("text", "count", "odd", "args")
_USUAL = {"text": b'"hi"', "count": b"3", "odd": b"null", "args": b'{"a":1}'}


@dataclass(frozen=True)
class WireTemplate:
    """``pieces``: the stream's payloads; ``frame`` makes an event of each.

    ``as_text``: a whole reply's arguments are a text; ``in_pieces``: a stream's.
    """

    provider: str
    whole: str
    pieces: tuple[str, ...]
    frame: Callable[[bytes], bytes]
    as_text: bool = False
    in_pieces: bool = True

    def reply(self, place: str, value: bytes) -> bytes:
        return _fill(self.whole, place, value, self.as_text)

    def stream(self, place: str, value: bytes) -> bytes:
        return b"".join(self.frame(_fill(piece, place, value, self.in_pieces)) for piece in self.pieces)


def _fill(template: str, place: str, value: bytes, as_text: bool) -> bytes:
    filled = template.encode()
    for name, put in {**_USUAL, place: value}.items():
        filled = filled.replace(b'"@%s"' % name.encode(), quote(put) if name == "args" and as_text else put)
    return filled


def _sse(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def _line(payload: bytes) -> bytes:
    return payload + b"\n"


def _aws(payload: bytes) -> bytes:
    """A binary message whose event type is the payload's only key."""
    kind = payload[2 : payload.index(b'"', 2)]
    inner = payload[payload.index(b":") + 1 : -1]
    headers = b"".join(
        bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(text)) + text
        for name, text in (
            (b":event-type", kind),
            (b":message-type", b"event"),
            (b":content-type", b"application/json"),
        )
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(inner), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + inner
    return message + struct.pack(">I", zlib.crc32(message))


_CHAT_CALL = '[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"@args"}}]'
_CHAT_USAGE = '{"prompt_tokens":"@count","completion_tokens":2,"total_tokens":5}'
_ITEMS = (
    (
        '{"type":"message","id":"m1","role":"assistant","status":"completed","content":[{"type":"output_text",'
        '"text":"@text","annotations":[]}]}'
    ),
    '{"type":"function_call","id":"f1","call_id":"c1","name":"f","arguments":"@args","status":"completed"}',
)
_RESPONSE = (
    '{"id":"r1","object":"response","status":"completed","model":"m","odd":"@odd","output":[' + ",".join(_ITEMS) + "],"
    '"usage":{"input_tokens":"@count","output_tokens":2,"total_tokens":5}}'
)
_PARTS = '[{"text":"@text"},{"functionCall":{"name":"f","args":"@args"}}]'
_GEMINI = (
    '{"candidates":[{"content":{"parts":' + _PARTS + ',"role":"model"},"finishReason":"STOP"}],"odd":"@odd",'
    '"usageMetadata":{"promptTokenCount":"@count","candidatesTokenCount":2,"totalTokenCount":5},"modelVersion":"m"}'
)
_COHERE_CALL = '{"id":"c1","type":"function","function":{"name":"f","arguments":"@args"}}'
_COHERE_USAGE = '{"tokens":{"input_tokens":"@count","output_tokens":2}}'
_OLLAMA_SAID = '{"role":"assistant","content":"@text","tool_calls":[{"function":{"name":"f","arguments":"@args"}}]}'
_OLLAMA = (
    '{"model":"m","created_at":"2026-11-21T12:00:00Z","message":' + _OLLAMA_SAID + ',"done":true,"done_reason":"stop",'
    '"odd":"@odd","prompt_eval_count":"@count","eval_count":2}'
)
_BEDROCK_USAGE = '{"inputTokens":"@count","outputTokens":2,"totalTokens":5}'

WIRES = [
    WireTemplate(
        "openai-chat",
        '{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"@text","tool_calls":'
        + _CHAT_CALL + '},"finish_reason":"tool_calls"}],"odd":"@odd","usage":' + _CHAT_USAGE + "}",
        (
            '{"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"@text"}}],"odd":"@odd"}',
            '{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":' + _CHAT_CALL + "}}]}",
            '{"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
            '{"id":"x","model":"m","choices":[],"usage":' + _CHAT_USAGE + "}",
            "[DONE]",
        ),
        _sse,
        as_text=True,
    ),
    WireTemplate(
        "openai",
        _RESPONSE,
        (
            '{"type":"response.created","response":{"id":"r1","status":"in_progress","model":"m","output":[]}}',
            ('{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m1","role":'
            '"assistant","status":"in_progress","content":[]}}'),
            ('{"type":"response.content_part.added","item_id":"m1","output_index":0,"content_index":0,"part":'
            '{"type":"output_text","text":"","annotations":[]}}'),
            '{"type":"response.output_text.delta","item_id":"m1","output_index":0,"content_index":0,"delta":"@text"}',
            '{"type":"response.output_item.done","output_index":0,"item":' + _ITEMS[0] + "}",
            ('{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"f1",'
            '"call_id":"c1","name":"f","arguments":"","status":"in_progress"}}'),
            '{"type":"response.function_call_arguments.delta","item_id":"f1","output_index":1,"delta":"@args"}',
            '{"type":"response.output_item.done","output_index":1,"item":' + _ITEMS[1] + "}",
            '{"type":"response.completed","response":' + _RESPONSE + "}",
        ),
        _sse,
        as_text=True,
    ),
    WireTemplate(
        "anthropic",
        '{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"@text"},'
        '{"type":"tool_use","id":"toolu_1","name":"f","input":"@args"}],"stop_reason":"tool_use","odd":"@odd",'
        '"usage":{"input_tokens":"@count","output_tokens":2}}',
        (
            ('{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],'
            '"odd":"@odd","usage":{"input_tokens":"@count","output_tokens":1}}}'),
            '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
            '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@text"}}',
            '{"type":"content_block_stop","index":0}',
            ('{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"f",'
            '"input":{}}}'),
            '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"@args"}}',
            '{"type":"content_block_stop","index":1}',
            '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}',
            '{"type":"message_stop"}',
        ),
        _sse,
    ),
    WireTemplate("google", _GEMINI, (_GEMINI,), _sse, in_pieces=False),
    WireTemplate(
        "cohere",
        '{"id":"x","finish_reason":"TOOL_CALL","odd":"@odd","message":{"role":"assistant","content":[{"type":"text",'
        '"text":"@text"}],"tool_calls":[' + _COHERE_CALL + ']},"usage":' + _COHERE_USAGE + "}",
        (
            '{"type":"message-start","id":"x","odd":"@odd","delta":{"message":{"role":"assistant","content":[]}}}',
            '{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}',
            '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"@text"}}}}',
            '{"type":"content-end","index":0}',
            '{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":' + _COHERE_CALL + "}}}",
            '{"type":"tool-call-end","index":0}',
            '{"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":' + _COHERE_USAGE + "}}",
        ),
        _sse,
        as_text=True,
    ),
    WireTemplate("ollama", _OLLAMA, (_OLLAMA,), _line, in_pieces=False),
    WireTemplate(
        "bedrock",
        '{"output":{"message":{"role":"assistant","content":[{"text":"@text"},{"toolUse":{"toolUseId":"t1","name":"f",'
        '"input":"@args"}}]}},"stopReason":"tool_use","odd":"@odd","usage":' + _BEDROCK_USAGE + "}",
        (
            '{"messageStart":{"role":"assistant"}}',
            '{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":"@text"},"odd":"@odd"}}',
            '{"contentBlockStop":{"contentBlockIndex":0}}',
            '{"contentBlockStart":{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t1","name":"f"}}}}',
            '{"contentBlockDelta":{"contentBlockIndex":1,"delta":{"toolUse":{"input":"@args"}}}}',
            '{"contentBlockStop":{"contentBlockIndex":1}}',
            '{"messageStop":{"stopReason":"tool_use"}}',
            '{"metadata":{"usage":' + _BEDROCK_USAGE + "}}",
        ),
        _aws,
    ),
]  # fmt: skip
