"""What each room of the house holds: `python -m tests.upkeep.rooms [ROOM ...]` prints a table.

A room is a folder, or a file that stands alone, directly below one of the packages. Lines of code are those that are
not blank, a comment or a docstring. A private function is used once if its name is read once in its own file, or, if
that file does not read it, once in all others. ``over`` counts functions that exceed ruff's rules for size (C901,
PLR0912, PLR0915).
"""

import argparse
import ast
import io
import json
import subprocess
import sys
import tokenize
from collections import Counter
from dataclasses import astuple, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("src/dragoman", "adapters/dragoman_adapters", "gateway/src/dragoman_gateway")
_COLUMNS = ("room", "files", "lines", "functions", "used once", "classes", "over")
_IGNORED_TOKENS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Room:
    """The counts of one room."""

    files: int = 0
    lines: int = 0
    functions: int = 0
    used_once: int = 0
    classes: int = 0
    over: int = 0

    def __add__(self, other: "Room") -> "Room":
        return Room(*(ours + theirs for ours, theirs in zip(astuple(self), astuple(other), strict=True)))


def count_lines(source: str) -> int:
    """Return the number of lines that hold code."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _IGNORED_TOKENS:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - docstrings)


def names(*trees: ast.AST) -> Counter[str]:
    """Return how often each name is read, as a name or an attribute."""
    found: Counter[str] = Counter()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                found[node.id] += 1
            elif isinstance(node, ast.Attribute):
                found[node.attr] += 1
    return found


def used_once(tree: ast.Module, everywhere: Counter[str]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the private functions of a file that one place uses. ``everywhere`` has the names of the whole house."""
    own = names(tree)
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, _FUNCTIONS)
        and node.name.startswith("_")
        and not node.name.startswith("__")
        and (own[node.name] or everywhere[node.name]) == 1
    ]


def room_of(path: Path) -> str:
    for package in PACKAGES:
        if (ROOT / package) in path.parents:
            inside = path.relative_to(ROOT / package)
            return f"{Path(package).name}/{inside.parts[0]}"
    raise ValueError(f"{path} is in none of the packages {', '.join(PACKAGES)}")


def oversized(folders: list[Path]) -> Counter[str]:
    """Return how many functions of each room exceed ruff's rules for size."""
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--isolated", "--exit-zero"]
    rules = ["--select", "C901,PLR0912,PLR0915", "--output-format", "json"]
    run = subprocess.run([*ruff, *rules, *map(str, folders)], capture_output=True, check=True)
    places = {(found["filename"], found["location"]["row"]) for found in json.loads(run.stdout)}
    return Counter(room_of(Path(filename)) for filename, _ in places)


def read_trees() -> dict[Path, ast.Module]:
    """Return every file of the packages, parsed."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def count_rooms(trees: dict[Path, ast.Module]) -> dict[str, Room]:
    """Return the counts of every room."""
    everywhere = names(*trees.values())
    rooms: dict[str, Room] = {}
    for path, tree in trees.items():
        nodes = list(ast.walk(tree))
        room = Room(
            files=1,
            lines=count_lines(path.read_text(encoding="utf-8")),
            functions=sum(isinstance(node, _FUNCTIONS) for node in nodes),
            used_once=len(used_once(tree, everywhere)),
            classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
        )
        name = room_of(path)
        rooms[name] = rooms.get(name, Room()) + room
    for name, count in oversized([ROOT / package for package in PACKAGES]).items():
        rooms[name].over = count
    return rooms


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.upkeep.rooms")
    parser.add_argument("rooms", nargs="*", help="the rooms to show, by default all: dragoman/bulk, or bulk")
    parser.add_argument("--helpers", action="store_true", help="list the private functions that are used once")
    arguments = parser.parse_args()

    def is_wanted(room: str) -> bool:
        return not arguments.rooms or bool({room, room.partition("/")[2]} & set(arguments.rooms))

    trees = read_trees()
    if arguments.helpers:
        everywhere = names(*trees.values())
        for path, tree in trees.items():
            for node in used_once(tree, everywhere) if is_wanted(room_of(path)) else ():
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                print(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} ({length} lines)")
        return
    rooms = {name: room for name, room in sorted(count_rooms(trees).items()) if is_wanted(name)}
    rows = [(name, *astuple(room)) for name, room in rooms.items()]
    rows.append(("all", *astuple(sum(rooms.values(), Room()))))
    width = max(len(row[0]) for row in rows)
    for row in (_COLUMNS, *rows):
        print(f"{row[0]:<{width}}", *(f"{cell:>9}" for cell in row[1:]))


if __name__ == "__main__":
    main()
