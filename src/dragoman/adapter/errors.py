"""The root of all errors, and the errors of requests and replies; `dragoman.errors` has those of all packages.

Each class has one meaning, whether the error came as an HTTP status or inside a stream.

DragomanError
├── ConfigurationError          the program is set up wrongly
│   ├── UnknownProviderError    no adapter of that name is installed
│   ├── MissingKeyError         no API key was given or found
│   └── MissingExtraError       an optional part is not installed
├── ToolSchemaError             tool definitions outside the schema subset, all problems at once
├── ProjectionError             the history cannot be sent to that model
│   ├── CriticalLossError       a block marked critical would be lost
│   ├── SwapRefusedError        the model to swap to cannot carry the history
│   └── CompactionError         a summary cannot make the history fit
├── NoModelError                no candidate can answer the turn; it did not start
├── RequestError                an argument that a request cannot contain
│   ├── CallNotPendingError     a result is for a call that does not wait for one
│   └── UnsupportedToolError    a server tool, or a setting that restricts it, that the model lacks
├── UnsupportedReplyError       the adapter writes no replies for clients
├── EventError                  an object that is not an event of the catalogue
│   └── EventOverflowError      a handler was too slow and missed an event
├── BatchPendingError           the answers of a batch were requested before it ended
├── TurnLimitError              a turn used all its allowed rounds of tool calls
├── PendingCallsError           the answer was read while tool calls wait for their results
├── BudgetExceededError         a request could cost more than a budget has left; it was not sent
│   └── UnpricedModelError      a budget in dollars, and a model without a known price
└── ProviderError               the provider failed, or the connection to it
    ├── AuthenticationError     401: the key is wrong or missing
    │   ├── PermissionDeniedError   403: the key lacks the permission
    │   └── CredentialsError        the credentials for the request could not be had; nothing was sent
    ├── BillingError            402: the account has no credit
    ├── RateLimitError          429: too many requests
    │   └── OverloadedError     529, 503: the provider has no capacity
    ├── ContextOverflowError    the request is larger than the model's window
    ├── InvalidRequestError     400, 422: the provider rejects the request
    │   ├── NotFoundError       404: the model or path does not exist
    │   └── ExpiredReferenceError   what the request names is gone: a container, a file
    ├── ContentFilterError      the provider's filter blocked the request
    ├── ServerError             5xx
    ├── NetworkError            no reply, or a part of one
    │   ├── RequestTimeoutError     408, or no data in time
    │   ├── StreamTruncatedError    the stream ended without its terminal event
    │   └── UnexpectedPageError     a page for a browser came in place of a reply
    ├── MalformedReplyError     the reply does not follow the provider's protocol
    │   └── FrameTooLargeError      one frame, or the whole body, is over the cap
    ├── RequestCancelledError   the caller cancelled
    └── UnclassifiedError       none of the above

Messages never hold a key; the provider's own text is masked and truncated.
"""

import re
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.canonical.log import one_line

if TYPE_CHECKING:
    from dragoman.canonical.usage import Usage

_MAX_MESSAGE = 600
# A key may be cut at the end of what is searched; that end is never shown, unless masking shortened the text much.
_MAX_SEARCHED = 16 * _MAX_MESSAGE
SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk|gsk|xai|ghp|gho|ghs|glpat|hf|r8|nvapi|pplx|csk|fw)[-_][A-Za-z0-9*_\-]{6,}"  # keys by their prefix
    r"|github_pat_\w{6,}|AIza[\w\-]{10,}|ya29\.[\w\-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{12,}"  # GitHub, Google, AWS
    r"|eyJ[\w\-]{8,}\.[\w\-.]+"  # JSON web tokens
    r"|(?i:bearer)\s+[\w.\-+/=~]{8,}|(?i:basic)\s+[\w+/=]{16,}"
    r")"
    # A value that its name calls a secret, whatever it looks like.
    r"|(?P<name>(?i:api[-_ ]?key|token|secret|password|authorization)[\"']?\s*[:=]\s*[\"']?)[\w.\-+/=~]{16,}"
)


def mask_secrets(text: str) -> str:
    """Mask the keys in use and everything that looks like a key, and truncate the text to 600 characters."""
    from dragoman.adapter.known_keys import mask_known_keys  # imported late: a list of commands has no keys

    masked = SECRET.sub(lambda found: (found["name"] or "") + "***", mask_known_keys(text[:_MAX_SEARCHED]))
    return masked if len(masked) <= _MAX_MESSAGE else masked[:_MAX_MESSAGE] + "…"


