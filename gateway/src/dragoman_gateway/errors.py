"""Errors of the gateway itself that no provider has: each knows the HTTP status that a client gets."""

from dragoman.errors import RequestError


class ClientError(RequestError):
    """The request cannot be read. Its message is for the client."""

    status = 400


class BodyTooLargeError(ClientError):
    status = 413


class ContentTypeError(ClientError):
    status = 415


class UnavailableError(ClientError):
    """The gateway takes no requests now."""

    status = 503

    def __init__(self, message: str, *, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(message)
