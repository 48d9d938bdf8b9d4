"""Writes pydantic_ai_*.json: `python make_pydantic_ai.py`, with pydantic-ai-slim[openai,anthropic] installed."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import (
    Agent,
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelRetry,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.messages import (
    CachePoint,
    Citation,
    CompactionPart,
    ContentCitationAnchor,
    FilePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    UploadedFile,
    WebCitationSource,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from scripted_server import serve

HERE = Path(__file__).parent
PIXEL = BinaryContent(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def agent(model: Any, *, stumbling: bool = False) -> Agent[None, str]:
    made = Agent(model, system_prompt="Be brief.", instructions="Answer in one sentence.", retries=2)
    cities: list[str] = []

    @made.tool_plain
    def weather(city: str) -> Any:
        """The weather in a city."""
        cities.append(city)
        if stumbling and len(cities) == 1:
            raise ModelRetry("the service is busy")
        return {"city": city, "sky": "rain" if city == "Bern" else "sun"}

    return made


def write(name: str, messages: Any, origin: str) -> None:
    data = ModelMessagesTypeAdapter.dump_json(messages, indent=1).decode()
    (HERE / f"pydantic_ai_{name}.json").write_text(data.replace(origin, "http://127.0.0.1:8080") + "\n")


def every_part() -> list[Any]:
    """Parts that the agents' runs do not have, as the library's own objects."""
    return [
        ModelRequest(
            timestamp=NOW,
            parts=[
                SystemPromptPart("Be brief.", timestamp=NOW),
                UserPromptPart(
                    [
                        "Look.",
                        TextContent("tagged", metadata={"source": "form"}),
                        PIXEL,
                        BinaryContent(data=b"\xfb\xff\xfe", media_type="audio/wav"),
                        BinaryContent(data=b"%PDF-1.7", media_type="application/pdf"),
                        ImageUrl("https://example.org/a.png"),
                        AudioUrl("https://example.org/a.mp3"),
                        VideoUrl("https://example.org/a.mp4"),
                        DocumentUrl("https://example.org/a.pdf"),
                        UploadedFile("file-1", "openai", media_type="application/pdf"),
                        CachePoint(),
                    ],
                    timestamp=NOW,
                ),
                SpeechPart(speaker="user", transcript="Hello?"),
            ],
        ),
        ModelResponse(
            timestamp=NOW,
            model_name="claude-sonnet-4-6",
            provider_name="anthropic",
            finish_reason="tool_call",
            parts=[
                NativeToolCallPart("web_search", {"query": "Bern"}, "srvtoolu_1", provider_name="anthropic"),
                NativeToolReturnPart(
                    "web_search",
                    [{"url": "https://example.org"}],
                    "srvtoolu_1",
                    provider_name="anthropic",
                    timestamp=NOW,
                ),
                TextPart(
                    "Rain.",
                    citations=[
                        Citation(
                            [WebCitationSource("https://example.org", title="Bern", excerpts=["It rains."])],
                            anchor=ContentCitationAnchor(start=0, end=5),
                        )
                    ],
                ),
                FilePart(PIXEL, id="img_1", provider_name="openai"),
                CompactionPart("What was said before.", provider_name="anthropic"),
                ToolCallPart("draw", '{"shape": ', "call_1"),
                ToolCallPart("draw", None, "call_2"),
            ],
        ),
        ModelRequest(
            timestamp=NOW,
            parts=[
                ToolReturnPart("draw", "cut off", "call_1", outcome="failed", timestamp=NOW),
                ToolReturnPart("draw", ["drawn", PIXEL], "call_2", timestamp=NOW),
            ],
        ),
    ]


def main() -> None:
    with serve() as origin:
        openai = OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{origin}/v1", api_key="none"))
        anthropic = AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=origin, api_key="none"))
        models = {
            "chat": OpenAIChatModel("gpt-4.1", provider=openai),
            "responses": OpenAIResponsesModel("gpt-6.1-sol", provider=openai),
            "anthropic": AnthropicModel("claude-sonnet-4-6", provider=anthropic),
        }
        for name, model in models.items():
            ran = agent(model, stumbling=name == "anthropic").run_sync("The weather in Bern and Ulm?")
            write(name, ran.all_messages(), origin)
        write("every_part", every_part(), origin)


if __name__ == "__main__":
    main()
