"""The models that an Ollama server has (https://docs.ollama.com/api/tags)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from dragoman.adapter.operations.operation import Operation
from dragoman.adapter.operations.service_api import ProviderModel, ServiceApi, read_text, read_time


class OllamaServiceApi(ServiceApi):
    offers: ClassVar[frozenset[str]] = frozenset({"models"})

    def models(self) -> Operation[tuple[ProviderModel, ...]]:
        return self.read_pages("/api/tags", {}, "models", self._model, lambda page: "")

    def _model(self, native: Mapping[str, Any]) -> ProviderModel:
        name = read_text(native, "name")
        return ProviderModel(id=f"{self.provider}:{name}", created_at=read_time(native.get("modified_at")), raw=native)
