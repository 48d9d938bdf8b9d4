"""All errors. Each class has one meaning, whether the error came as an HTTP status or inside a stream.

DragomanError
├── ConfigurationError              the program is set up wrongly
│   ├── UnknownProviderError        no adapter of that name is installed
│   ├── MissingKeyError             no API key was given or found
│   ├── MissingExtraError           an optional part is not installed
│   └── SecretFoundError            a cassette would hold a secret; it was not written
├── ToolSchemaError                 tool definitions outside the schema subset, all problems at once
├── ProjectionError                 the history cannot be sent to that model
│   ├── CriticalLossError           a block marked critical would be lost
│   ├── SwapRefusedError            the model to swap to cannot carry the history
│   └── CompactionError             a summary cannot make the history fit
├── NoModelError                    no candidate can answer the turn; it did not start
├── RequestError                    an argument that a request cannot contain
│   ├── CallNotPendingError         a result is for a tool call that does not wait for one
│   ├── FetchError                  media at a URL was not fetched
│   ├── OutputTypeError             the type of an answer has no schema, or the schema is invalid
│   └── UnsupportedToolError        a server tool, or a setting that restricts it, that the model lacks
├── UnsupportedReplyError           the adapter writes no replies for clients
├── EventError                      an object that is not an event of the catalogue
│   └── EventOverflowError          a handler was too slow and missed an event
├── BatchPendingError               the answers of a batch were requested before it ended
├── TurnLimitError                  a turn used all its allowed rounds of tool calls
├── PendingCallsError               the answer was read while tool calls wait for their results
├── OutputError                     an answer does not have the requested type, after all retries
├── BudgetExceededError             a request could cost more than a budget has left; it was not sent
│   └── UnpricedModelError          a budget in dollars, and a model without a known price
├── LimitsUnavailableError          the server that holds the counts of limits does not answer
├── PolicyError                     a policy refused, or a plugin broke its rules
│   ├── PolicyDeniedError           a plugin refused a step: nothing was sent, run or shown
│   ├── TierViolation               a plugin changed a protected slot; nothing that it returned was applied
│   └── DeclassificationError       labels were not removed
├── McpToolError                    a tool of an MCP server returned an error
├── FormatError                     a document in another format cannot be read
│   ├── MessageBodyError            a message body does not match its schema
│   └── NotFetchedError             content is at a URL, and no way to fetch it was given
├── StoreError                      the operation failed; nothing changed
│   ├── ConflictError               another writer was first: load the session and decide again
│   ├── SessionNotFoundError        no session, or no message in it, has that id
│   ├── StoreBusyError              others held the database for longer than the store waits
│   ├── StoreVersionError           a newer version of the library wrote the file, or the line
│   └── UnreadableError             a row or a line holds no message
├── NotTriedError                   a law of the conformance kit does not apply to the adapter
├── CassetteMissError               a cassette has no exchange left for a request
├── NetworkBlockedError             a connection was opened while a test blocks the network
├── ScriptError                     a conversation left the script of a `ScriptedProvider`
└── ProviderError                   the provider failed, or the connection to it
    ├── AuthenticationError         401: the key is wrong or missing
    │   ├── PermissionDeniedError   403: the key lacks the permission
    │   └── CredentialsError        the credentials for the request could not be had; nothing was sent
    ├── BillingError                402: the account has no credit
    ├── RateLimitError              429: too many requests
    │   ├── OverloadedError         529, 503: the provider has no capacity
    │   └── LimitReachedError       one of your own limits is used up; nothing was sent
    ├── ContextOverflowError        the request is larger than the model's window
    ├── InvalidRequestError         400, 422: the provider rejects the request
    │   ├── NotFoundError           404: the model or path does not exist
    │   └── ExpiredReferenceError   what the request names is gone: a container, a file
    ├── ContentFilterError          the provider's filter blocked the request
    ├── ServerError                 5xx
    ├── NetworkError                no reply, or a part of one
    │   ├── RequestTimeoutError     408, or no data in time
    │   ├── StreamTruncatedError    the stream ended without its terminal event
    │   └── UnexpectedPageError     a page for a browser came in place of a reply
    ├── MalformedReplyError         the reply does not follow the provider's protocol
    │   └── FrameTooLargeError      one frame, or the whole body, is over the cap
    ├── RequestCancelledError       the caller cancelled
    └── UnclassifiedError           none of the above

ValueError
└── UnknownPartError                a part of a message that no policy can judge; it must not pass

Messages never hold a key; the provider's own text is masked and truncated. The classes of an optional part, such as the
store, are loaded when they are first used. They need its extra, and raise `MissingExtraError` without it.
"""

from typing import TYPE_CHECKING

