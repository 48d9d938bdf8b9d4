"""MessageView: one interface to every part of a message, for policies. Source: docs/reference/cmf.md#views.

A view is read-only: every value it returns is frozen or a copy. It checks no capability itself, so build it from
the extensions that its reader may see (`dragoman.policy.filter_extensions`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.extensions.security import DataPolicy, ObjectSecurityProfile
from dragoman.canonical.extensions.slots import BaseExtensions
from dragoman.canonical.frozen import FrozenDict, freeze, thaw
from dragoman.canonical.log import get_logger, one_line
from dragoman.canonical.message_fields import MessageFields, Role
from dragoman.canonical.message_view import kinds, parts
from dragoman.canonical.message_view.context import ViewContext, ViewSource, export_context
from dragoman.canonical.message_view.kinds import ViewAction, ViewKind
from dragoman.canonical.message_view.parts import CalledTool, UnknownPartError
from dragoman.canonical.message_view.uris import AmbiguousUriError, UriMeaning, matches_uri, read_uri, uri_pattern

logger = get_logger("dragoman.canonical")

_UNSET: Any = object()


def iter_views(
    message: MessageFields,
    hook: str | None = None,
    extensions: BaseExtensions | None = None,
    *,
    calls: Mapping[str, CalledTool] | None = None,
    capabilities: Collection[str] | None = None,
) -> "Iterator[MessageView]":
    """Return one view for each part, in order.

    ``hook`` is the step in the pipeline, such as llm_output. ``calls`` maps call ids to tools (see `called_tools`).
    Without it, the MCP metadata of the extensions names the tool of a message with exactly one call or result.
    ``capabilities`` are those of the reader: questions whose answers they hide raise UnreadableError.

    Raises UnknownPartError immediately, before the first view, if a part has no kind: nothing is skipped.
    Raises TypeError if the extensions are of another type, such as a dict.
    """
    if not (extensions is None or isinstance(extensions, BaseExtensions)):
        type_name = type(extensions).__name__
        raise TypeError(f"extensions must be Extensions, not a {type_name}: Extensions.model_validate reads a dict")
    granted = None if capabilities is None else frozenset(capabilities)
    return iter(build_views(message, ViewSource(hook, extensions, granted), calls))


def build_views(
    message: MessageFields, source: ViewSource, calls: Mapping[str, CalledTool] | None
) -> "tuple[MessageView, ...]":
    """Do what `iter_views` does, with a source that all views of the message share."""
    views = []
    for index, part in enumerate(message.content):
        kind, tool = type(part), None
        if kind is not TextBlock:  # most parts are texts
            if kinds.kind_of(part) is None:
                _raise_unknown(part, f"content[{index}] of message {one_line(message.id)}")
            tool = _find_tool(part, message.content, source, calls) if kind in _CALL_BLOCKS else None
        view = _NEW(MessageView)
        _SET_PART(view, part)
        _SET_ROLE(view, message.role)
        _SET_SOURCE(view, source)
        _SET_TOOL(view, tool)
        _SET_CONTENT(view, _UNSET)
        views.append(view)
    return tuple(views)


_CALL_BLOCKS = frozenset({ToolUseBlock, ToolResultBlock})


def _raise_unknown(part: ContentBlock, where: str) -> NoReturn:
    type_name = one_line(str(getattr(part, "type", type(part).__name__)))
    logger.warning("%s is of the kind %r, which no view can show", where, type_name)
    raise UnknownPartError(f"{where} is of the kind {type_name!r}, which no view can show: remove it or deny it")


def _find_tool(
    part: ContentBlock,
    content: Sequence[ContentBlock],
    source: ViewSource,
    calls: Mapping[str, CalledTool] | None,
) -> CalledTool | None:
    """Return the tool of a call or a result, if it is known."""
    alone = sum(type(each) in _CALL_BLOCKS for each in content) == 1
    mcp = source.extensions.mcp if alone and source.extensions else None
    tool = mcp.tool if mcp else None
    described = CalledTool(tool.name, tool.namespace or tool.server_id) if tool else None
    if isinstance(part, ToolResultBlock):
        return (calls or {}).get(part.tool_use_id) or described
    if isinstance(part, ToolUseBlock):
        candidates = ((calls or {}).get(part.id), described)
        return next((each for each in candidates if each and each.name == part.name and each.namespace), None)
    return None


class MessageView(ViewContext):
    """A policy's view of one part. Raises UnknownPartError for a part without a kind."""

    __slots__ = ("_content", "_part", "_role", "_source", "_tool")

    _part: ContentBlock
    _role: Role
    _source: ViewSource
    _tool: CalledTool | None
    _content: Any

    def __init__(
        self,
        part: ContentBlock,
        role: Role,
        *,
        hook: str | None = None,
        extensions: BaseExtensions | None = None,
        tool: CalledTool | None = None,
        capabilities: frozenset[str] | None = None,
    ) -> None:
        if kinds.kind_of(part) is None:
            _raise_unknown(part, "this part")
        _SET_PART(self, part)
        _SET_ROLE(self, Role(role))
        _SET_SOURCE(self, ViewSource(hook, extensions, capabilities))
        _SET_TOOL(self, tool)
        _SET_CONTENT(self, _UNSET)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a MessageView is read-only: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a MessageView is read-only: {name} cannot be deleted")

    @property
    def kind(self) -> ViewKind:
        """The kind of part. Source: docs/reference/cmf.md#kinds-and-actions."""
        return kinds.KIND_BY_BLOCK.get(type(self._part), ViewKind.TOOL_RESULT)

    @property
    def role(self) -> Role:
        """Who speaks in the message of this part."""
        return self._role

    @property
    def hook(self) -> str | None:
        """The step in the pipeline, such as llm_output."""
        return self._source.hook

    @property
    def raw(self) -> ContentBlock:
        """An equal copy of the part, so that changes to it do not reach the message."""
        return self._part.model_copy(deep=True)

    @property
    def content(self) -> str | None:
        """The text that can be searched, computed once; `parts.content_of` describes it for each kind."""
        content: str | None = self._content
        if content is _UNSET:
            content = parts.content_of(self._part)
            _SET_CONTENT(self, content)
        return content

    @property
    def text(self) -> str | None:
        """An alias of ``content``."""
        return self.content

    @property
    def uri(self) -> str | None:
        """The URI that identifies the entity, as it is spelled: tool://namespace/name and the like, that of a resource,
        or the address of media that are given by URL.
        """
        return parts.uri_of(self._part, self._tool)

    @property
    def has_address(self) -> bool:
        """True if the URI is an address that is fetched: that of a resource, or of media by URL."""
        return self.kind in kinds.RESOURCES or (self.kind in kinds.MEDIA and self.uri is not None)

    @property
    def uri_meaning(self) -> UriMeaning | None:
        """What the URI of a resource or of media means, or None if it has no single meaning, or is not an address."""
        return read_uri(self.uri or "") if self.has_address else None

    @property
    def name(self) -> str | None:
        """The tool's, prompt's or resource's name; None for text and media."""
        return parts.name_of(self._part, self._tool)

    @property
    def action(self) -> ViewAction:
        """What happens with the part, such as execute or read. Source: docs/reference/cmf.md#kinds-and-actions."""
        return kinds.ACTIONS.get(self.kind) or kinds.ACTIONS_BY_ROLE.get(self._role, ViewAction.RECEIVE)

    @property
    def args(self) -> FrozenDict | None:
        """The arguments of a tool call or a prompt request, deeply frozen."""
        arguments = parts.arguments_of(self._part)
        return None if arguments is None else FrozenDict(freeze(arguments))

    @property
    def mime_type(self) -> str | None:
        """The IANA type of a resource or medium; None for other parts, or if it is not known."""
        return parts.mime_type_of(self._part)

    @property
    def size_bytes(self) -> int | None:
        """The declared size of a resource, or else the bytes of the content; None if there is nothing to measure."""
        return parts.size_of(self._part, self.content)

    @property
    def properties(self) -> FrozenDict:
        """The properties of this kind of part, deeply frozen. Source: docs/reference/cmf.md#properties."""
        return FrozenDict(freeze(parts.properties_of(self._part, self._tool)))

    @property
    def is_pre(self) -> bool:
        """True for input: a request, or text and media of a user, system or developer message."""
        return self.kind in kinds.PRE_KINDS or (self.kind not in kinds.POST_KINDS and self._role in kinds.PRE_ROLES)

    @property
    def is_post(self) -> bool:
        """True for output. Every part is either input or output."""
        return not self.is_pre

    @property
    def is_tool(self) -> bool:
        """Whether the part is a tool's call or its result."""
        return self.kind in kinds.TOOLS

    @property
    def is_prompt(self) -> bool:
        """Whether the part requests a prompt template or is its result."""
        return self.kind in kinds.PROMPTS

    @property
    def is_resource(self) -> bool:
        """Whether the part is a resource or a reference to one."""
        return self.kind in kinds.RESOURCES

    @property
    def is_text(self) -> bool:
        """Whether the part is text or thinking."""
        return self.kind in kinds.TEXTS

    @property
    def is_media(self) -> bool:
        """Whether the part is an image, audio, video or a document."""
        return self.kind in kinds.MEDIA

    @property
    def object(self) -> ObjectSecurityProfile | None:
        """The access profile of this entity, by name, then by URI; a copy. `objects` are all that hold."""
        return next(iter(self.objects), None)

    @property
    def objects(self) -> tuple[ObjectSecurityProfile, ...]:
        """The access profiles of this entity, as copies: that of its name and that of its URI. Each of them holds, so
        that a name which somebody else chose hides nothing.

        Raises UnreadableError, and AmbiguousUriError if the URI has no single meaning, and other URIs have profiles."""
        self._require("objects", "read_objects")
        return self._find_entities("objects")

    @property
    def data_policy(self) -> DataPolicy | None:
        """The data policy of this entity, by name, then by URI; a copy. `data_policies` are all that hold."""
        return next(iter(self.data_policies), None)

    @property
    def data_policies(self) -> tuple[DataPolicy, ...]:
        """The data policies of this entity, as `objects` are its profiles. Raises what these raise."""
        self._require("data_policies", "read_data")
        return self._find_entities("data")

    def _find_entities(self, field: str) -> tuple[Any, ...]:
        entries: Mapping[str, Any] = getattr(self._security, field) if self._security else {}
        keys = dict.fromkeys(key for key in (self.name, self.uri) if key and key in entries)
        if entries and self.has_address:
            meanings = {key: meaning for key in entries if ":" in key and (meaning := read_uri(key)) is not None}
            own = self.uri_meaning
            if self.uri not in keys and meanings and (own is None or len(own.readings) > 1):
                raise AmbiguousUriError("a URI has no single meaning, so that no rule can decide about it")
            keys |= dict.fromkeys(key for key, each in meanings.items() if own and each.text == own.text)
        return tuple(entries[key].model_copy(deep=True) for key in keys)

    def get_property(self, name: str, default: Any = None) -> Any:
        """Return one of ``properties``, or ``default`` if the part lacks it."""
        return self.properties.get(name, default)

    def get_arg(self, name: str, default: Any = None) -> Any:
        """Return a frozen copy of one argument of a call or prompt request, or ``default`` if it was not given."""
        return freeze((parts.arguments_of(self._part) or {}).get(name, default))

    def has_arg(self, name: str) -> bool:
        """Whether a call or prompt request gives this argument."""
        return name in (parts.arguments_of(self._part) or {})

    def matches_uri_pattern(self, pattern: str) -> bool:
        """Return True if the whole URI matches the glob; False if there is no URI.

        Addresses are compared by what they mean. Raises AmbiguousUriError if one has no single meaning.
        """
        uri = self.uri
        if not uri:
            return False
        return matches_uri(pattern, uri) if self.has_address else uri_pattern(pattern).matches_name(uri)

    def has_content(self) -> bool:
        """Whether `content` has a text."""
        return self.content is not None

    def inner_views(self) -> "Iterator[MessageView]":
        """Return views of the parts inside this part: the blocks of a tool result, the messages of a prompt result.

        The content of a prompt result is its own text only, so a policy must look here for the text of its messages.
        Raises UnknownPartError immediately if something inside has no kind or is not a message.
        """
        hook, extensions, granted = self.hook, self._extensions, self._source.capabilities
        return iter(
            [
                MessageView(part, role, hook=hook, extensions=extensions, capabilities=granted)
                for role, part in parts.inner_parts(self._part)
            ]
        )

    def to_dict(
        self, include_content: bool = True, include_context: bool = True, *, include_arguments: bool = True
    ) -> dict[str, Any]:
        """Return this view as plain JSON that shares nothing. It never holds secret headers or claims.

        Without the content, the arguments of a call are kept, unless ``include_arguments`` is False too. That flag
        alone also leaves out a call's content, because its content is its arguments. Source:
        docs/reference/cmf.md#view-as-json.
        """
        document: dict[str, Any] = {
            "kind": self.kind.value,
            "role": self.role.value,
            "is_pre": self.is_pre,
            "is_post": self.is_post,
            "action": self.action.value,
        }
        if self.hook is not None:
            document["hook"] = self.hook
        if self.uri:
            document["uri"] = self.uri
        if self.name:
            document["name"] = self.name
        # The arguments of a call are its content: without them, the content is left out too.
        if include_content and (include_arguments or self.kind not in kinds.CALLS):
            document |= self._export_content()
        if self.mime_type:
            document["mime_type"] = self.mime_type
        if include_arguments and self.args is not None:
            document["arguments"] = thaw(self.args)
        if self.properties:
            document["properties"] = thaw(self.properties)
        if include_context:
            profile, policy = (next(iter(self._find_entities(field)), None) for field in ("objects", "data"))
            if context := export_context(self, profile, policy):
                document["extensions"] = context
        return document

    def _export_content(self) -> dict[str, Any]:
        """Return the content and its size: that of the text, even if a resource declares another one."""
        if self.content is not None:
            return {"content": self.content, "size_bytes": len(self.content.encode())}
        return {} if self.size_bytes is None else {"size_bytes": self.size_bytes}

    def to_opa_input(self, include_content: bool = True, *, include_arguments: bool = True) -> dict[str, Any]:
        """Return the input document for the Open Policy Agent."""
        return {"input": self.to_dict(include_content, include_arguments=include_arguments)}

    def __reduce__(self) -> Any:
        source = self._source
        restore = partial(
            MessageView,
            hook=source.hook,
            extensions=source.extensions,
            tool=self._tool,
            capabilities=source.capabilities,
        )
        return restore, (self.raw, self._role)

    def __repr__(self) -> str:
        """Leave out the content, because it may be a secret."""
        uri = f", uri={self.uri}" if self.uri else ""
        hook = f", hook={self.hook}" if self.hook else ""
        return f"MessageView(kind={self.kind}, role={self._role}, {'pre' if self.is_pre else 'post'}{uri}{hook})"


_SET_PART, _SET_ROLE, _SET_SOURCE, _SET_TOOL, _SET_CONTENT = (
    MessageView.__dict__[name].__set__ for name in ("_part", "_role", "_source", "_tool", "_content")
)
"""These set the fields of a view, which has no assignments."""


_NEW = MessageView.__new__