class DragomanError(Exception):
    """The root of every error that this library raises on purpose. All of them can be pickled."""

    sent: bool | None = None
    """Whether the request that the error is about reached the provider. False: nothing was sent, so nothing is billed.
    True: the provider answered it. None: unknown, as after a connection that broke while it waited, so it may have been
    billed; or the error is not about a request."""
    embedded: Any = None
    """What `embed` had before it failed: `PartialEmbeddings`, which a second call can complete."""

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[DragomanError], args: tuple[Any, ...], fields: dict[str, Any]) -> DragomanError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class ConfigurationError(DragomanError):
    """The program is set up wrongly. The message says what to change; nothing was sent."""

    sent = False


class UnknownProviderError(ConfigurationError):
    """No adapter of that name is installed. The message has the nearest names."""


class MissingKeyError(ConfigurationError):
    """No API key was given or found. The message says how to provide one."""


class MissingExtraError(ConfigurationError):
    """An optional part is not installed. The message has the command that installs it."""


class ToolSchemaError(DragomanError):
    """A tool's definition is outside the schema subset, or its name is taken. ``problems`` has every fault as ``path:
    what``, e.g. ``$.properties.x: unknown keyword 'oneOf'``."""

    sent = False

    def __init__(self, name: str, problems: list[str]) -> None:
        self.name = name
        """The name of the tool."""
        self.problems = tuple(problems)
        super().__init__(f"the tool {name!r} cannot be registered:\n  " + "\n  ".join(problems))


class ProjectionError(DragomanError):
    """The history cannot be sent to that model. Nothing was sent."""

    sent = False


class CriticalLossError(ProjectionError):
    """A block that `MessageMetadata.critical` marks would be lost. Nothing was sent."""


class SwapRefusedError(ProjectionError):
    """The model to swap to cannot carry the history. ``reasons`` lists every reason."""

    def __init__(self, model: str, reasons: list[str]) -> None:
        self.model = model
        """The model that the session cannot move to, as ``provider:name``."""
        self.reasons = tuple(reasons)
        sentences = [re.sub(r": ([a-z]+(?:_[a-z]+)+)$", r" (\1)", reason) for reason in reasons]  # names go last
        super().__init__(f"the session cannot move to {model}, because {', and '.join(sentences)}")


class CompactionError(ProjectionError):
    """A summary cannot make the history fit. ``reply`` is the summary that could not be used, if there is one: it has
    been paid for."""

    def __init__(self, message: str, reply: Any = None) -> None:
        self.reply = reply
        self.sent = reply is not None
        super().__init__(message)


class NoModelError(DragomanError):
    """No candidate can answer the turn, which did not start. Nothing was sent. ``candidates`` are the models in the
    order in which they were considered, each with the rule that proposed it and the reasons against it, by name and as
    text.
    """

    sent = False

    def __init__(self, candidates: Iterable[tuple[str, str, tuple[tuple[str, str], ...]]]) -> None:
        self.candidates = tuple(candidates)
        lines = []
        for model, by, against in self.candidates:
            reasons = "; ".join(f"{name}: {why}" for name, why in against)
            lines.append(f"{model} ({by}): {reasons}")
        super().__init__(
            "no model can take this turn; considered were:\n  " + "\n  ".join(lines)
            if lines
            else "no model can take this turn: none was requested, and there is no default"
        )

    @property
    def reasons(self) -> dict[str, tuple[str, ...]]:
        """The names of the reasons against each model."""
        return {model: tuple(name for name, _ in against) for model, _, against in self.candidates}


class RequestError(DragomanError):
    """An argument of a call that a request cannot contain. Nothing was sent."""

    sent = False


class UnsupportedToolError(RequestError):
    """The model lacks a server tool, or a setting that restricts one. Nothing was sent."""

    def __init__(self, message: str, *, provider: str = "", model: str = "") -> None:
        self.provider = provider
        """The name of the provider; empty if it is not known."""
        self.model = model
        """The model that was asked, as ``provider:name``; empty if it is not known."""
        super().__init__(message)


class UnsupportedReplyError(DragomanError):
    """The adapter reads replies of its provider, but cannot write replies for clients."""

    sent = False

    def __init__(self, provider: str) -> None:
        self.provider = provider
        """The name of the provider whose wire cannot be written."""
        super().__init__(
            f"the adapter {provider} writes no replies for clients: Chat Completions (openai-chat and its dialects),"
            " Responses (openai), Messages (anthropic), generateContent (google) and Ollama's chat (ollama) have them"
        )


