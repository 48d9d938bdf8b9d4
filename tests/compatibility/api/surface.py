"""The public surface of a source tree: each name's signature, read without running anything.

A name is public if docs/api.md promises its module and the module exports it: by ``__all__``, or, without one, by
defining it under a name without an underscore. Of a class, every public attribute and method counts, with those that it
inherits from our classes; so do the parameters of its constructor.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import griffe

from tests.compatibility.api.documented import PACKAGE

Member = griffe.Object | griffe.Alias

_EVERYWHERE = ("__repr__", "__str__", "__eq__", "__hash__")
"""Every object has them, whether or not a class defines them."""


def surface(source: Path, promised: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The signature of each public name, by its dotted path, of the package under ``source``.

    ``promised`` holds what docs/api.md names, by module. A module may be promised as one of the names of another.
    """
    loader = griffe.GriffeLoader(search_paths=[str(source)], allow_inspection=False)
    package = loader.load(PACKAGE)
    loader.resolve_aliases(implicit=True, external=False)
    found: dict[str, Member] = {}
    for path, names in promised.items():
        relative = path.removeprefix(PACKAGE).removeprefix(".")
        found.update(_members(path, package[relative] if relative else package, names))
    return describe_surface(found)


def _members(path: str, module: Member, also: Iterable[str] = ()) -> Iterator[tuple[str, Member]]:
    for name, member in _exported(module, also):
        yield f"{path}.{name}", member
        if (found := _resolve(member)) is not None and isinstance(found, griffe.Module):
            yield from _members(f"{path}.{name}", found)


def _exported(module: Member, also: Iterable[str]) -> Iterator[tuple[str, Member]]:
    names = {str(each) for each in module.exports} if module.exports is not None else set()
    if module.exports is None:
        names = {
            name
            for name, member in module.members.items()
            if not name.startswith("_") and not member.is_alias and not member.is_module
        }
    names |= {name for name in also if name in module.members}
    for name in sorted(names):
        yield name, module.members[name]


def _resolve(member: Member) -> griffe.Object | None:
    """The definition of a name, or None if only running the code would show it.

    If a module holds a name of its own name, the package exports the latter.
    """
    try:
        found = member.final_target if isinstance(member, griffe.Alias) else member
    except griffe.AliasResolutionError:
        return None
    return _resolve(found.members[found.name]) if isinstance(found, griffe.Module) and _names_itself(found) else found


def _names_itself(module: griffe.Module) -> bool:
    return module.name in module.members and not module.members[module.name].is_module


def describe_surface(found: Mapping[str, Member]) -> dict[str, str]:
    """One line for each name. An object with two names is described under the first, and so is an inherited member."""
    first: dict[str, str] = {}
    for path, member in found.items():
        if (target := _resolve(member)) is not None:
            first.setdefault(target.path, path)
    lines: dict[str, str] = {}
    for path, member in found.items():
        target = _resolve(member)
        if target is None:
            lines[path] = "value"
        elif first[target.path] != path:
            lines[path] = f"is {first[target.path]}"
        elif isinstance(target, griffe.Class):
            lines[path] = f"class({', '.join(_format_expression(base) for base in target.bases)})"
            lines.update(_attributes(path, target, first))
        else:
            lines[path] = _signature(target)
    return lines


def _attributes(path: str, owner: griffe.Class, public: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, member in sorted(owner.all_members.items()):
        target = _resolve(member)
        if target is None or target.parent is None or not _is_public(name, target):
            continue
        place = target.parent.path
        if place == owner.path or (place.startswith(f"{PACKAGE}.") and place not in public):
            yield f"{path}.{name}", _signature(target)


def _is_public(name: str, member: griffe.Object) -> bool:
    if name.startswith("__"):
        return isinstance(member, griffe.Function) and name not in _EVERYWHERE
    return not name.startswith("_") and name != "model_config"


def _signature(member: griffe.Object) -> str:
    if isinstance(member, griffe.Function):
        ways = member.overloads or [member]
        return " | ".join(_function(way) for way in ways)
    if isinstance(member, griffe.Attribute):
        twin = _awaited_method(member)
        return _attribute(member) if twin is None else _function(twin, "async")
    return member.kind.value


def _awaited_method(attribute: griffe.Attribute) -> griffe.Function | None:
    """The method whose async twin an attribute is: ``name = _awaited(Class.name)``."""
    match attribute.value:
        case griffe.ExprCall(
            function=griffe.ExprName(name="_awaited"), arguments=[griffe.ExprAttribute(canonical_path=path)]
        ):
            found = _resolve(attribute.modules_collection[path])
            return found if isinstance(found, griffe.Function) else None
    return None


def _function(function: griffe.Function, *also: str) -> str:
    known = ("async", "classmethod", "staticmethod", "abstractmethod")
    kinds = [name for name in known if name in function.labels or name in also]
    parameters = [*_parameters(function.parameters), *_keywords(function)]
    return " ".join([*kinds, f"def({', '.join(parameters)}) -> {_format_expression(function.returns)}"])


def _keywords(function: griffe.Function) -> Iterator[str]:
    """The fields of a ``TypedDict`` that the function takes as ``**name: Unpack[...]``."""
    for parameter in function.parameters:
        match parameter.annotation:
            case griffe.ExprSubscript(left=griffe.ExprName(name="Unpack"), slice=griffe.ExprName() as fields):
                taken = _resolve(function.modules_collection[fields.canonical_path])
                if isinstance(taken, griffe.Class):
                    for name, field in sorted(taken.attributes.items()):
                        yield f"{name}: {_format_expression(field.annotation)}"


def _parameters(parameters: griffe.Parameters) -> list[str]:
    formatted, keywords = [], False
    for index, parameter in enumerate(parameters):
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not keywords:
            formatted.append("*")
            keywords = True
        keywords = keywords or kind is griffe.ParameterKind.var_positional
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(kind, "")
        annotation = f": {_format_expression(parameter.annotation)}" if parameter.annotation is not None else ""
        default = f" = {_format_expression(parameter.default)}" if parameter.default is not None and not stars else ""
        formatted.append(f"{stars}{parameter.name}{annotation}{default}")
        after = parameters[index + 1].kind if index + 1 < len(parameters) else None
        if kind is griffe.ParameterKind.positional_only and after is not griffe.ParameterKind.positional_only:
            formatted.append("/")
    return formatted


def _attribute(attribute: griffe.Attribute) -> str:
    """A property's type; a field's type and default; for other values, the type only.

    In a module, a capitalised name without an annotation may be an alias of a type: then its value is described.
    """
    annotation = _format_expression(attribute.annotation)
    if "property" in attribute.labels:
        return f"property -> {annotation}"
    in_class = "class-attribute" in attribute.labels
    in_module = isinstance(attribute.parent, griffe.Module)
    if in_class or (in_module and attribute.annotation is None and attribute.name[:1].isupper()):
        value = f"= {_format_expression(attribute.value)}" if attribute.value is not None else ""
        return " ".join(part for part in ("" if attribute.annotation is None else annotation, value) if part)
    return annotation


def _format_expression(expression: griffe.Expr | str | None) -> str:
    """Return the source text, without what concerns us alone: the check of a setting."""
    match expression:
        case None:
            return "value"
        case griffe.ExprSubscript(
            left=griffe.ExprName(name="Annotated"), slice=griffe.ExprTuple(elements=[kind, check])
        ):
            if str(check).startswith("_"):
                return str(kind)
    return str(expression)
