"""Services of providers beside the conversation: exact token counts, stored files, the models that they list."""

from dragoman.adapter.operations.service_api import ProviderFile, ProviderModel
from dragoman.services.driver import AsyncServices, Services

__all__ = ["AsyncServices", "ProviderFile", "ProviderModel", "Services"]