class BatchPendingError(DragomanError):
    """The answers of a batch were requested before it ended. `Batches.wait` waits for the end."""


class EventError(DragomanError):
    """An object is not an event of the catalogue. Source: docs/reference/routing-and-events.md."""


class EventOverflowError(EventError):
    """A handler was too slow for the bus and missed an event. Turns go on."""


class TurnLimitError(DragomanError):
    """A turn used all its allowed rounds of tool calls. Its messages are kept."""


class CallNotPendingError(RequestError):
    """A result is for a call that does not wait for one. ``answered``: it has its result already. ``pending`` are the
    ids of the calls that wait. Nothing was kept or sent."""

    def __init__(self, tool_use_id: str, pending: Iterable[str] = (), *, answered: bool = False) -> None:
        self.tool_use_id = tool_use_id
        """The id of the call that the result was given for."""
        self.pending = tuple(pending)
        self.answered = answered
        why = "has its result already" if answered else "does not wait for a result"
        waiting = f"these wait: {', '.join(self.pending):.300}" if self.pending else "no call waits"
        super().__init__(f"the call {tool_use_id!r:.80} {why}; {waiting}")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), answered=self.answered), (self.tool_use_id, self.pending), self.__dict__


class PendingCallsError(DragomanError):
    """The answer was read while tool calls wait for their results. ``calls`` are these calls."""

    def __init__(self, message: str, calls: Iterable[Any] = ()) -> None:
        self.calls = tuple(calls)
        super().__init__(message)


class BudgetExceededError(DragomanError):
    """A request could cost more than a budget has left. Nothing was sent, or a stream ends here. ``per`` is client,
    session, turn, user or team. The amounts are in ``unit``, which is usd or tokens: ``spent`` includes what is
    ``reserved`` for requests in flight, and ``needed`` is what the request reserves. ``may_fit`` says whether it fits
    if those cost nothing: ask again when they have ended.
    """

    sent = False

    def __init__(self, per: str, unit: str, limit: Any, spent: Any, needed: Any, reserved: Any = 0) -> None:
        self.per = per
        self.unit = unit
        self.limit = limit
        """The amount that the budget allows, in ``unit``: a Decimal of US dollars, or a number of tokens."""
        self.spent = spent
        self.needed = needed
        self.reserved = reserved
        self.may_fit = spent - reserved + needed <= limit
        held = f"{_amount(spent - reserved, unit)} are spent and {_amount(reserved, unit)} are reserved"
        advice = "Ask again when a request in flight has ended" if self.may_fit else "A lower max_output_tokens helps"
        super().__init__(
            f"the budget per {per} is {_amount(limit, unit)}, of which {held}: the request could take"
            f" {_amount(needed, unit)}. {advice}"
        )


def _amount(value: Any, unit: str) -> str:
    return f"${value:f}" if unit == "usd" else f"{value:,} tokens"


class UnpricedModelError(BudgetExceededError):
    """The cost of a request has no bound, and its budget is in dollars: the price table does not know the model or the
    tier, or a tool that is billed by call may be called without limit. Nothing was sent."""

    def __init__(self, model: str, per: str) -> None:
        self.model = model
        """The model without a bound, as ``provider:name``."""
        self.per = per
        self.unit = "usd"
        self.limit = self.spent = self.needed = self.reserved = None
        """None, like ``spent``, ``needed`` and ``reserved``: nothing was compared."""
        self.may_fit = False
        DragomanError.__init__(
            self,
            f"the price of this request to {model} has no bound, and the budget per {per} is in dollars: set max_uses"
            " of the provider's tools, give the session a price table that knows the model and its tier, or the budget"
            " a limit in tokens or allow_unpriced=True",
        )


