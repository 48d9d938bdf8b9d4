"""Headers that every request of a task carries, for what stands between programs and providers, such as a gateway."""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

TASK_HEADERS: ContextVar[Mapping[str, str]] = ContextVar("task_headers", default=MappingProxyType({}))
"""Headers that are added to each request over HTTP that the present task, or one that it starts, sends to any provider.
They win over headers of the same name."""
