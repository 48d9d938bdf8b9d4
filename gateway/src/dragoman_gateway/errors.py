"""Errors of the gateway itself, with the HTTP status that a client gets."""

from collections.abc import Mapping
from typing import Any, ClassVar

from dragoman.errors import (
    DragomanError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RequestError,
    ServerError,
)

RETRY_SECONDS = 2
"""Seconds after which another replica, or this gateway after its start, may answer."""


class ClientError(RequestError):
    """The request cannot be read. Its message is for the client."""

    status: ClassVar[int] = 400
    headers: ClassVar[Mapping[str, str]] = {}
    """Further headers of the answer."""
    details: Mapping[str, Any] = {}
    """Fields by which a client recognizes the refusal, and knows what to do."""
    retry_after: int | None = None

    @property
    def provider_error(self) -> DragomanError:
        """The error whose words the client's wire uses."""
        return self


class ServerStateError(ClientError):
    """The request continues from state at a provider of the client's wire, and another provider answers: the client
    sends its whole history instead."""

    def __init__(self, field: str, details: Mapping[str, Any]) -> None:
        self.details = details
        super().__init__(f"{field}: the model that answers has no such state; send the whole conversation instead")


class ThreadNotFoundError(ClientError):
    """The request continues a message that this key did not get. With these details, Anthropic's SDK sends the whole
    history in a new thread.
    """

    status = 404
    details = {"error_code": "thread_not_found"}  # noqa: RUF012  # it is never changed

    def __init__(self) -> None:
        super().__init__("there is no such thread: a message can be continued only by the key that got it")

    @property
    def provider_error(self) -> DragomanError:
        return NotFoundError(str(self), status=404)


class LoopError(ClientError):
    """The request has passed this gateway already."""

    def __init__(self) -> None:
        super().__init__(
            "the request has passed this gateway already, or too many others: the base_url of a provider leads back to "
            "the gateway. Set it to the provider's own address, in dragoman.toml or in the variable that it is from, "
            "such as OPENAI_BASE_URL"
        )


class SlowClientError(ClientError):
    """The request did not arrive in time."""

    status = 408


class BodyTooLargeError(ClientError):
    """The body, or what it references, is larger than a limit."""

    status = 413


class ContentTypeError(ClientError):
    """The body is not JSON, or its compression is unknown."""

    status = 415


class UnavailableError(ClientError):
    """The gateway does not accept requests now."""

    status = 503

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    @property
    def provider_error(self) -> DragomanError:
        return OverloadedError(str(self), retry_after=self.retry_after)


class EndingError(UnavailableError):
    """The gateway ends: another replica answers. The connection is closed, so that the next request takes another."""

    headers: ClassVar[Mapping[str, str]] = {"connection": "close"}

    def __init__(self, what: str = "is about to end") -> None:
        super().__init__(f"the gateway {what}: try again", retry_after=RETRY_SECONDS)


class EndedError(EndingError):
    """The gateway has ended without waiting for the rest of the reply."""

    def __init__(self) -> None:
        super().__init__("ended before the reply was complete")


class ProviderAccessError(ClientError):
    """A provider refused the credentials of the gateway itself. The client has other ones, which are right: a 401 would
    make it ask its user for a key."""

    status = 502
    headers: ClassVar[Mapping[str, str]] = {"x-should-retry": "false"}

    def __init__(self, provider: str) -> None:
        super().__init__(f"the provider {provider} refused the key of this gateway, which its operator has to mend")

    @property
    def provider_error(self) -> DragomanError:
        return ServerError(str(self), status=self.status)


class UncountedError(OverloadedError):
    """A budget or a limit cannot be counted now, and is closed meanwhile."""

    sent = False

    def __init__(self, message: str) -> None:
        super().__init__(message, status=503, retry_after=_AGAIN_SECONDS)


class OwnCodeError(ProviderError):
    """An error of a class that providers use for something else. ``own_code`` replaces its code, on wires with codes of
    words.
    """

    own_code: ClassVar[str | None] = None


class DeniedError(PermissionDeniedError, OwnCodeError):
    """The caller may not do this."""

    own_code = "insufficient_permissions"

    def __init__(self, message: str) -> None:
        super().__init__(message, status=403)


class ModelDeniedError(DeniedError):
    """The caller may not use this model."""

    sent = False

    def __init__(self, model: str) -> None:
        super().__init__(f"this key may not use the model {model}")


class NoAddressError(NotFoundError, OwnCodeError):
    """The address does not exist."""


_AGAIN_SECONDS = 5.0


def overloaded(message: str) -> OverloadedError:
    """Return the error of a request for which something that all replicas share is needed, and not there now."""
    return OverloadedError(message, status=503, retry_after=_AGAIN_SECONDS)