class ProviderError(DragomanError):
    """The provider failed, or the connection to it.

    ``message`` is the provider's text, ``provider`` and ``model`` are those that were asked, ``request_id`` the
    provider's id of the request, and ``error_class`` a word for the kind of error. ``status`` is the HTTP status, None
    inside a stream or before an answer; ``code`` the provider's own code; ``retry_after`` the seconds to wait, if the
    provider says so; ``retryable`` whether the same request may succeed later.
    """

    error_class: ClassVar[str] = "other"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.message = mask_secrets(message)
        self.provider = provider
        self.model = model
        self.status = status
        self.code = None if code is None else mask_secrets(str(code))
        self.request_id = request_id
        self.retry_after = retry_after
        if status is not None and self.sent is None:  # some classes say that nothing was sent, whatever their status
            self.sent = True
        self.own_fields: dict[str, Any] = {}
        """Further fields of the provider's error object, for clients of its own wire: OpenAI's type and param, the
        details of Anthropic and Google. Keys in them are masked."""
        self.attempts: tuple[Any, ...] = ()
        """One record for each try."""
        self.hint: str | None = None
        """The full address that was asked and the likely mistake in it, if the error may be one of the address. It is
        for the program: a gateway does not show it to its clients."""
        self.partial: Any = None
        """The message as far as it had arrived, if a stream broke."""
        super().__init__(self.message)

    @property
    def usage(self) -> "Usage | None":
        """What the provider reported of the reply that broke, with its cost: it is billed all the same. None if it
        reported nothing, which is not 0 if ``sent`` is True or None."""
        usage: Usage | None = getattr(self.partial, "usage", None)
        return usage

    def __str__(self) -> str:
        wait = None if self.retry_after is None else f"{self.retry_after:g} s"
        facts = (("status", self.status), ("code", self.code), ("request", self.request_id), ("retry after", wait))
        known = ", ".join(f"{name} {value}" for name, value in facts if value is not None)
        # A provider's words stay on this line of a log. ``message`` has them as they came.
        return one_line(
            (f"{self.provider}: " if self.provider else "")
            + self.message
            + (f" ({known})" if known else "")
            + (f"; {self.hint}" if self.hint else "")
        )


class AuthenticationError(ProviderError):
    """The provider does not accept the key (401)."""

    error_class = "auth"


class PermissionDeniedError(AuthenticationError):
    """The key lacks a permission that the request needs (403)."""


class CredentialsError(AuthenticationError):
    """The credentials for the request could not be obtained: a token was refused or has expired, or a function failed.
    Nothing was sent. The message says what to run or to check."""

    sent = False


class BillingError(ProviderError):
    """The account at the provider has no credit (402)."""

    error_class = "auth"


class RateLimitError(ProviderError):
    """The provider got too many requests or tokens (429). ``retry_after`` has the seconds to wait, if it names them."""

    error_class = "rate_limit"
    retryable = True


class OverloadedError(RateLimitError):
    """The provider has no capacity at the moment (503, 529)."""


class ContextOverflowError(ProviderError):
    """The request is larger than the model's window, or than the provider takes (413)."""

    error_class = "context_overflow"


class InvalidRequestError(ProviderError):
    """The provider rejects the request (400, 422). The same request fails again."""

    error_class = "invalid_request"


class NotFoundError(InvalidRequestError):
    """The model or the path does not exist at the provider, or not for this key (404)."""


class ExpiredReferenceError(InvalidRequestError):
    """A container, a file, an earlier response or a conversation that the request names is gone: providers delete
    containers after minutes, and files and responses after days. ``reference`` is ``container``, ``file``, ``response``
    or ``conversation``.
    """

    reference: str = "file"


class ContentFilterError(ProviderError):
    """A filter of the provider blocked the request. A reply that is cut by one ends as a refusal, without an error."""

    error_class = "invalid_request"


class ServerError(ProviderError):
    """The provider failed (5xx)."""

    error_class = "server_error"
    retryable = True


class NetworkError(ProviderError):
    """No reply arrived, or only a part of one."""

    error_class = "network"
    retryable = True


class RequestTimeoutError(NetworkError):
    """No data arrived in time, or the provider gave up waiting (408)."""


class StreamTruncatedError(NetworkError):
    """A stream ended without the event that marks its end. ``partial`` is the message as far as it had arrived."""

    sent = True


class UnexpectedPageError(NetworkError):
    """A page for a browser came in place of a reply, from a proxy, a login or a wrong path."""

    retryable = False
    sent = True


class MalformedReplyError(ProviderError):
    """The reply does not follow the provider's protocol."""

    error_class = "other"
    sent = True


class FrameTooLargeError(MalformedReplyError):
    """One frame of a stream, or a whole body, has more bytes than its cap."""


class RequestCancelledError(ProviderError):
    """The caller left a request or a stream before its end."""

    error_class = "cancelled"


class UnclassifiedError(ProviderError):
    """A failure that no other class describes. ``status`` and ``message`` have what is known."""


MALFORMED_ERRORS = (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""The exceptions of reading a malformed reply; any other exception is a bug and is not caught."""
UNREADABLE_ERRORS = (RequestError, *MALFORMED_ERRORS)
"""The exceptions of a whole reply, some of which is encoded again: it may hold a value that no request can hold."""
