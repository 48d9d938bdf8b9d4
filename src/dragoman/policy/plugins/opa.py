"""Asks an Open Policy Agent: posts each part of a step to its data API; the part passes if the result allows it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.policy.plugin import Hook
from dragoman.policy.plugins.remote import NoDecisionError, RemotePlugin
from dragoman.policy.slots import Capability

if TYPE_CHECKING:
    import httpx


class OpaPolicy(RemotePlugin):
    """Posts ``{"input": view}`` to ``URL/v1/data/PATH``, once for each part and for each part inside it.

    The result is ``true`` or ``false``, or an object with ``allow`` and, optionally, ``reason``, ``code`` and
    ``labels``. Anything else denies: no result, because the path is then undefined, another status, an unreadable
    answer, or an agent that does not answer in time. The other arguments are those of `RemotePlugin`.
    """

    name = "opa"

    _denied_code = "opa_denied"
    _unavailable_code = "opa_unavailable"
    _described = "the policy agent"

    def __init__(
        self,
        url: str,
        path: str,
        *,
        hooks: Iterable[Hook | str] = tuple(Hook),
        capabilities: Iterable[Capability | str] = (),
        include_content: bool = True,
        include_arguments: bool = True,
        client: "httpx.Client | None" = None,
        headers: Mapping[str, str] | None = None,
        request_timeout: float = 5.0,
    ) -> None:
        """``request_timeout`` is in seconds, for each request. Raises ConfigurationError for an invalid URL or an empty
        path.
        """
        steps = path.strip("/").replace(".", "/")
        if not steps:
            raise ConfigurationError("an Open Policy Agent needs an http URL, and a path such as app/allow")
        super().__init__(
            f"{url.rstrip('/')}/v1/data/{steps}",
            hooks=hooks,
            capabilities=capabilities,
            include_content=include_content,
            include_arguments=include_arguments,
            client=client,
            headers=headers,
            request_timeout=request_timeout,
        )

    def _unwrap(self, answer: Any) -> Any:
        """Return the result. Without one, the path is undefined."""
        if not isinstance(answer, dict) or "result" not in answer:
            raise NoDecisionError("it has no such decision")
        return answer["result"]
