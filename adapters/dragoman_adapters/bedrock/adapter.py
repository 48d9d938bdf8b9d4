"""The adapter for Amazon Bedrock's runtime."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.replies.error_context import ErrorContext, parse_error_body
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder, wrap_malformed
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_reader import HistoryReader, parse_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.anthropic import decode as anthropic
from dragoman_adapters.bedrock import claude, decode, encode, errors
from dragoman_adapters.bedrock.body_formats import BodyFormat, detect_format, drop_other_formats, request_path
from dragoman_adapters.bedrock.capabilities import LISTED_MODELS, capabilities
from dragoman_adapters.bedrock.options import MERGED_FIELDS
from dragoman_adapters.bedrock.stream import BedrockStreamDecoder

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
    listed_models: ClassVar[tuple[str, ...]] = LISTED_MODELS

    @property
    def capabilities(self) -> AdapterCapabilities:
        return capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        form = detect_format(options.extra.get(self.provider, {}))
        request, tools = prepare_request(self.target, messages, tools, options)
        drop_other_formats(request, form)
        body = (claude if form is BodyFormat.MESSAGES else encode).encode_body(request, tools)
        if body.get("system") and not options.extra.get(self.provider, {}).get("system"):
            request.drop_extra("system")
        headers = {"accept": _EVENT_STREAM} if options.stream else {}
        return request.build(request_path(self.model, form, stream=options.stream), body, headers, merged=MERGED_FIELDS)

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with wrap_malformed(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = wirejson.loads_object(response.body)
            reply = ReplyBuilder(context, self.provider)
            if native.get("type") == "message":
                return claude.decode_message(native, reply)
            return decode.decode_message(native, reply)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return BedrockStreamDecoder(self.provider, context)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = parse_request(body)
        with wrap_malformed(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            form = anthropic if detect_format(native) is BodyFormat.MESSAGES else decode
            form.decode_history(native, reader)
            tools = form.decode_tools(native, self.provider)
            return reader.messages, tools, form.decode_options(native, self.target, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.decode_reply_error(
            parse_error_body(body), ErrorContext(self.provider, self.model, status, headers, body)
        )
