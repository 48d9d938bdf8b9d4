"""Writes what follows from the declarations of settings: TypedDicts for type checkers, and Args in docstrings.

`python -m tests.upkeep.settings` writes. A setting is a field of one class, with its type and its sentences. If callers
may pass more than the field holds, ``metadata={"accepts": ...}`` has their type. A blank line begins a group.
"""

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dragoman"
FOREIGN_NAMES = "adapter/foreign_names.toml"
WIDTH = 120


class Setting(NamedTuple):
    name: str
    accepts: str
    """The type that callers may pass, as source text."""
    doc: str
    """The docstring as it stands in the source."""
    begins_group: bool

    @property
    def sentence(self) -> str:
        """The first sentence of the docstring."""
        text = " ".join(self.doc.split())
        return re.split(r"(?<=[.])(?<!e\.g\.) (?=[A-Z`])", text)[0]


@dataclass(frozen=True)
class Declaration:
    """A class whose fields are settings."""

    file: str
    name: str
    omit: Collection[str] = ()
    """Fields that callers do not set there."""

    def settings(self) -> Iterator[Setting]:
        source = _read(self.file)
        body = _find(ast.parse(source), self.name).body
        lines = source.splitlines()
        group = False
        for node, after in zip(body, [*body[1:], None], strict=True):
            group |= not lines[node.lineno - 2].strip()
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            name = node.target.id
            if name in self.omit:
                continue
            doc = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            yield Setting(name, _accepted(source, node), str(doc), group)
            group = False


def _accepted(source: str, node: ast.AnnAssign) -> str:
    for keyword in node.value.keywords if isinstance(node.value, ast.Call) else ():
        if keyword.arg == "metadata":
            accepts: str = ast.literal_eval(keyword.value)["accepts"]
            return accepts
    annotation = node.annotation
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        annotation = annotation.slice.elts[0]
    return ast.get_source_segment(source, annotation) or ""


OPTIONS = Declaration("adapter/options.py", "AdapterOptions", omit=("stream", "context"))
SESSION = Declaration("session/config.py", "SessionConfig", omit=("own_providers", "store"))
CLIENT = Declaration("configuration/config.py", "ClientConfig", omit=("lifetime",))
RUN = Declaration("bulk/config.py", "RunConfig", omit=("source", "models", "controller", "identity", "output_retries"))
NEW_SESSION = Declaration("session/config.py", "NewSessionSettings")
PROVIDER_OF_SESSION = Declaration("session/config.py", "SessionSettings")
TURN = Declaration("session/config.py", "TurnOptions")
ONLY_TURN = Declaration("session/config.py", "TurnOptions", omit=("extensions",))
"""The options of a turn that are not settings of a session."""


@dataclass(frozen=True)
class Dictionary:
    """A TypedDict with the fields of a declaration."""

    name: str
    doc: str
    declaration: Declaration


DICTIONARIES: Mapping[str, tuple[str, tuple[Dictionary, ...]]] = {
    "session/settings.py": (
        "The settings of a session, and the options of a turn, for editors and type checkers.",
        (
            Dictionary("ConfigSettings", "The settings that `SessionConfig` declares.", SESSION),
            Dictionary("RequestOptions", "The options of one request, which `AdapterOptions` declares.", OPTIONS),
        ),
    ),
    "configuration/settings.py": (
        "The settings of a client, for editors and type checkers.",
        (Dictionary("ClientSettings", "The settings of a client, which `ClientConfig` declares.", CLIENT),),
    ),
    "bulk/settings.py": (
        "The settings of a bulk run, for editors and type checkers.",
        (Dictionary("RunSettings", "The settings that `RunConfig` declares.", RUN),),
    ),
}

ARGUMENTS: Mapping[tuple[str, str], tuple[Declaration, ...]] = {
    ("session/conversation.py", "Conversation.__init__"): (NEW_SESSION, SESSION, PROVIDER_OF_SESSION),
    ("session/session.py", "Session.ask"): (OPTIONS, TURN),
    ("session/async_session.py", "AsyncSession.ask"): (OPTIONS, TURN),
    ("session/question.py", "ask"): (OPTIONS, ONLY_TURN, NEW_SESSION, SESSION, PROVIDER_OF_SESSION),
    ("client/shared.py", "ClientBase.__init__"): (CLIENT,),
    ("bulk/__init__.py", "bulk"): (RUN, OPTIONS, TURN),
    ("adapter/options.py", "AdapterOptions"): (Declaration("adapter/options.py", "AdapterOptions"),),
    ("transport/settings.py", "ProviderSettings"): (
        Declaration("transport/settings.py", "ProviderSettings"),
        Declaration("transport/settings.py", "TransportSettings"),
    ),
}
"""The functions and classes whose docstrings end with an entry for each setting."""

LISTS: Mapping[str, tuple[Declaration, ...]] = {
    "turn_options": (Declaration("adapter/options.py", "AdapterOptions"),),
    "provider_settings": ARGUMENTS["transport/settings.py", "ProviderSettings"],
}
"""The lists of names in foreign_names.toml, which is read where the declarations cannot be imported."""

IMPORTS = {
    "HasConfig": "dragoman.configuration",
    "Path": "pathlib",
    "Providers": "dragoman.transport.settings",
    "Sequence": "collections.abc",
}
"""Where the names of accepted types are that a declaration itself does not import."""


