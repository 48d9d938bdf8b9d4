"""The adapter for Amazon Bedrock's runtime."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.beginning import begin
from dragoman.adapter.capabilities import AdapterCapabilities
from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.decoding import StreamDecoder, reading
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.failures import Origin, error_object
from dragoman.adapter.incoming import HistoryReader, request_object
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_anthropic import decode as anthropic
from dragoman_bedrock import claude, decode, encode, errors
from dragoman_bedrock.capabilities import LISTED, capabilities
from dragoman_bedrock.forms import Form, fit, form_of, path
from dragoman_bedrock.parameters import MERGED
from dragoman_bedrock.stream import BedrockDecoder

_EVENT_STREAM = "application/vnd.amazon.eventstream"


class BedrockAdapter(Adapter):
    """Converse with any model, or InvokeModel with Claude and Nova; see `forms` for how one is chosen.

    The model is a model id, an inference profile or an ARN. See https://docs.aws.amazon.com/bedrock/latest/APIReference.
    """

    provider: ClassVar[str] = "bedrock"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://bedrock-runtime.{AWS_REGION}.amazonaws.com",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    )
    listed_models: ClassVar[tuple[str, ...]] = LISTED

    @property
    def capabilities(self) -> AdapterCapabilities:
        return capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        form = form_of(options.extra.get(self.provider, {}))
        request, tools = begin(self, messages, tools, options)
        fit(request, form)
        body = (claude if form is Form.MESSAGES else encode).body(request, tools)
        if body.get("system") and not options.extra.get(self.provider, {}).get("system"):
            request.overrule("system")
        headers = {"accept": _EVENT_STREAM} if options.stream else {}
        return request.wire(path(self.model, form, stream=options.stream), body, headers, merged=MERGED)

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with reading(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = wirejson.loads_object(response.body)
            reply = Reply(context, self.provider)
            if native.get("type") == "message":
                return claude.message(native, reply)
            return decode.message(native, reply)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return BedrockDecoder(self.provider, context)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = request_object(body)
        with reading(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            form = anthropic if form_of(native) is Form.MESSAGES else decode
            form.history(native, reader)
            tools = form.tools(native, self.provider)
            return reader.messages, tools, form.options(native, self, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.from_reply(error_object(body), Origin(self.provider, self.model, status, headers, body))
