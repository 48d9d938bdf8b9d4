"""The models that Cohere lists (https://docs.cohere.com/reference/list-models)."""

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from dragoman.adapter.operations.operation import Operation
from dragoman.adapter.operations.service_api import ProviderModel, ServiceApi, read_integer, read_text


class CohereServiceApi(ServiceApi):
    offers: ClassVar[frozenset[str]] = frozenset({"models"})

    def models(self) -> Operation[tuple[ProviderModel, ...]]:
        return self.read_pages("/v1/models?page_size=1000", {}, "models", self._model, _next_query)

    def _model(self, native: Mapping[str, Any]) -> ProviderModel:
        return ProviderModel(
            id=f"{self.provider}:{read_text(native, 'name')}",
            max_input_tokens=read_integer(native, "context_length"),
            raw=native,
        )


def _next_query(page: Mapping[str, Any]) -> str:
    token = read_text(page, "next_page_token")
    return f"&page_token={quote(token, safe='')}" if token else ""
