"""Asks a policy service in another process: posts each part of a step, and reads the decision. An Open Policy Agent
is one: its data API gets each part, which passes if the result allows it.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import get_logger, one_line
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy.labels import with_labels
from dragoman.policy.plugin import CheckResult, Hook, OnError, Plugin, Violation
from dragoman.policy.slots import Capability
from dragoman.policy.step import Step, iter_views_deep

if TYPE_CHECKING:
    import httpx

logger = get_logger("dragoman.policy")

_OK = 200
_MAX_REASON = 300
_MAX_ANSWER_BYTES = 1024 * 1024
"""Bytes. A decision needs far fewer."""


class NoDecisionError(Exception):
    """The text is our own, and quotes nothing that was received."""


class RemotePlugin(Plugin):
    """Posts ``{"input": view}`` to a URL, once for each part and for each part inside it.

    The answer is ``true`` or ``false``, or an object with ``allow`` and, optionally, ``reason``, ``code`` and
    ``labels`` to add; an answer may wrap it as ``{"result": ...}``. Anything else denies: another status, an unreadable
    answer, or a service that does not answer in time. With ``on_error="ignore"`` these let the step pass, with a
    warning in the log.

    Code that must not run in this process belongs behind such a URL: it receives what ``capabilities`` allow, and never
    secret headers or claims. Without ``include_content`` and ``include_arguments`` the content is not sent. ``client``
    is the program's own httpx client, with its certificates; ``headers``, such as an authorization, are sent with
    each request.
    """

    name = "remote"
    timeout: float | None = 30.0
    """Seconds for all parts of a step together. It also keeps the requests off the event loop."""

    _denied_code = "remote_denied"
    _unavailable_code = "remote_unavailable"
    _described = "the policy service"

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        hooks: Iterable[Hook | str] = tuple(Hook),
        capabilities: Iterable[Capability | str] = (),
        include_content: bool = True,
        include_arguments: bool = True,
        client: "httpx.Client | None" = None,
        headers: Mapping[str, str] | None = None,
        request_timeout: float = 5.0,
        on_error: OnError | str = OnError.DENY,
    ) -> None:
        """``request_timeout`` is in seconds, for each request. Raises ConfigurationError for an invalid URL."""
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"{self._described} needs a URL that starts with http:// or https://")
        self._url = url
        self.name = name or self.name
        self.hooks, self.capabilities = tuple(hooks), tuple(capabilities)
        self.on_error = on_error
        self._include = {"include_content": include_content, "include_arguments": include_arguments}
        self._client = client
        self._headers = dict(headers or {})
        self._request_timeout = request_timeout

    def check(self, step: Step) -> CheckResult:
        labels: set[str] = set()
        for view in iter_views_deep(step):
            try:
                decision = self._request_decision(view)
            except NoDecisionError as error:
                reason = f"{self._described} did not decide: {error}"
                if self.on_error != OnError.IGNORE:
                    return Violation(reason, code=self._unavailable_code)
                logger.warning("%s continues without the plugin %s: %s", step.hook, self.name, reason)
                continue
            if decision.get("allow") is not True:
                return Violation(
                    _short(decision.get("reason"), "the policy does not allow it"),
                    code=_short(decision.get("code"), self._denied_code),
                )
            labels |= set(decision.get("labels") or ())
        return with_labels(step.extensions, labels) if labels else None

    def _request_decision(self, view: MessageView) -> Mapping[str, Any]:
        """Return the decision as an object. Raises NoDecisionError if the answer is anything but a decision."""
        import httpx  # imported late, so that only users of a service pay for it

        if self._client is None:
            self._client = httpx.Client(follow_redirects=False)
        body = view.to_opa_input(**self._include)
        try:
            answer = self._client.post(self._url, json=body, headers=self._headers, timeout=self._request_timeout)
            if answer.status_code != _OK or len(answer.content) > _MAX_ANSWER_BYTES:
                raise NoDecisionError(f"it answered with the status {answer.status_code}")
            decided = self._unwrap(answer.json())
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise NoDecisionError(type(error).__name__) from None
        except (ValueError, RecursionError):
            raise NoDecisionError("its answer is not JSON") from None
        decision: Mapping[str, Any] = decided if isinstance(decided, dict) else {"allow": decided}
        if not isinstance(decision.get("allow"), bool):
            raise NoDecisionError("its decision is neither true nor false")
        labels = decision.get("labels")
        if labels is not None and not (
            isinstance(labels, list) and all(isinstance(each, str) and each for each in labels)
        ):
            raise NoDecisionError("its labels are not a list of texts")
        return decision

    def _unwrap(self, answer: Any) -> Any:
        return answer["result"] if isinstance(answer, dict) and "result" in answer else answer


def _short(text: Any, default: str) -> str:
    return one_line(text)[:_MAX_REASON] if isinstance(text, str) and text else default


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
