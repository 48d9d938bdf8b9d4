"""LangChain messages as data: what `dumpd`, `dumps`, `messages_to_dict` and `model_dump` write.

Sources: langchain_core/messages and langchain_core/load, 1.7. A class is recognised by its name in the document and
looked up in a table here: nothing is instantiated by name.
"""

from typing import Any, ClassVar

from pydantic import Field

from dragoman.canonical.guard import Count
from dragoman.formats.document import kind_of
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import Fields, ImportedModel
from dragoman.formats.reading.losses import is_empty, source_losses

CLASSES = {
    "SystemMessage": "system",
    "HumanMessage": "human",
    "AIMessage": "ai",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
    "RemoveMessage": "remove",
}
"""The type of a message by its class. The class names of chunks end with ``Chunk``."""

_CHUNK = "Chunk"
_ESCAPED = "__lc_escaped__"


class Extras(ImportedModel):
    """What a provider's package stores with a block: ids of the provider's own storage, and signatures."""

    ignored: ClassVar[frozenset[str]] = frozenset({"item_id", "status", "caller", "phase", "index", "id"})

    signature: str | None = None
    encrypted_content: str | None = None
    filename: str | None = None


class TokenDetails(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"text", "flex", "flex_cache_read", "priority", "priority_cache_read"}
    )

    cache_read: int | float | None = None
    cache_creation: int | float | None = None
    ephemeral_5m_input_tokens: int | float | None = None
    ephemeral_1h_input_tokens: int | float | None = None
    audio: int | float | None = None
    reasoning: int | float | None = None


class Call(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"type", "index"})

    name: str
    args: dict[str, Any] | str | None = None
    id: str | None = None
    extras: Extras | None = None


class InvalidCall(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"type", "index", "error"})

    name: str | None = None
    args: str | None = None
    id: str | None = None
    extras: Extras | None = None


class Usage(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"total_tokens"})

    input_tokens: Count = 0
    output_tokens: Count = 0
    input_token_details: TokenDetails = Field(default_factory=TokenDetails)
    output_token_details: TokenDetails = Field(default_factory=TokenDetails)


class LangChainMessage(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"type", "example", "chunk_position", "tool_call_chunks"})

    type: str
    content: str | list[str | dict[str, Any]]
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    response_metadata: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None
    name: str | None = None
    role: str | None = None
    tool_calls: list[Call] = Field(default_factory=list)
    invalid_tool_calls: list[InvalidCall] = Field(default_factory=list)
    usage_metadata: Usage | None = None
    tool_call_id: str | None = None
    status: str = "success"


def fields_of(native: Fields, path: str) -> tuple[Fields, str]:
    """Return the fields of a message in any of its forms, with a ``type`` of the table, and the path to them.

    Raises FormatError if it is not a message.
    """
    if "lc" in native:
        return _read_constructed(native, path)
    kind = native.get("type")
    role = native.get("role")
    if "type" not in native and isinstance(role, str) and role in _ROLES:
        return _read_chat(native), path
    if not isinstance(kind, str):
        raise FormatError("a message of LangChain must have a type", path=f"{path}.type")
    inner, at = native, path
    if "data" in native and "content" not in native:
        inner, at = native["data"], f"{path}.data"
        _report_others(native, ("type", "data"), path)
        if not isinstance(inner, dict):
            raise FormatError(f"the data of a message must be an object, not {kind_of(inner)}", path=at)
    known = CLASSES.get(kind.removesuffix(_CHUNK), kind)
    if known not in CLASSES.values():
        raise FormatError(f"LangChain has no message of the type {kind[:80]!r}", path=f"{path}.type")
    return {**inner, "type": known}, at


_ROLES = {"system": "system", "developer": "system", "user": "human", "assistant": "ai", "tool": "tool"}


def _read_chat(native: Fields) -> Fields:
    """Return a message as `convert_to_openai_messages` writes it: its calls are OpenAI's."""
    fields = {name: value for name, value in native.items() if name not in ("role", "tool_calls", "refusal")}
    older = {name: native[name] for name in ("tool_calls", "refusal") if native.get(name)}
    content = native.get("content")
    return {
        **fields,
        "content": "" if content is None else content,
        "type": _ROLES[native["role"]],
        "additional_kwargs": {**older, **({"__openai_role__": "developer"} if native["role"] == "developer" else {})},
    }


def constructor(native: Any) -> tuple[str, Fields] | None:
    """Return class and arguments of an object that `dumpd` wrote; None for anything else, and for what it could not
    write.
    """
    if not isinstance(native, dict) or native.get("lc") != 1 or native.get("type") != "constructor":
        return None
    name, arguments = native.get("id"), native.get("kwargs")
    if not isinstance(name, list) or not name or not isinstance(name[-1], str) or not isinstance(arguments, dict):
        return None
    return name[-1], arguments


def _read_constructed(native: Fields, path: str) -> tuple[Fields, str]:
    if native.get("type") == "not_implemented":
        raise FormatError("LangChain wrote only the repr of this object", path=path)
    constructed = constructor(native)
    if constructed is None:
        raise FormatError("an object of LangChain must have an id, which is a list of names, and kwargs", path=path)
    name, arguments = constructed
    _report_others(native, ("lc", "type", "id", "kwargs", "name", "graph"), path)
    kind = CLASSES.get(name.removesuffix(_CHUNK))
    if kind is None:
        raise FormatError(f"{name[:80]!r} is not a message of LangChain", path=f"{path}.id")
    return {**_unescape(arguments), "type": kind}, f"{path}.kwargs"


def _report_others(native: Fields, known: tuple[str, ...], path: str) -> None:
    for name, value in native.items():
        if name not in known and not is_empty(value):
            source_losses().add_field(path, name, "langchain")


def _unescape(value: Any) -> Any:
    """Remove the mark that says that a program's own data is not a LangChain object."""
    if isinstance(value, list):
        return [_unescape(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_ESCAPED} and isinstance(value[_ESCAPED], dict):
        return value[_ESCAPED]
    return {name: _unescape(item) for name, item in value.items()}
