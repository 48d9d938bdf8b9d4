"""Asks an Open Policy Agent: posts each part of a step to its data API; the part passes if the result allows it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.guard import one_line
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy.plugin import Hook, Plugin, Violation
from dragoman.policy.plugins.inspect import iter_views_deep
from dragoman.policy.slots import Capability
from dragoman.policy.step import Step

if TYPE_CHECKING:
    import httpx

_OK = 200
_MAX_REASON = 300
_MAX_ANSWER_BYTES = 1024 * 1024
"""Bytes. A decision needs far fewer."""


class OpaPolicy(Plugin):
    """Posts ``{"input": view}`` to ``URL/v1/data/PATH``, once for each part and for each part inside it.

    The result is ``true`` or ``false``, or an object with ``allow`` and, optionally, ``reason`` and ``code``. Anything
    else denies: no result, because the path is then undefined, another status, an unreadable answer, or an agent
    that does not answer in time.

    ``capabilities`` say which context is sent; secret headers and claims are never sent. Without ``include_content``
    and ``include_arguments`` the content is not sent. ``client`` is the program's own httpx client, with its
    certificates; ``headers``, such as an authorization, are sent with each request.
    """

    name = "opa"
    timeout: float | None = 30.0
    """Seconds for all parts of a step together. It also keeps the requests off the event loop."""

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
        if not url.startswith(("http://", "https://")) or not steps:
            raise ConfigurationError("an Open Policy Agent needs an http URL, and a path such as app/allow")
        self._url = f"{url.rstrip('/')}/v1/data/{steps}"
        self.hooks, self.capabilities = tuple(hooks), tuple(capabilities)
        self._include = {"include_content": include_content, "include_arguments": include_arguments}
        self._client = client
        self._headers = dict(headers or {})
        self._request_timeout = request_timeout

    def check(self, step: Step) -> Violation | None:
        for view in iter_views_deep(step):
            violation = self._request_decision(view)
            if violation is not None:
                return violation
        return None

    def _request_decision(self, view: MessageView) -> Violation | None:
        import httpx  # imported late, so that only users of an agent pay for it

        if self._client is None:
            self._client = httpx.Client(follow_redirects=False)
        body = view.to_opa_input(**self._include)
        try:
            answer = self._client.post(self._url, json=body, headers=self._headers, timeout=self._request_timeout)
            if answer.status_code != _OK or len(answer.content) > _MAX_ANSWER_BYTES:
                return _unavailable_violation(f"it answered with the status {answer.status_code}")
            return _read_decision(answer.json())
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            return _unavailable_violation(type(error).__name__)
        except (ValueError, RecursionError):
            return _unavailable_violation("its answer is not JSON")


def _read_decision(answer: Any) -> Violation | None:
    if not isinstance(answer, dict) or "result" not in answer:
        return _unavailable_violation("it has no such decision")
    result = answer["result"]
    allow = result.get("allow") if isinstance(result, dict) else result
    if allow is True:
        return None
    if allow is not False:
        return _unavailable_violation("its decision is neither true nor false")
    details = result if isinstance(result, dict) else {}
    reason, code = details.get("reason"), details.get("code")
    return Violation(
        one_line(reason)[:_MAX_REASON] if isinstance(reason, str) and reason else "the policy does not allow it",
        code=one_line(code)[:_MAX_REASON] if isinstance(code, str) and code else "opa_denied",
    )


def _unavailable_violation(what: str) -> Violation:
    return Violation(f"the policy agent did not decide: {what}", code="opa_unavailable")
