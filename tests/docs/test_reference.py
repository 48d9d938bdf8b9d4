"""The reference shows every public class with its fields and methods, and says what each of them is."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import pytest

pytest.importorskip("griffe", reason="the docs group is not installed")

import griffe

from tests.compatibility.api.documented import PACKAGE, parse_api_page
from tests.docs.snippets import ROOT

INSTANCES = {"session": "Session", "store": "Store", "view": "MessageView"}
"""Names of variables that pages use for instances of one class."""
_MEMBER = re.compile(r"(?<!`)`([A-Za-z]\w*)\.(?!py\b)([a-z_]\w*)")
_CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
_TAG = re.compile(r"(?:ClassVar\[)?Literal\[([^,\[\]]+)\]\]?")


@cache
def public_names() -> dict[str, "griffe.Object"]:
    """Return every public class, function and value by its path in the source."""
    loader = griffe.GriffeLoader(search_paths=[str(ROOT / "src")], allow_inspection=False)
    package = loader.load(PACKAGE)
    loader.resolve_aliases(implicit=True, external=False)
    found = {}
    for path, names in parse_api_page().items():
        relative = path.removeprefix(PACKAGE).removeprefix(".")
        module = package[relative] if relative else package
        for member in (module.members[name] for name in names if name in module.members):
            try:
                target = member.final_target if member.is_alias else member
            except griffe.AliasResolutionError:
                continue
            found[target.path] = target
    return found


def classes() -> Iterator["griffe.Class"]:
    return (each for each in public_names().values() if isinstance(each, griffe.Class))


def members(kind: "griffe.Class") -> Iterator[tuple[str, bool]]:
    """Yield the public members of a class, inherited ones too, each with whether a sentence says what it is: its own,
    that of the member which it overrides, or one in the text of a class, which names it in ``double`` marks."""
    line = [kind, *kind.mro()]
    texts = " ".join(each.docstring.value for each in line if each.docstring is not None)
    for name in sorted({name for each in line for name in each.members if not name.startswith("_")}):
        if name == "model_config":
            continue
        own = any(name in each.members and each.members[name].has_docstring for each in line)
        is_enum = any(
            getattr(base, "name", "") in ("StrEnum", "Enum", "IntEnum") for each in line for base in each.bases
        )
        is_constant = any(_is_constant(each.members[name], is_enum) for each in line if name in each.members)
        yield name, own or f"``{name}``" in texts or f"``{name}:" in texts or is_constant


def _is_constant(member: "griffe.Object | griffe.Alias", of_enum: bool) -> bool:
    """Return whether the signature says everything: a value of an enum, or ``type: Literal["text"] = "text"``."""
    if not member.is_attribute or "property" in member.labels:
        return False
    tag = _TAG.fullmatch(str(getattr(member, "annotation", None)))
    return of_enum or (tag is not None and tag[1] == str(getattr(member, "value", None)))


def test_every_public_module_is_in_the_reference() -> None:
    """And the pages show what is inherited, and fields that the text of their class describes."""
    shown = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        shown |= set(re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert {*parse_api_page()} - {PACKAGE} <= shown
    options = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "show_if_no_docstring: true" in options
    assert "inherited_members: true" in options


def test_every_public_name_has_a_sentence() -> None:
    """A reader learns what a class, a function or a value is, before the text describes its ``fields``."""
    texts = {path: each.docstring.value if each.docstring else "" for path, each in public_names().items()}
    assert [path for path, text in texts.items() if not text or text.startswith("``")] == []


def test_every_member_of_a_public_class_has_a_sentence() -> None:
    """A new public member says what it is, with shape, unit and errors where it has them."""
    assert [f"{kind.path}.{name}" for kind in classes() for name, has in members(kind) if not has] == []


def test_the_pages_name_members_of_an_adapter_that_exist() -> None:
    """The tables of the contract and of the page on the core name members that exist."""
    adapter = next(kind for kind in classes() if kind.name == "Adapter")
    known = {name for name, _ in members(adapter)}
    for page in ("docs/reference/contract.md", "docs/core.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        table = text.partition("| member | does |")[2].partition("\n\n")[0]
        named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)", row.split(" | ")[0])}
        assert named
        assert named <= known, page


def test_pages_and_docstrings_name_members_that_exist() -> None:
    """`Session.ask` in a text is a member of the public class of that name."""
    known = {kind.name: {name for name, _ in members(kind)} for kind in classes()}
    texts = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "src").rglob("*.py")]
    missing = []
    for path in texts:
        text = _CODE_BLOCK.sub("", path.read_text(encoding="utf-8"))
        for owner, member in _MEMBER.findall(text):
            kind = INSTANCES.get(owner, owner) if path.suffix == ".md" else owner
            if kind in known and member not in known[kind]:
                missing.append(f"{path.relative_to(ROOT)}: {owner}.{member}")
    assert missing == []


NO_NAMES_OF_PYTHON = frozenset(
    f"dragoman.{name}"
    for name in ("budget", "projection", "commands", "plugins", "prices", "toml", "cost.usd", "retry_count", "team.id")
)
"""Loggers, entry-point groups, a file, and attributes of spans. They look like names of the library."""
_DOTTED = re.compile(r"`(dragoman(?:\.\w+)+)[`(]")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_RULE = re.compile(r"^(?:- )?(?:\*\*|\| )([A-Z]{1,2}\d+)(?:\.\*\*| \|)", re.MULTILINE)


def exists(path: str) -> bool:
    """Return whether a dotted path is a module of the library, or a name in one."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for name in parts[length:]:
            found = getattr(found, name, None)
        return found is not None
    return False


def test_the_pages_name_what_the_library_has() -> None:
    """Each dotted name in the text of a page can be imported."""
    wrong = {
        (path.name, name)
        for path in sorted((ROOT / "docs").rglob("*.md"))
        for name in _DOTTED.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))
        if name not in NO_NAMES_OF_PYTHON and not exists(name)
    }
    assert wrong == set()
    assert not exists("dragoman.policy.filtered")


def test_the_number_of_a_rule_is_its_own() -> None:
    """No number stands twice on a page, because code and tests refer to rules by it."""
    twice = {
        (path.name, number)
        for path in sorted((ROOT / "docs" / "reference").rglob("*.md"))
        for number, count in Counter(_RULE.findall(path.read_text(encoding="utf-8"))).items()
        if count > 1
    }
    assert twice == set()
    assert _RULE.findall("- **B24.** A\n**A49.** B\n| E2 | C |\n") == ["B24", "A49", "E2"]
