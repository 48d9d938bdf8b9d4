"""The blocks of LangChain messages: its own, of both generations, and those of the providers.

A provider's block without a canonical kind is sent back to that provider; one of LangChain's is only kept.

LangChain messages as data: what `dumpd`, `dumps`, `messages_to_dict` and `model_dump` write.

Sources: langchain_core/messages and langchain_core/load, 1.7. A class is recognised by its name in the document and
looked up in a table here: nothing is instantiated by name.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    ContentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from dragoman.formats.document import dig, kind_of, text_in, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import (
    media_block,
    media_from_url,
    provider_block,
    read_citation,
    read_media,
    result_call_id,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.reading.fields import Fields, is_empty, source_losses
from dragoman.formats.reading.tool_calls import ToolIdReader

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


def fields_of(native: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the fields of a message in any of its forms, with a ``type`` of the table, and the path to them.

    Raises FormatError if it is not a message.
    """
    if "lc" in native:
        return _read_constructed(native, path)
    kind, role = native.get("type"), native.get("role")
    if "type" not in native and isinstance(role, str) and role in _CHAT_TYPES:
        # A message as `convert_to_openai_messages` writes it: its calls are OpenAI's.
        fields = {name: value for name, value in native.items() if name not in ("role", "tool_calls", "refusal")}
        older = {name: native[name] for name in ("tool_calls", "refusal") if native.get(name)}
        content = native.get("content")
        kwargs = older | ({"__openai_role__": "developer"} if role == "developer" else {})
        content = "" if content is None else content
        return {**fields, "content": content, "type": _CHAT_TYPES[role], "additional_kwargs": kwargs}, path
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


_CHAT_TYPES = {"system": "system", "developer": "system", "user": "human", "assistant": "ai", "tool": "tool"}


def constructor(native: Any) -> tuple[str, dict[str, Any]] | None:
    """Return class and arguments of an object that `dumpd` wrote; None for anything else, and for what it could not
    write.
    """
    if not isinstance(native, dict) or native.get("lc") != 1 or native.get("type") != "constructor":
        return None
    name, arguments = native.get("id"), native.get("kwargs")
    if not isinstance(name, list) or not name or not isinstance(name[-1], str) or not isinstance(arguments, dict):
        return None
    return name[-1], arguments


