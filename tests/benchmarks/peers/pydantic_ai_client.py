"""pydantic-ai, by its direct requests to a model: an agent would run the tools as well."""

# mypy: disable-error-code="import-not-found"
from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelRequest,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from tests.benchmarks.peers.tasks import DESCRIPTION, KEY, PARAMETERS, QUESTION, Client, model

_SETTINGS = ModelSettings(max_tokens=100)
"""With more, or no limit, it would request a stream from Claude."""
_TOOL = ToolDefinition(name="write", description=DESCRIPTION, parameters_json_schema=PARAMETERS)


def _model_factory(wire: str) -> Callable[[str], Any]:
    """A function from a base URL to a model. Only the wire's own package is imported, as in a program that uses it."""
    if wire == "messages":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        def claude(base: str) -> Any:
            client = AsyncAnthropic(base_url=base, api_key=KEY, max_retries=0)
            return AnthropicModel(model(wire), provider=AnthropicProvider(anthropic_client=client))

        return claude

    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIResponsesModel if wire == "responses" else OpenAIChatModel

    def gpt(base: str) -> Any:
        client = AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
        return kind(model(wire), provider=OpenAIProvider(openai_client=client))

    return gpt


class Direct:
    def __init__(self, wire: str) -> None:
        self._model = cache(_model_factory(wire))

    async def call(self, base: str) -> str:
        messages = [ModelRequest.user_text_prompt(QUESTION)]
        reply = await model_request(self._model(base), messages, model_settings=_SETTINGS)
        return "".join(part.content for part in reply.parts if isinstance(part, TextPart))

    async def stream(self, base: str, *, tools: bool) -> str:
        pieces: list[str] = []
        parameters = ModelRequestParameters(function_tools=[_TOOL] if tools else [])
        messages = [ModelRequest.user_text_prompt(QUESTION)]
        async with model_request_stream(
            self._model(base), messages, model_settings=_SETTINGS, model_request_parameters=parameters
        ) as events:
            async for event in events:
                match event:
                    case PartStartEvent(part=TextPart(content=str(text))):
                        pieces.append(text)
                    case PartStartEvent(part=ToolCallPart(args=str(text))):
                        pieces.append(text)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                        pieces.append(text)
                    case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(text))):
                        pieces.append(text)
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Direct(wire)
