"""A conversation written by hand: three models, tools, thinking, an image, a failure, and swaps with losses."""

import base64
import math
import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count

from dragoman import Message
from dragoman.canonical.blocks import (
    Citation,
    ImageBlock,
    MediaSource,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import MessageMetadata, Role, StopReason
from dragoman.canonical.usage import TokenUsage
from dragoman.pricing import price_table

OPUS, SOL, GEMINI = "anthropic:claude-opus-5-5", "openai:gpt-6.1-sol", "google:gemini-2.5-pro"
_START = datetime(2026, 11, 21, 9, 14, 3, tzinfo=UTC)

_SCRIPT = """**The gauge froze**, the harbour did not. Three things point to it:

1. The level is 2.31 m to the centimetre for eleven hours, through a whole tide.
2. The gauge at the pier, 400 m away, went on as the table predicts.
3. The battery fell under 3.3 V at 22:40, a minute before.

| gauge | at 22:40 | at 03:10 |
| --- | ---: | ---: |
| lock | 2.31 m | 2.31 m |
| pier | 2.38 m | 0.94 m |

This flags the same fault from now on:

```python
def stuck(levels: list[float], window: int = 12) -> bool:
    \"\"\"Whether the last readings are all the same: no tide stands still that long.\"\"\"
    last = levels[-window:]
    return len(last) == window and max(last) - min(last) < 0.01
```

Shall I open a ticket for the battery?"""


def conversation() -> list[Message]:
    """The messages; times, ids and images are the same each time."""
    return list(_messages())


def _messages() -> Iterator[Message]:
    ids, seconds = count(1), iter((0, 2, 9, 10, 21, 66, 71, 72, 83, 140, 152, 158, 166, 170, 230, 239))

    def message(role: Role, *content: object, **fields: object) -> Message:
        at = _START + timedelta(seconds=next(seconds))
        values = {"id": f"{next(ids):026d}", "session_id": "sess_tide", "created_at": at, **fields}
        return Message.model_validate({"role": role, "content": content, **values})

    def reply(model: str, *content: object, stop: StopReason = StopReason.END_TURN, **usage: int) -> Message:
        latency, raw = usage.pop("latency_ms"), {"by": model.partition(":")[0], "id": f"reply_{len(content)}"}
        priced = price_table().price(model, TokenUsage(**usage), _START).model_copy(update={"latency_ms": latency})
        metadata = MessageMetadata(model=model, provider=raw["by"], usage=priced, stop_reason=stop, provider_raw=raw)
        return message(Role.ASSISTANT, *content, metadata=metadata)

    yield message(Role.SYSTEM, TextBlock(text="You look after the tide gauges of the harbour. Say what you measured."))
    yield message(
        Role.USER,
        TextBlock(text="The gauge at the lock has looked odd since last night. What happened?"),
        ImageBlock(source=MediaSource(kind="base64", data=_tide_png()), media_type="image/png"),
    )
    yield reply(
        OPUS,
        ThinkingBlock(
            text="The curve turns flat at about 22:40 and stays flat. A tide does not do that, so the gauge is more"
            " likely to be wrong than the water. Compare with the neighbour at the pier, and look at the battery.",
            signature="c2lnbmVkIGJ5IGhhbmQ=",
        ),
        TextBlock(text="The curve goes flat at 22:40. I will compare it with the gauge at the pier."),
        ToolUseBlock(id=_id(1), name="read_gauge", input={"gauge": "lock", "since": "2026-11-20T20:00Z"}),
        ToolUseBlock(id=_id(2), name="read_gauge", input={"gauge": "pier", "since": "2026-11-20T20:00Z"}),
        stop=StopReason.TOOL_USE, input_tokens=412, cache_creation_input_tokens=1850, output_tokens=236,
        latency_ms=6810,
    )  # fmt: skip
    yield Message.tool(
        _id(1), "22:20  2.36\n22:30  2.33\n22:40  2.31\n22:50  2.31\n…      2.31\n09:10  2.31",
        id=f"{next(ids):026d}", created_at=_START + timedelta(seconds=next(seconds)),
    )  # fmt: skip
    yield Message.tool(
        _id(2), "the gauge 'pier' is known as 'pier-2' since May", is_error=True,
        id=f"{next(ids):026d}", created_at=_START + timedelta(seconds=next(seconds)),
    )  # fmt: skip
    yield reply(
        OPUS,
        ToolUseBlock(id=_id(3), name="read_gauge", input={"gauge": "pier-2", "since": "2026-11-20T20:00Z"}),
        stop=StopReason.TOOL_USE, input_tokens=318, cached_input_tokens=1850, output_tokens=71, latency_ms=2140,
    )  # fmt: skip
    yield Message.tool(
        _id(3), "22:40  2.30\n01:10  1.12\n04:20  0.41\n07:30  1.58\n09:10  2.27",
        id=f"{next(ids):026d}", created_at=_START + timedelta(seconds=next(seconds)),
    )  # fmt: skip
    yield reply(
        OPUS,
        RedactedThinkingBlock(data="c2VhbGVk"),
        TextBlock(
            text="The pier went through a whole tide while the lock stood at 2.31 m. The gauge is stuck.",
            citations=(
                Citation(kind="page_location", title="Tide table 2026", cited_text="Low water 04:18, 0.4 m"),
            ),
        ),
        input_tokens=402, cached_input_tokens=2168, output_tokens=188, latency_ms=4320,
    )  # fmt: skip
    yield message(Role.USER, TextBlock(text="Write that up with a check that would have caught it."))
    yield reply(
        SOL,
        ThinkingBlock(text="Three observations, then a short function. The window: readings come every ten minutes."),
        TextBlock(text=_SCRIPT),
        input_tokens=2904, output_tokens=612, reasoning_tokens=140, latency_ms=9480,
    )  # fmt: skip
    yield message(Role.USER, TextBlock(text="Yes, and tell me what the battery did."))
    yield reply(
        GEMINI,
        TextBlock(text="I look at the battery first, so that the ticket says what to bring."),
        ToolUseBlock(id=_id(4), name="read_battery", input={"gauge": "lock", "hours": 14}),
        ToolUseBlock(id=_id(5), name="open_ticket", input={"title": "Lock gauge: battery", "urgent": False}),
        stop=StopReason.TOOL_USE, input_tokens=3388, output_tokens=164, reasoning_tokens=52, latency_ms=3900,
    )  # fmt: skip
    yield Message.tool(
        _id(4), "3.61 V at 20:00, 3.31 V at 22:30, 3.24 V at 22:40, then no reading",
        id=f"{next(ids):026d}", created_at=_START + timedelta(seconds=next(seconds)),
    )  # fmt: skip
    yield Message.tool(
        _id(5), "HARBOUR-218",
        id=f"{next(ids):026d}", created_at=_START + timedelta(seconds=next(seconds)),
    )  # fmt: skip
    yield reply(
        GEMINI,
        TextBlock(text="It fell from 3.61 V to 3.24 V in under three hours and cut out at 22:40. HARBOUR-218 is open."),
        input_tokens=1288, cached_input_tokens=2304, output_tokens=93, latency_ms=2260,
    )  # fmt: skip


def _id(number: int) -> str:
    return f"tu_{number:026d}"


@cache
def _tide_png(width: int = 560, height: int = 120) -> str:
    """A chart of a tide that is constant from the middle on, as a PNG."""

    def level(x: int) -> float:
        at = min(x, width * 0.52)
        return height * (0.5 - 0.32 * math.sin(at / width * 4 * math.pi + 0.6))

    rows = []
    for y in range(height):
        row = bytearray([0])
        for x in range(width):
            distance = abs(y - level(x)) / math.hypot(1, level(x + 1) - level(x))
            if distance < 2.2:
                row += bytes((200, 90, 60) if x > width * 0.52 else (43, 92, 138))
            elif y % 34 == 17:
                row += bytes((226, 226, 222))
            elif y > level(x):
                row += bytes((232, 239, 245))
            else:
                row += bytes((252, 252, 250))
        rows.append(bytes(row))

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"".join(rows), 9)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + body).decode()
