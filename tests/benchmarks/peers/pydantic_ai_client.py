"""pydantic-ai, by its direct requests to a model: an agent would run the tools as well."""

# mypy: disable-error-code="import-not-found"
from functools import cache

from openai import AsyncOpenAI
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
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from tests.benchmarks.peers.asking import DESCRIPTION, KEY, PARAMETERS, QUESTION, Client, model

_TOOL = ToolDefinition(name="write", description=DESCRIPTION, parameters_json_schema=PARAMETERS)


class Direct:
    def __init__(self, wire: str) -> None:
        def made(base: str) -> OpenAIChatModel:
            client = AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
            return OpenAIChatModel(model(wire), provider=OpenAIProvider(openai_client=client))

        self._model = cache(made)

    async def call(self, base: str) -> str:
        reply = await model_request(self._model(base), [ModelRequest.user_text_prompt(QUESTION)])
        return "".join(part.content for part in reply.parts if isinstance(part, TextPart))

    async def stream(self, base: str, *, tools: bool) -> str:
        pieces: list[str] = []
        parameters = ModelRequestParameters(function_tools=[_TOOL] if tools else [])
        asked = [ModelRequest.user_text_prompt(QUESTION)]
        async with model_request_stream(self._model(base), asked, model_request_parameters=parameters) as events:
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
