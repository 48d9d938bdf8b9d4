"""Token counts (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html)."""

import base64
from typing import ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.operations.operation import Operation, post_request
from dragoman.adapter.operations.service_api import ServiceApi
from dragoman.adapter.wire import WireRequest

_CONVERSE_FIELDS = ("messages", "system", "toolConfig", "additionalModelRequestFields")
"""The fields of Converse that are counted; others are refused."""


class BedrockServiceApi(ServiceApi):
    """Counts the request of Converse or of InvokeModel. Its list of models is on another host."""

    offers: ClassVar[frozenset[str]] = frozenset({"count_tokens"})

    def count_tokens(self, request: WireRequest) -> Operation[int]:
        model, _, operation = request.path.rpartition("/")
        if operation.startswith("converse"):
            native = wirejson.loads_object(request.body)
            counted = {"converse": {name: native[name] for name in _CONVERSE_FIELDS if name in native}}
        else:
            counted = {"invokeModel": {"body": base64.b64encode(request.body).decode()}}
        reply = yield post_request(f"{model}/count-tokens", wirejson.dumps({"input": counted}), request.headers)
        return self.require_count(self.parse(reply), "inputTokens")
