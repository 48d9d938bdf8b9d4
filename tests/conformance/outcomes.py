"""The result of judging one exchange in one aspect."""

from dataclasses import dataclass
from enum import StrEnum

from tests.exchanges import RecordedExchange


class Aspect(StrEnum):
    """What is compared. Each exchange is judged in every aspect that it contains."""

    REPLY = "replies"
    ERROR = "errors"
    REQUEST = "requests"
    TOTAL = "totals"
    COST = "costs"
    RESEND = "echoes"


@dataclass(frozen=True, slots=True)
class Difference:
    """``what`` is the same for all differences of a kind (a JSON path, a field); ``detail`` is this one's."""

    what: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}" if self.detail else self.what


@dataclass(frozen=True, slots=True)
class Outcome:
    """Equal if there is no difference. ``normalised`` names the normalisations that were needed."""

    exchange: RecordedExchange
    aspect: Aspect
    differences: tuple[Difference, ...] = ()
    normalised: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.differences


def shorten(value: object, length: int = 90) -> str:
    """A value for a report, shortened in the middle."""
    text = repr(value)
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"