def generate() -> dict[Path, str]:
    """Return each file that depends on the declarations, as it must be."""
    written = {SOURCE / file: _dictionaries(file) for file in DICTIONARIES}
    for file, name in ARGUMENTS:
        path = SOURCE / file
        written[path] = _with_arguments(written.get(path, _read(file)), name, ARGUMENTS[file, name])
    written[SOURCE / FOREIGN_NAMES] = _with_lists(_read(FOREIGN_NAMES))
    return written


def _with_lists(table: str) -> str:
    """Return the table of foreign names with our own names of today."""
    for key, declarations in LISTS.items():
        names = ", ".join(f'"{setting.name}"' for each in declarations for setting in each.settings())
        lines = textwrap.fill(names, WIDTH, initial_indent="  ", subsequent_indent="  ")
        table = re.sub(rf"^{key} = \[\n[^\]]*\]", f"{key} = [\n{lines},\n]", table, flags=re.MULTILINE)
    return table


def _dictionaries(file: str) -> str:
    doc, dictionaries = DICTIONARIES[file]
    always, late, classes = {"typing": {"TYPE_CHECKING", "TypedDict"}}, dict[str, set[str]](), list[str]()
    for each in dictionaries:
        found, settings = _imports(each.declaration.file), list(each.declaration.settings())
        for setting in settings:
            quoted = setting.accepts.startswith('"')
            for name in re.findall(r"\b[A-Za-z_]\w*\b", re.sub(r"Literal\[[^]]*\]", "Literal", setting.accepts)):
                module, is_late = found.get(name, (IMPORTS.get(name, ""), quoted))
                if module:
                    (late if is_late else always).setdefault(module, set()).add(name)
        fields = "\n".join(
            ("\n" if setting.begins_group and number else "")
            + f'    {setting.name}: {setting.accepts}\n    """{setting.doc}"""'
            for number, setting in enumerate(settings)
        )
        classes.append(f'class {each.name}(TypedDict, total=False):\n    """{each.doc}"""\n\n{fields}\n')
    guarded = f"if TYPE_CHECKING:\n{textwrap.indent(_import_lines(late), '    ')}\n" if late else ""
    head = f'"""{doc}\n\n`python -m tests.upkeep.settings` writes this file from the declarations.\n"""\n\n'
    return _format(head + _import_lines(always) + "\n" + guarded + "\n\n" + "\n\n".join(classes))


def _import_lines(modules: Mapping[str, Iterable[str]]) -> str:
    return "".join(f"from {module} import {', '.join(sorted(names))}\n" for module, names in sorted(modules.items()))


def _imports(file: str) -> dict[str, tuple[str, bool]]:
    """Return the module of each name that a file imports, and whether only type checkers import it."""
    tree = ast.parse(_read(file))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.name: (node.module, node.col_offset > 0) for alias in node.names}
    own = "dragoman." + file.removesuffix(".py").replace("/", ".")
    for node in tree.body:
        names = [node] if isinstance(node, ast.ClassDef) else getattr(node, "targets", ())
        found |= {getattr(each, "name", None) or getattr(each, "id", ""): (own, False) for each in names}
    return found


def _with_arguments(source: str, name: str, declarations: Iterable[Declaration]) -> str:
    """Return the source with an entry for each setting at the end of that docstring."""
    node = _find(ast.parse(source), name)
    doc = node.body[0]
    assert isinstance(doc, ast.Expr)
    lines = source.splitlines(keepends=True)
    indent = " " * doc.col_offset
    text = "".join(lines[doc.lineno - 1 : doc.end_lineno])
    prose, _, written = text.rstrip().removesuffix('"""').rstrip().partition(f"\n\n{indent}Args:\n")
    settings = [list(each.settings()) for each in declarations]
    own = {setting.name for each in settings for setting in each}
    entries = "".join(_handwritten(node, written, indent, own))
    for group in settings:
        for number, setting in enumerate(group):
            blank = "\n" if entries and (setting.begins_group or not number) else ""
            entries += blank + _entry(indent, setting)
    text = f'{prose}\n\n{indent}Args:\n{entries}{indent}"""\n'
    return "".join([*lines[: doc.lineno - 1], text, *lines[doc.end_lineno :]])


def _handwritten(node: ast.AST, written: str, indent: str, own: set[str]) -> Iterator[str]:
    """Yield the entries of the other parameters, as they are."""
    if isinstance(node, ast.ClassDef):
        return
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    parameters = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)} - own
    for entry in re.split(rf"^(?={indent}    \w)", written, flags=re.MULTILINE):
        if entry.strip().partition(":")[0] in parameters:
            yield entry.rstrip() + "\n"


def _entry(indent: str, setting: Setting) -> str:
    lead = f"{indent}    {setting.name}: "
    wrapped = textwrap.wrap(
        setting.sentence,
        WIDTH,
        initial_indent=lead,
        subsequent_indent=indent + " " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrapped or [lead.rstrip()]) + "\n"


def _find(tree: ast.Module, name: str) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef:
    """Return the class or function, the last one of overloads."""
    body: list[ast.stmt] = tree.body
    for part in name.split("."):
        found = [
            each
            for each in body
            if isinstance(each, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == part
        ][-1]
        body = found.body
    return found


def _format(source: str) -> str:
    for command in (("check", "--quiet", "--select", "I,F401", "--fix"), ("format", "--quiet")):
        arguments = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(SOURCE / "settings.py"), "-"]
        source = subprocess.run(arguments, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return source


@cache
def _read(file: str) -> str:
    return (SOURCE / file).read_text(encoding="utf-8")


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")
