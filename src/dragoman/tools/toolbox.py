"""The tools of a session, and the check of a call before it runs."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import ref

from pydantic import ValidationError

from dragoman.adapter.errors import ConfigurationError, ToolSchemaError
from dragoman.adapter.names import foreign_value
from dragoman.adapter.notes import is_foreign_tool
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.guard import copy_json
from dragoman.canonical.log import get_logger
from dragoman.canonical.tools import ClientTool, ServerTool, SideEffects, ToolDefinition
from dragoman.tools.context import NO_CONTEXT, CallDeferred, Context
from dragoman.tools.tool import Tool, add_defaults, tool

if TYPE_CHECKING:
    from dragoman.tools.calls import PreparedCall

AnyTool = Tool | ToolDefinition | Callable[..., Any]
"""A tool, a function that becomes one, a server tool, or the definition of a tool whose calls are answered
elsewhere."""

Toolset = Callable[[Context[Any]], Iterable[AnyTool]]
"""Chooses the tools of a turn. It is called when the turn starts; the context has no call."""


def is_toolset(value: Any) -> bool:
    """Whether the value is a function that chooses tools: its only parameter is a `Context`, or has no annotation. Any
    other function is a tool that was not put into a list."""
    if not callable(value) or isinstance(value, (Tool, ToolDefinition, Iterable)):
        return False
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):  # a builtin function
        return False
    from dragoman.tools.signature import takes_context  # imported late: few sessions choose their tools

    return len(parameters) == 1 and (parameters[0].annotation is parameters[0].empty or takes_context(value))


logger = get_logger("dragoman.tools")


class Toolbox:
    """A session's tools by name. Raises ToolSchemaError for a schema outside the subset and for a duplicate name."""

    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._definitions: dict[str, ToolDefinition] = {}
        self._unchecked: set[str] = set()
        """The tools whose calls another program checks."""
        self._needy: list[Tool] = []
        """The tools that run only in sessions with a context, a workspace or an event loop."""
        self._extend(tools)

    def add(self, item: AnyTool) -> None:
        """Register a tool, a plain function as one, a tool that the provider runs or defines, or a definition whose
        calls wait for `Session.answer`."""
        self._extend((item,))

    def _extend(self, tools: Iterable[AnyTool]) -> None:
        definitions, checked = self._definitions, _CHECKED
        for item in tools:
            is_tool = isinstance(item, Tool)
            added: Any = item if is_tool else _to_tool(item)
            definition: ToolDefinition = added.definition if is_tool or isinstance(added, Tool) else added
            name = definition.name
            if name in definitions:
                raise ToolSchemaError(name, [f"name: {name!r} is registered already"])
            if added is not definition:  # else the provider runs it
                if not is_tool and _is_declared_elsewhere(item):
                    self._unchecked.add(name)
                elif (known := checked.get(id(definition))) is None or known[1] != definition.input_schema:
                    _check(definition)
                self._tools[name] = added
                if added.is_async or added.context_type is not NO_CONTEXT or definition.requires_workspace:
                    self._needy.append(added)
            definitions[name] = definition
        self.definitions = tuple(self._definitions.values())
        """The definitions of all tools, in the order in which they were added."""

    def replace(self, tools: Iterable[AnyTool]) -> None:
        """Register these tools in place of all others. If one of them is refused, nothing changes."""
        self.__dict__.update(Toolbox(tools).__dict__)

    def check_context(self, value: Any) -> None:
        """Raise ConfigurationError if a tool takes a context of another type than that of the value."""
        for each in self._needy:
            if each.context_type is not NO_CONTEXT and not _may_be(value, each.context_type):
                raise ConfigurationError(
                    f"the tool {each.name} needs a context of the class {each.context_type.__name__}, not"
                    f" {type(value).__name__}: give the session context=..."
                )

    def check_workspace(self, workspace: object) -> None:
        """Raise ConfigurationError if there is no workspace and a tool that runs here requires one."""
        if workspace is not None:
            return
        for each in self._needy:
            if each.definition.requires_workspace and each.function is not _wait:
                raise ConfigurationError(
                    f"the tool {each.name} requires a workspace: give the session workspace=..., or the definition"
                    " requires_workspace=False"
                )

    def __len__(self) -> int:
        return len(self._definitions)

    @property
    def async_names(self) -> tuple[str, ...]:
        """The names of the tools that only an `AsyncSession` can run."""
        return tuple([item.name for item in self._needy if item.is_async])

    def may_report(self, requested_calls: Iterable[ToolUseBlock]) -> bool:
        """Whether one of the calls may report progress."""
        tools = (self._tools.get(call.name) for call in requested_calls)
        return any(found is not None and found.yields for found in tools)

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._tools.get(name)

    def side_effects(self, name: str) -> SideEffects | None:
        """Return the side effects of that tool; None if there is no such tool."""
        found = self._tools.get(name)
        return None if found is None else found.definition.side_effects

    def prepare(self, call: ToolUseBlock) -> "PreparedCall":
        """Check a call before it runs: is the tool known, are the arguments complete, and do they fit the schema?"""
        from dragoman.tools.calls import PreparedCall  # imported late: many turns call no tool

        found = self._tools.get(call.name)
        if found is None:
            known = ", ".join(self._tools) or "none"
            return PreparedCall(
                call, refusal=f"There is no tool {call.name!r}. Known tools: {known}.", fault="not_found"
            )
        if call.raw_input is not None:
            incomplete = "The arguments were not a complete JSON object, so the tool was not run."
            return PreparedCall(call, refusal=incomplete, fault="validation_error")
        errors = () if call.name in self._unchecked else _validator(found.definition).iter_errors(call.input)
        violations = [_violation(error.instance_path, error.message) for error in errors]
        # Only the model's arguments are converted: the rest have the function's defaults.
        arguments = dict(call.input)
        for name in () if violations else [name for name in arguments if name in found.arguments]:
            try:
                arguments[name] = found.arguments[name].validate_python(arguments[name])
            except ValidationError as error:
                violations += [_violation((name, *fault["loc"]), fault["msg"]) for fault in error.errors()]
            except Exception as error:  # a validator of the tool's own types
                violations.append(_violation((name,), f"{type(error).__name__}: {error}"))
        if violations:
            logger.warning("tool.input_invalid: %s: %d violations", call.name, len(violations))
            mismatch = "The arguments do not match the schema: " + "; ".join(violations)
            return PreparedCall(call, refusal=mismatch, fault="validation_error")
        add_defaults(found.fields, arguments)
        return PreparedCall(call, found, arguments)


