"""A router's configuration as TOML or JSON, and the replies after which the next model is asked.

Money is read exactly, and all faults are reported at once.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import Text
from dragoman.canonical.message import Message, StopReason
from dragoman.routing.rules import Rule

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


class RouterConfiguration(FrozenModel):
    """The fields of a configuration file."""

    rules: tuple[Rule, ...] = Field(default=(), alias="rule")
    """In the file, each is a table ``[[rule]]``."""
    aliases: dict[Text, Text] = Field(default_factory=dict)
    workspace_default: Text | None = None
    global_default: Text | None = None
    min_confidence: Decimal = Field(default=Decimal("0.5"), ge=0, le=1)
    mentions: bool = False
    fall_back_on: tuple[ReplyFault, ...] = ()


def read_toml(text: str) -> dict[str, Any]:
    """Return the arguments of a Router, from TOML. Raises ConfigurationError."""
    try:
        return read_mapping(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"the routing configuration is not valid TOML: {error}") from None


def read_mapping(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a Router, from `Router.configuration` or a file. Raises ConfigurationError."""
    try:
        configuration = RouterConfiguration.model_validate(dict(data))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise ConfigurationError("the routing configuration is not valid:\n  " + "\n  ".join(faults)) from None
    return dict(configuration) | {"min_confidence": float(configuration.min_confidence)}