def _read_constructed(native: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
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


def _report_others(native: dict[str, Any], known: tuple[str, ...], path: str) -> None:
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


LIBRARY = "langchain"

_STANDARD = frozenset({"server_tool_call", "server_tool_call_chunk", "server_tool_result", "non_standard"})
"""LangChain's own names for actions of a provider, which no provider would accept."""

_FORMATS = {"mp3": "audio/mpeg"}


def read_extras(item: Fields) -> Fields:
    """Take what a provider's package stores with a block: ids of the provider's own storage, and signatures."""
    extras = item.inner("extras")
    extras.skip("extras")
    return extras


class BlockReader:
    """Reads the blocks of the message at ``path``. ``calls`` has the complete arguments of its calls, by id."""

    def __init__(
        self, ids: ToolIdReader, path: str, provider: str | None = None, calls: Mapping[str, Any] | None = None
    ) -> None:
        self._ids = ids
        self.path = path
        self._provider = provider
        self._calls = calls or {}
        self.seen_calls: set[str] = set()
        """The ids of the calls found so far."""
        self.signatures: dict[int, str] = {}
        """Signatures on texts, by their block."""

    def blocks(self, content: Any) -> list[ContentBlock]:
        """Return the content as blocks. Raises FormatError, with the path of the invalid block."""
        if isinstance(content, str):
            return text_blocks(content)
        if not isinstance(content, list):
            raise FormatError(f"content must be a text or a list, not {kind_of(content)}", path=self.path)
        read: list[ContentBlock] = []
        path = self.path
        for index, item in enumerate(content):
            self.path = f"{path}[{index}]"
            if not isinstance(item, (str, dict)):
                raise FormatError(f"a block must be a text or an object, not {kind_of(item)}", path=self.path)
            with validating(item, self.path):
                found = self._item(item)
            signature = dig(item, "extras", "signature")
            if isinstance(signature, str) and found and isinstance(found[0], TextBlock):
                self.signatures[len(read)] = signature
            read += found
        self.path = path
        return read

    def _item(self, native: str | dict[str, Any]) -> list[ContentBlock]:
        if isinstance(native, str):
            return text_blocks(native)
        kind = native.get("type")
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if read is None:
            return [self._unknown_block(to_text(kind), native)]
        item = Fields(native, self.path, LIBRARY)
        blocks = list(read(self, item))
        item.skip("block")
        item.close()
        return blocks

    def call(self, native_id: str | None, name: str, arguments: Any) -> ContentBlock:
        if native_id:
            self.seen_calls.add(native_id)
        if native_id is not None and native_id in self._calls:
            complete = self._calls[native_id]
            if isinstance(arguments, dict) and arguments not in (complete, {}):
                reason = "a call in the content differs from the same one in tool_calls, which is read"
                source_losses().add(self.path, reason, kind=LossKind.FIELD)
            arguments = complete
        return tool_call(self._ids, native_id, name, arguments)

    def _unknown_block(self, kind: str, item: dict[str, Any]) -> ContentBlock:
        if self._provider is None or kind in _STANDARD or not kind:
            return provider_block(LIBRARY, kind, item)
        native = {name: value for name, value in item.items() if name != "index"}  # keys of the stream
        return ProviderBlock(provider=self._provider, kind=kind, data=native)

    def text(self, item: Fields) -> Iterator[ContentBlock]:
        text = item.required_text("text")
        # The citations are Anthropic's, the annotations those of all others.
        cited = [each.whole() for name in ("citations", "annotations") for each in item.objects(name)]
        read_extras(item)
        if text:
            yield TextBlock(text=text, citations=tuple(map(read_citation, cited)))

    def thinking(self, item: Fields) -> Iterator[ContentBlock]:
        yield ThinkingBlock(text=item.text("thinking") or "", signature=item.text("signature") or None)

    def redacted(self, item: Fields) -> Iterator[ContentBlock]:
        yield RedactedThinkingBlock(data=item.required_text("data"))

    def reasoning(self, item: Fields) -> Iterator[ContentBlock]:
        """Yield reasoning in LangChain's form, with a text, or in that of OpenAI Responses, with summaries."""
        summaries = item.objects("summary")
        for each in summaries:
            each.ignore("type")
        summary = "\n\n".join(each.text("text") or "" for each in summaries)
        text, extras = item.text("reasoning"), read_extras(item)
        sealed = item.text("encrypted_content") or extras.text("signature") or extras.text("encrypted_content")
        yield ThinkingBlock(text=summary if text is None else text, signature=sealed or None)

    def reasoning_content(self, item: Fields) -> Iterator[ContentBlock]:
        inner = item.whole().get("reasoning_content")
        yield ThinkingBlock(text=to_text(dig(inner, "text")), signature=to_text(dig(inner, "signature")) or None)

    def image_url(self, item: Fields) -> Iterator[ContentBlock]:
        if isinstance(item.look("image_url"), str):
            yield media_from_url(item.required_text("image_url"), kind="image")
        else:
            image = item.inner("image_url")
            yield media_from_url(image.required_text("url"), kind="image", detail=image.text("detail"))

    def input_audio(self, item: Fields) -> Iterator[ContentBlock]:
        audio = item.inner("input_audio")
        data, word = audio.required_text("data"), audio.required_text("format")
        yield media_block("base64", data, _FORMATS.get(word, f"audio/{word}"), kind="audio")

    def media(self, item: Fields) -> Iterator[ContentBlock]:
        """Yield media in the forms of both generations; ``source`` is Anthropic's field, ``file`` Chat Completions'."""
        word = to_text(item.look("type"))
        kind = None if word in ("file", "document", "text-plain", "media") else word
        named = [item.text("title"), item.text("filename"), read_extras(item).text("filename")]
        named.append(dig(item.take("metadata"), "filename"))
        media_type, text, url = item.text("mime_type"), item.text("text"), item.text("url")
        file_id, content = item.text("file_id"), item.text("base64")
        source_type, data = item.text("source_type"), item.text("data")
        if (file := item.object("file")) is not None:
            named.append(file.text("filename"))
            whole, file_id = file.text("file_data"), file.text("file_id")
            if whole is not None:
                yield media_from_url(whole, media_type, title=text_in(*named))
                return
        if (source := item.object("source")) is not None:
            url, file_id, media_type = source.text("url"), source.text("file_id"), source.text("media_type")
            if source.required_text("type") == "text":
                text = source.text("data")
            else:
                content = source.text("data")
        details = {"title": text_in(*named), "context": item.text("context"), "detail": item.text("detail")}
        if content is None and source_type != "text":
            content = data
        file_id = file_id or (item.text("id") if source_type == "id" else None)
        if text is not None:
            yield media_block("text", text, media_type or "text/plain", kind="document", **details)
        elif (block := read_media(media_type, data=content, url=url, kind=kind, **details)) is not None:
            yield block
        elif file_id is not None:
            yield media_block("file_id", file_id, media_type, kind=kind, owner=self._provider, **details)
        else:
            yield self._unknown_block(word, item.whole())

    def tool_call(self, item: Fields) -> Iterator[ContentBlock]:
        yield self.call(*read_call(item))

    def tool_use(self, item: Fields) -> Iterator[ContentBlock]:
        yield self.call(item.text("id"), item.required_text("name"), item.take("input"))

    def function_call(self, item: Fields) -> Iterator[ContentBlock]:
        yield self.call(item.text("call_id"), item.required_text("name"), item.text("arguments") or "")

    def tool_result(self, item: Fields) -> Iterator[ContentBlock]:
        """Yield a result in Anthropic's form, which some programs write into a user message."""
        content = item.take("content")
        is_list = isinstance(content, list) and all(isinstance(each, (str, dict)) for each in content)
        blocks = [block for each in (content if is_list else [to_text(content)]) for block in self._item(each)]
        call_id = result_call_id(self._ids, item.required_text("tool_use_id"), None)
        yield ToolResultBlock(tool_use_id=call_id, content=tuple(blocks), is_error=item.flag("is_error"))

    def non_standard(self, item: Fields) -> Iterator[ContentBlock]:
        value = item.look("value")
        kind = dig(value, "type")
        if isinstance(value, dict) and kind in ("refusal", "redacted_thinking"):
            yield from self._item(value)
        elif isinstance(value, dict) and isinstance(kind, str) and self._provider is not None:
            yield ProviderBlock(provider=self._provider, kind=kind, data=value)
        else:
            yield self._unknown_block("non_standard", item.whole())
        item.whole()

    def refusal(self, item: Fields) -> Iterator[ContentBlock]:
        yield from text_blocks(item.required_text("refusal"))


def read_call(item: Fields, *, is_named: bool = True) -> tuple[str | None, str, Any]:
    """Take a call in LangChain's form: its id, name and arguments. A broken one may have no name."""
    name = item.required_text("name") if is_named else item.text("name") or ""
    arguments = item.take("args")
    if not isinstance(arguments, (str, dict)) and arguments is not None:
        raise item.fault("args", f"must be an object or a text, not {kind_of(arguments)}")
    read_extras(item)
    native_id = item.text("id")
    item.ignore("type", "index", "error")
    return native_id, name, arguments


_READERS: dict[str, Callable[[BlockReader, Fields], Iterator[ContentBlock]]] = {
    "text": BlockReader.text,
    "input_text": BlockReader.text,
    "output_text": BlockReader.text,
    "thinking": BlockReader.thinking,
    "redacted_thinking": BlockReader.redacted,
    "reasoning": BlockReader.reasoning,
    "reasoning_content": BlockReader.reasoning_content,
    "image_url": BlockReader.image_url,
    "input_audio": BlockReader.input_audio,
    "image": BlockReader.media,
    "audio": BlockReader.media,
    "video": BlockReader.media,
    "file": BlockReader.media,
    "document": BlockReader.media,
    "media": BlockReader.media,
    "text-plain": BlockReader.media,
    "tool_call": BlockReader.tool_call,
    "tool_use": BlockReader.tool_use,
    "function_call": BlockReader.function_call,
    "tool_result": BlockReader.tool_result,
    "refusal": BlockReader.refusal,
    "non_standard": BlockReader.non_standard,
}
"""The readers by block type."""
