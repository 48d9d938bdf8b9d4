"""Words of closed lists, such as roles and stop reasons. A newer version may have more of them.

A program that constructs a message can use the words of this version only. *Reading* stored data keeps every other word
as it is (see `versions`). Source: docs/reference/canonical.md#versions.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from dragoman.canonical.guard import check_text
from dragoman.canonical.log import get_logger

logger = get_logger("dragoman.canonical")

READING = {"reading": True}
"""The validation context under which unknown words and unknown kinds of blocks are kept (see `versions`)."""
KEPT = "kept"
"""The key of a list in the validation context that gets the description of each unknown word."""
_MAX_WORD = 100
"""Characters of an unknown word; longer text is not a word of any version."""

WordT = TypeVar("WordT", bound="OpenEnum")


class OpenEnum(StrEnum):
    """A list of words to which later versions may add.

    An unknown word is an instance of the class that equals its text. It is not a member: iteration leaves it out, and
    construction from a text refuses it.
    """

    @property
    def is_known(self) -> bool:
        """Whether this version knows the word."""
        return self._value_ in type(self)._value2member_map_

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return read_word, (type(self), self._value_)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        label = re.sub("(?<=.)(?=[A-Z])", " ", cls.__name__).lower()
        return _open_schema(handler(source), tuple(cls), label, cls, lambda text: read_word(cls, text))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return _known_json_schema(schema, handler)


def read_word(kind: type[WordT], text: str) -> WordT:
    """Return the member with that text, or the text as an unknown word of the list."""
    known: Any = kind._value2member_map_.get(text)
    if known is not None:
        return known  # type: ignore[no-any-return]  # members of an enum class are typed as Enum
    word = str.__new__(kind, text)
    word._name_ = word._value_ = text
    return word


class UnknownWord(str):
    """A text that is not in the list of its field in this version. Only reading stored data creates one."""

    __slots__ = ()


class OpenLiteral:
    """Marks a Literal of texts to which later versions may add: ``Annotated[Literal["a", "b"], OpenLiteral("kind")]``.

    ``label`` names the field in the log.
    """

    def __init__(self, label: str) -> None:
        self._label = label

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        known: Any = handler(source)
        return _open_schema(known, known["expected"], self._label, UnknownWord, UnknownWord)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return _known_json_schema(schema, handler)


def _open_schema(
    known: Any, words: tuple[str, ...], label: str, unknown_type: type, keep: Callable[[str], Any]
) -> CoreSchema:
    """Return a schema that tries the known words first, so that they cost no call of Python."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, unknown_type):
            return value
        context = info.context or {}
        if not (isinstance(value, str) and context.get("reading") and 0 < len(value) <= _MAX_WORD):
            raise ValueError("the word is unknown")
        text = f"the unknown {label} {check_text(value)!r}"
        if KEPT in context:
            context[KEPT].append(text)
        else:
            logger.warning("%s is kept", text)
        return keep(value)

    *others, last = (f"'{word}'" for word in words)
    expected = f"{', '.join(others)} or {last}" if others else last
    # The schema with a reference is the one that JSON schemas name.
    known = dict(known)
    reference = known.pop("ref", None)
    return core_schema.union_schema(
        [known, core_schema.with_info_plain_validator_function(validate)],
        mode="left_to_right",
        custom_error_type="enum" if known["type"] == "enum" else "literal_error",
        ref=reference,
        custom_error_context={"expected": expected},
    )


def _known_json_schema(schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    return handler(schema["choices"][0])
