"""Docstrings of tests: each is a whole sentence, or absent. `python -m tests.upkeep.docstrings` lists the others.

The heuristic is simple: the first sentence needs a finite verb, of those in `verbs.toml`. A fragment that only goes on
with the name of the test ("Of the field.") has none.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
_VERBS = tomllib.loads(Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8"))
_CLEAR = frozenset(_VERBS["clear"].split())
_ALSO_NOUNS = frozenset(_VERBS["also_nouns"].split())
_OPENERS = frozenset(_VERBS["openers"].split())

_ADDITIONS = re.compile(r"(?:Of|With|Without|By|As|Also|Not|Nor|Than|Even|So that)\b[^,]*")
"""Words after which a sentence needs a comma before its main clause. Without one, they go on with the test's name."""
_FIRST_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"`])")
_CODE = re.compile(r"`[^`]*`")
_WORD = re.compile(r"[a-z']+")


def is_sentence(docstring: str) -> bool:
    """Return whether the first sentence of a docstring has a finite verb."""
    first = _FIRST_SENTENCE.split(" ".join(docstring.split()))[0]
    words = _WORD.findall(_CODE.sub("code", first).lower())
    if _ADDITIONS.fullmatch(first):
        return False
    if not words or _CLEAR.intersection(words):
        return bool(words)
    return words[0] not in _OPENERS and bool(_ALSO_NOUNS.intersection(words))


def docstrings(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and docstring of each test that has one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.lineno, node.name, docstring


def fragments() -> Iterator[str]:
    """Yield place, name and docstring of each test whose docstring is not a sentence."""
    for path in sorted(TESTS.rglob("*.py")):
        for line, name, docstring in docstrings(path.read_text(encoding="utf-8")):
            if not is_sentence(docstring):
                yield f"{path.relative_to(TESTS.parent).as_posix()}:{line} {name}: {docstring}"


if __name__ == "__main__":
    found = list(fragments())
    print(*found, f"{len(found)} docstrings of tests are not sentences", sep="\n")
