"""The demo's script: the same prompts are recorded from a real server and replayed from the cassette."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from dragoman.canonical.ids import format_ulid
from dragoman.session import Tool, tool

RECORDED_MODEL = "qwen2.5-coder-0.5b"
"""The model behind the recorded server (llama.cpp), which serves three providers' wires."""

CASSETTE = "llama-server/swap/three_wires.yaml"

LOCAL_MODEL = "local:smollm2-135m"


@dataclass(frozen=True, slots=True)
class Part:
    """One turn of the demo: the provider's wire and the user's prompt."""

    provider: str
    wire: str
    prompt: str

    @property
    def model(self) -> str:
        return f"{self.provider}:{RECORDED_MODEL}"


FREE_SERVER = {
    provider: {
        "source": "the recorded server ran on the machine that recorded it",
        "checked": date(2026, 11, 21),
        "model": [{"id": RECORDED_MODEL, "match": {"equals": [RECORDED_MODEL]}, "prices": [{"free": True}]}],
    }
    for provider in ("anthropic", "openai")
}
"""A price overlay: the recorded model was free on every wire."""

RECORDED_PARTS = (
    Part("anthropic", "Anthropic's Messages", "Use read_file to read config.toml and tell me the port."),
    Part("openai", "OpenAI's Responses", "Add 17 and 25 with the add tool."),
    Part("openai-chat", "OpenAI's Chat Completions", "Use read_file to read notes.txt and tell me the day."),
)

LOCAL_PROMPT = "Use the add tool to add 8080 and 1."

FILES = {
    "config.toml": "port = 8080",
    "notes.txt": "The new port goes live on Monday.",
}


@tool(side_effects="read")
def read_file(path: str) -> str:
    """Read a text file and return its content.

    Args:
        path: Path of the file.
    """
    if path not in FILES:
        raise FileNotFoundError(f"{path}; there are {', '.join(FILES)}")
    return FILES[path]


@tool(side_effects="none")
def add(a: float, b: float) -> str:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return f"{a + b:g}"


TOOLS: tuple[Tool, ...] = (read_file, add)

BASE_PATHS = {"anthropic": "", "openai": "/v1", "openai-chat": "/v1"}
"""The path after the recorded server's origin in each provider's base URL."""


def sequential_ids() -> Callable[[], str]:
    """The same ids in every run, so that a replayed request equals the recorded one."""
    numbers: Iterator[int] = iter(range(1, 1 << 30))
    return lambda: format_ulid(next(numbers))


def ticking_clock() -> Callable[[], datetime]:
    """A clock that advances by a millisecond at each reading."""
    ticks: Iterator[int] = iter(range(1 << 30))
    start = datetime(2026, 11, 21, tzinfo=UTC)
    return lambda: start + timedelta(milliseconds=next(ticks))