def _to_tool(item: Any) -> Tool | ServerTool:
    """Return what runs the calls of a tool here, or a tool that its provider runs as it is."""
    if isinstance(item, Mapping):
        raise ConfigurationError(f"a tool must be a function, not a mapping{foreign_value('tools', [item])}")
    if item is None:  # `tool` without a function is a decorator
        raise ConfigurationError("a tool must be a function, not None")
    if not isinstance(item, ToolDefinition):
        return tool(item)
    if isinstance(item, ServerTool) and not isinstance(item, ClientTool):
        return item
    if not isinstance(item, ClientTool) or _is_declared_elsewhere(item):
        return Tool(item, _wait)
    if item.function is None:
        raise ConfigurationError(f"the program runs {item.name}: give its function, as in Memory(function=...)")
    return Tool(item, item.function)


def _is_declared_elsewhere(item: Any) -> bool:
    """Whether an adapter read the tool from a request: another program declared it, and runs it. It goes to providers
    as it is, and its calls wait."""
    return isinstance(item, ToolDefinition) and is_foreign_tool(item) and getattr(item, "function", None) is None


def _wait(**_: Any) -> None:
    raise CallDeferred("the tool has no function here")


def _may_be(value: Any, expected: Any) -> bool:
    """Whether the value may have that type, as far as a class can tell: a protocol or a TypedDict cannot."""
    if expected is Any or not isinstance(expected, type):
        return True
    try:
        return isinstance(value, expected)
    except TypeError:
        return True


def _validator(definition: ToolDefinition) -> Any:
    """Return what checks the arguments of a call against the schema as it is now: the model saw that one, also if
    somebody has changed it in place since the session began."""
    known = _CHECKED.get(id(definition))
    return known[2] if known is not None and known[1] == definition.input_schema else _check(definition)


def _check(definition: ToolDefinition) -> Any:
    """Return what checks the arguments of calls. Raises ToolSchemaError with every problem of the definition.

    A definition is checked once for all sessions, unless somebody changes its schema.
    """
    key, schema = id(definition), definition.input_schema
    problems = definition.problems()
    if not problems:
        import jsonschema_rs  # imported late: only sessions with tools need it

        try:
            validator = jsonschema_rs.validator_for(schema, retriever=refuse_reference)
        except jsonschema_rs.ValidationError as error:
            problems.append(f"{'.'.join(('$', *map(str, error.instance_path)))}: {error.message}")
    if problems:
        raise ToolSchemaError(definition.name, problems)
    _CHECKED[key] = ref(definition, lambda _: _CHECKED.pop(key, None)), copy_json(schema), validator
    return validator


_CHECKED: dict[int, tuple[ref[ToolDefinition], Any, Any]] = {}
"""The definitions without problems, by identity, as long as they live: with a copy of the schema that was checked, and
the validator of their calls. A copy is compared in a sixth of the time that its JSON takes."""


def refuse_reference(address: str) -> Any:
    """Refuse what a schema refers to outside itself: checking a value must not open a connection."""
    raise ValueError("references to other documents are not followed")


def _violation(path: Iterable[Any], message: str) -> str:
    return f"{'.'.join(map(str, path)) or 'input'}: {message}"
