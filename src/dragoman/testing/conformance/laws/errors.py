"""Laws of errors: every failure has its class, with any body, and shows no secret."""

import pickle
from collections.abc import Iterator

from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.replies.error_context import class_for_status
from dragoman.adapter.wire import WireResponse
from dragoman.testing.conformance.subject import NotTriedError, Subject
from dragoman.testing.stream_laws import Trial

_STATUSES = (400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529)
# Without 504: it is a server error for some providers, and a timeout for others.
_UNINFORMATIVE_BODIES = (b"", b"<html><body>Bad gateway</body></html>", b"{}")
_GARBAGE = (
    *_UNINFORMATIVE_BODIES, b"null", b"[]", b"[[]]", b"7", b'"no"', b'{"error": 7}', b'{"error": null}',
    b'{"error": [1]}',
    b'{"error": {"message": {"a": 1}, "code": [2], "type": 3}}', b'{"message": 5}', b"\xff\xfe", b"{" * 300,
    b'{"error": {"message": "' + b"x" * 5000 + b'"}}',
)  # fmt: skip
_SECRETS = ("sk-kit0123456789abcdefABCDEF", "Bearer kit0123456789abcdef")


def statuses(subject: Subject) -> Iterator[Trial]:
    """An error without details gets the usual class of its status."""
    for status in _STATUSES:
        for body in _UNINFORMATIVE_BODIES:
            error, due = subject.adapter.error(status, body, {}), class_for_status(status)
            faults = [] if isinstance(error, due) else [f"{type(error).__name__} instead of {due.__name__}"]
            faults += [] if error.status == status else [f"its status is {error.status}"]
            faults += [] if error.provider == subject.provider else [f"its provider is {error.provider!r}"]
            yield Trial(f"{status} with {body[:10]!r}", tuple(faults))


def garbage(subject: Subject) -> Iterator[Trial]:
    """Any body gives a ProviderError with a bounded text, which can be pickled."""
    for status in (None, 400, 500):
        for body in _GARBAGE:
            try:
                error = subject.adapter.error(status, body, {})
            except Exception as raised:
                yield Trial(f"{status} with {body[:40]!r}", (f"{type(raised).__name__} was raised: {raised}",))
                continue
            faults = [] if isinstance(error, ProviderError) else [f"{type(error).__name__} is not a ProviderError"]
            faults += [] if len(str(error)) < 1000 else ["its text has no bound"]
            faults += [] if type(pickle.loads(pickle.dumps(error))) is type(error) else ["it cannot be pickled"]
            yield Trial(f"{status} with {body[:40]!r}", tuple(faults))


def secrets(subject: Subject) -> Iterator[Trial]:
    """A key that a provider repeats in its message is shown nowhere."""
    for secret in _SECRETS:
        for form in ('{"error": {"message": "%s is wrong", "code": "%s"}}', '{"error": "%s %s"}', "%s %s", '"%s %s"'):
            error = subject.adapter.error(401, (form % (secret, secret)).encode(), {})
            shown = f"{error} {error!r} {error.message} {error.code}"
            yield Trial(form, ("the key is shown",) if secret in shown else ())


def retry_after(subject: Subject) -> Iterator[Trial]:
    """The provider's time for a retry is kept, in seconds."""
    for written, due in (("7", 7), ("soon", None)):
        error = subject.adapter.error(429, b"{}", {"retry-after": written})
        yield Trial(f"retry-after: {written}", () if error.retry_after == due else (f"kept as {error.retry_after}",))


def replies_raise(subject: Subject) -> Iterator[Trial]:
    """A reply with a status of 400 or more raises its error, and is never a message."""
    for status in _STATUSES:
        due = subject.adapter.error(status, b"{}", {})
        try:
            subject.adapter.from_wire_response(WireResponse(status, b"{}"), subject.context())
        except ProviderError as error:
            same = type(error) is type(due)
            yield Trial(str(status), () if same else (f"{type(error).__name__} instead of {type(due).__name__}",))
        except Exception as error:
            yield Trial(str(status), (f"{type(error).__name__} was raised: {error}",))
        else:
            yield Trial(str(status), ("it was read as a message",))


def documented_failures(subject: Subject) -> Iterator[Trial]:
    """Failures that the provider's reference describes have the right classes."""
    failures = [each for wire in subject.require_wires() for each in wire.failures]
    if not failures:
        raise NotTriedError("the wire's `failures` are empty")
    for failure in failures:
        error: Exception | None = None
        if failure.status >= 400:
            error = subject.adapter.error(failure.status, failure.body, failure.headers)
        else:
            try:
                subject.adapter.from_wire_response(WireResponse(failure.status, failure.body), subject.context())
            except DragomanError as raised:
                error = raised
        same = isinstance(error, failure.kind)
        fault = f"{type(error).__name__} instead of {failure.kind.__name__}"
        yield Trial(f"{failure.status} {failure.body[:80]!r}", () if same else (fault,))