from dragoman.adapter.errors import (
    AuthenticationError,
    BatchPendingError,
    BillingError,
    BudgetExceededError,
    CallNotPendingError,
    CompactionError,
    ConfigurationError,
    ContentFilterError,
    ContextOverflowError,
    CredentialsError,
    CriticalLossError,
    DragomanError,
    EventError,
    EventOverflowError,
    ExpiredReferenceError,
    FrameTooLargeError,
    InvalidRequestError,
    MalformedReplyError,
    MissingExtraError,
    MissingKeyError,
    NetworkError,
    NoModelError,
    NotFoundError,
    OverloadedError,
    PendingCallsError,
    PermissionDeniedError,
    ProjectionError,
    ProviderError,
    RateLimitError,
    RequestCancelledError,
    RequestError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    SwapRefusedError,
    ToolSchemaError,
    TurnLimitError,
    UnclassifiedError,
    UnexpectedPageError,
    UnknownProviderError,
    UnpricedModelError,
    UnsupportedReplyError,
    UnsupportedToolError,
)
from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.canonical.message_view.parts import UnknownPartError
    from dragoman.formats.errors import FormatError, MessageBodyError, NotFetchedError
    from dragoman.limits.reservation import LimitReachedError, LimitsUnavailableError
    from dragoman.output.errors import OutputError, OutputTypeError
    from dragoman.policy.errors import DeclassificationError, PolicyDeniedError, PolicyError, TierViolation
    from dragoman.store.errors import (
        ConflictError,
        SessionNotFoundError,
        StoreBusyError,
        StoreError,
        StoreVersionError,
        UnreadableError,
    )
    from dragoman.testing.cassettes.replay import CassetteMissError
    from dragoman.testing.cassettes.secrets import SecretFoundError
    from dragoman.testing.conformance.subject import NotTriedError
    from dragoman.testing.doubles.scripted_provider import ScriptError
    from dragoman.testing.network import NetworkBlockedError
    from dragoman.tools.mcp import McpToolError
    from dragoman.transport.fetch import FetchError

__all__ = [
    "AuthenticationError",
    "BatchPendingError",
    "BillingError",
    "BudgetExceededError",
    "CallNotPendingError",
    "CassetteMissError",
    "CompactionError",
    "ConfigurationError",
    "ConflictError",
    "ContentFilterError",
    "ContextOverflowError",
    "CredentialsError",
    "CriticalLossError",
    "DeclassificationError",
    "DragomanError",
    "EventError",
    "EventOverflowError",
    "ExpiredReferenceError",
    "FetchError",
    "FormatError",
    "FrameTooLargeError",
    "InvalidRequestError",
    "LimitReachedError",
    "LimitsUnavailableError",
    "MalformedReplyError",
    "McpToolError",
    "MessageBodyError",
    "MissingExtraError",
    "MissingKeyError",
    "NetworkBlockedError",
    "NetworkError",
    "NoModelError",
    "NotFetchedError",
    "NotFoundError",
    "NotTriedError",
    "OutputError",
    "OutputTypeError",
    "OverloadedError",
    "PendingCallsError",
    "PermissionDeniedError",
    "PolicyDeniedError",
    "PolicyError",
    "ProjectionError",
    "ProviderError",
    "RateLimitError",
    "RequestCancelledError",
    "RequestError",
    "RequestTimeoutError",
    "ScriptError",
    "SecretFoundError",
    "ServerError",
    "SessionNotFoundError",
    "StoreBusyError",
    "StoreError",
    "StoreVersionError",
    "StreamTruncatedError",
    "SwapRefusedError",
    "TierViolation",
    "ToolSchemaError",
    "TurnLimitError",
    "UnclassifiedError",
    "UnexpectedPageError",
    "UnknownPartError",
    "UnknownProviderError",
    "UnpricedModelError",
    "UnreadableError",
    "UnsupportedReplyError",
    "UnsupportedToolError",
]

_EXPORTS = {
    "canonical.message_view.parts": ("UnknownPartError",),
    "formats.errors": (
        "FormatError",
        "MessageBodyError",
        "NotFetchedError",
    ),
    "limits.reservation": (
        "LimitReachedError",
        "LimitsUnavailableError",
    ),
    "output.errors": (
        "OutputError",
        "OutputTypeError",
    ),
    "policy.errors": (
        "DeclassificationError",
        "PolicyDeniedError",
        "PolicyError",
        "TierViolation",
    ),
    "store.errors": (
        "ConflictError",
        "SessionNotFoundError",
        "StoreBusyError",
        "StoreError",
        "StoreVersionError",
        "UnreadableError",
    ),
    "testing.cassettes.replay": ("CassetteMissError",),
    "testing.cassettes.secrets": ("SecretFoundError",),
    "testing.conformance.subject": ("NotTriedError",),
    "testing.doubles.scripted_provider": ("ScriptError",),
    "testing.network": ("NetworkBlockedError",),
    "tools.mcp": ("McpToolError",),
    "transport.fetch": ("FetchError",),
}

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), _EXPORTS)
