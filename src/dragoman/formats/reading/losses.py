"""The losses of a reader: what a document has and the messages do not.

Readers report to the collector of the running `collect_losses`; without one, nothing collects.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pydantic import BaseModel

from dragoman.adapter.losses import Loss, LossKind, Severity, log_losses

_MAX_NAME = 80


class SourceLosses:
    """Collects the losses of one document, in order, each once."""

    def __init__(self) -> None:
        self._found: dict[Loss, None] = {}

    def add(
        self, path: str, reason: str, *, kind: LossKind = LossKind.FIELD, severity: Severity = Severity.WARNING
    ) -> None:
        """Add the loss of what is at ``path`` in the document."""
        self._found[Loss(kind, "", -1, reason, severity, path=path)] = None

    def add_field(self, path: str, name: str, format_name: str) -> None:
        """Add the loss of a field that the reader of the format does not know."""
        shown = name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "…"
        self.add(f"{path}.{name}", f"the reader of {format_name} does not know the field {shown!r}: left out")

    def add_extra(self, model: BaseModel, path: str, format_name: str) -> None:
        """Add the losses of all fields that a model of a document, and the models in it, do not declare."""
        for name, value in (model.model_extra or {}).items():
            if not is_empty(value) and name not in getattr(model, "ignored", ()):
                self.add_field(path, name, format_name)
        for name, info in type(model).model_fields.items():
            self._add_nested(getattr(model, name), f"{path}.{info.alias or name}", format_name)

    def _add_nested(self, value: object, path: str, format_name: str) -> None:
        if isinstance(value, BaseModel):
            self.add_extra(value, path, format_name)
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                self._add_nested(item, f"{path}[{index}]", format_name)

    def found(self) -> tuple[Loss, ...]:
        return tuple(self._found)

    def report(self, format_name: str) -> tuple[Loss, ...]:
        """Return all losses, and log each."""
        found = self.found()
        log_losses(found, session_id="", adapter=format_name)
        return found


_collector: ContextVar[SourceLosses | None] = ContextVar("dragoman_source_losses", default=None)


def source_losses() -> SourceLosses:
    """Return the collector of the running `collect_losses`, or one that nobody reads."""
    return _collector.get() or SourceLosses()


@contextmanager
def collect_losses() -> Iterator[SourceLosses]:
    """Collect what the readers called in this context report."""
    losses = SourceLosses()
    token = _collector.set(losses)
    try:
        yield losses
    finally:
        _collector.reset(token)


@contextmanager
def moved_losses(move: Callable[[str], str]) -> Iterator[None]:
    """Report what readers of a part of a document report in this context, with their paths in the whole document."""
    outer = source_losses()
    with collect_losses() as losses:
        yield
    for loss in losses.found():
        outer.add(move(loss.path), loss.reason, kind=loss.kind, severity=loss.severity)


def is_empty(value: object) -> bool:
    """Whether a value says nothing: null, or an empty text, list or object."""
    return value is None or value == "" or value == [] or value == {}
