"""The mutants of a source file: each is one small change of its syntax tree."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import CodeType

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
}
_FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}
_SKIPPED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "type_params", "format_spec", "pattern"})
_SKIPPED_NODES = (ast.Import, ast.ImportFrom, ast.Assert, ast.Global, ast.Nonlocal)
_FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Mutant:
    """``index`` is its place among the mutants of the file. ``where`` is the function or class, ``""`` for the module.

    ``in_function``: only the body of a function differs, so the function can be replaced while the program runs.
    """

    index: int
    line: int
    where: str
    change: str
    in_function: bool


@dataclass(frozen=True, slots=True)
class _Spot:
    line: int
    where: str
    in_function: bool
    before: ast.AST
    after: ast.AST
    apply: Callable[[], None]


def list_mutants(source: str) -> list[Mutant]:
    """Return all mutants of a source, in the order of its lines."""
    return [
        Mutant(index, spot.line, spot.where, f"{_show(spot.before)} -> {_show(spot.after)}", spot.in_function)
        for index, spot in enumerate(_walk(ast.parse(source), "", in_function=False))
    ]


def compile_mutant(source: str, path: str, index: int) -> CodeType:
    """Return the code of a module with that mutant; None of its line numbers differ."""
    tree = ast.parse(source)
    next(islice(_walk(tree, "", in_function=False), index, None)).apply()
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def _walk(parent: ast.AST, where: str, *, in_function: bool) -> Iterator[_Spot]:
    for name, value in ast.iter_fields(parent):
        if name in _SKIPPED_FIELDS:
            continue
        inside = in_function or (isinstance(parent, _FUNCTION_NODES) and name == "body")
        children = value if isinstance(value, list) else [value]
        for position, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_skipped(parent, child):
                continue
            for replacement in _replacements(parent, name, child):
                ast.copy_location(replacement, child)
                apply = _setter(parent, name, position if isinstance(value, list) else None, replacement)
                line = getattr(child, "lineno", getattr(parent, "lineno", 0))
                yield _Spot(line, where, inside, child, replacement, apply)
            named = isinstance(child, (*_FUNCTION_NODES, ast.ClassDef))
            yield from _walk(child, f"{where}.{child.name}".lstrip(".") if named else where, in_function=inside)


def _setter(parent: ast.AST, name: str, position: int | None, replacement: ast.AST) -> Callable[[], None]:
    def apply() -> None:
        if position is None:
            setattr(parent, name, replacement)
        else:
            getattr(parent, name)[position] = replacement

    return apply


def _is_skipped(parent: ast.AST, child: ast.AST) -> bool:
    """Docstrings, texts for people (they have spaces, or are in an error or a log), and what concerns types alone."""
    match child:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Constant(value=str() as text):
            return " " in text or isinstance(parent, ast.JoinedStr) or _is_message(parent)
        case ast.JoinedStr():
            return _is_message(parent)
        case _:
            return isinstance(child, _SKIPPED_NODES)


def _is_message(parent: ast.AST) -> bool:
    """Whether the parent makes an error or logs."""
    match parent:
        case ast.Call(func=ast.Name(id=name)):
            return name.endswith("Error")
        case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"))):
            return True
        case _:
            return False


def _replacements(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.stmt():
            yield from _statement(node)
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            for swapped in _COMPARISONS[type(op)]:
                yield ast.Compare(left=left, ops=[swapped()], comparators=comparators)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for at, op in enumerate(ops):
                for swapped in _COMPARISONS[type(op)]:
                    yield ast.Compare(left=left, ops=[*ops[:at], swapped(), *ops[at + 1 :]], comparators=comparators)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(op=ast.And() if isinstance(op, ast.Or) else ast.Or(), values=values)
            for at in range(len(values)):
                rest = [*values[:at], *values[at + 1 :]]
                yield ast.BoolOp(op=op, values=rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield ast.BinOp(left=right, op=ast.BitOr(), right=left)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield ast.BinOp(left=left, op=_ARITHMETIC[type(op)](), right=right)
        case ast.Constant(value=bool() as flag):
            yield ast.Constant(not flag)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.Constant(value=str() as text):
            yield ast.Constant(f"{text}XX")
        case ast.Attribute(value=ast.Name(id=owner), attr=member) if owner[0].isupper() and member.isupper():
            for place in (0, -1):
                yield _other_member(node, owner, place)
        case ast.Dict(keys=[*keys], values=values) if len(keys) > 1 and not any(keys):
            yield ast.Dict(keys=keys, values=values[::-1])
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _FUNCTIONS:
            yield ast.Call(func=ast.Name(_FUNCTIONS[name], ast.Load()), args=args, keywords=keywords)
        case ast.Call(func=func, args=args, keywords=keywords):
            for at in range(len(keywords)):
                yield ast.Call(func=func, args=args, keywords=[*keywords[:at], *keywords[at + 1 :]])
        case _:
            pass
    if field in {"test", "ifs"} and isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr)):
        yield ast.UnaryOp(op=ast.Not(), operand=node)


def _statement(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.AugAssign(target=target, op=op, value=value):
            if type(op) in _ARITHMETIC:
                yield ast.AugAssign(target=target, op=_ARITHMETIC[type(op)](), value=value)
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Expr() | ast.Continue() | ast.Break() | ast.Raise() | ast.Delete():
            yield ast.Pass()
        case _:
            pass


def _other_member(node: ast.Attribute, owner: str, place: int) -> ast.expr:
    """Return the first or the last other member of the enum."""
    text = f"[member for member in {owner} if member is not {ast.unparse(node)}][{place}]"
    return ast.parse(text, mode="eval").body


def _show(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
