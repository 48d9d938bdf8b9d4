"""Which replies are not good enough, so that the next model is asked."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message, StopReason

ReplyFault = Literal["refusal", "empty", "truncated", "invalid"]
"""A reply after which another model is asked. ``refusal``: the model or a filter refused. ``empty``: there is neither
text nor a call. ``truncated``: the limit of output tokens cut it. ``invalid``: it is not of the requested type."""

ReplyTest = Callable[[Message], bool]
"""Returns whether the next model is to be asked instead. Its name is in the record of the route."""

_TESTS: Mapping[str, ReplyTest] = {
    "refusal": lambda reply: reply.stop_reason is StopReason.REFUSAL,
    "empty": lambda reply: not reply.text.strip() and not reply.tool_uses and reply.stop_reason is not StopReason.PAUSE,
    "truncated": lambda reply: reply.stop_reason is StopReason.MAX_TOKENS,
}


class ReplyTests:
    """The tests of a router, in order. Raises ConfigurationError for a word that is not a `ReplyFault`."""

    def __init__(self, tests: Iterable[ReplyFault | ReplyTest]) -> None:
        tests = (tests,) if isinstance(tests, str) or callable(tests) else tuple(tests)
        for test in tests:
            if not callable(test) and test not in get_args(ReplyFault):
                words = ", ".join(get_args(ReplyFault))
                raise ConfigurationError(f"fall_back_on has {test!r:.80}: it takes functions of a message, and {words}")
        self._tests: tuple[ReplyFault | ReplyTest, ...] = tests

    def __bool__(self) -> bool:
        return bool(self._tests)

    @property
    def words(self) -> tuple[ReplyFault, ...]:
        """Those that a file can hold."""
        return tuple(test for test in self._tests if not callable(test))

    def find_fault(self, reply: Message, is_valid: Callable[[Message], bool] | None) -> str | None:
        """Return the name of the first test that the reply fails; None if it passes all. ``is_valid`` returns whether
        the reply is of the requested type; None if any text is."""
        for test in self._tests:
            if callable(test):
                if test(reply):
                    return f"reply_{getattr(test, '__name__', 'test').strip('<>')}"
            elif test == "invalid":
                if is_valid is not None and not is_valid(reply):
                    return "reply_invalid"
            elif _TESTS[test](reply):
                return f"reply_{test}"
        return None
