"""The reference shows every public class with its fields and methods, and how many of them have a sentence."""

import re
from collections.abc import Iterator
from functools import cache

import pytest

pytest.importorskip("griffe", reason="the docs group is not installed")

import griffe

from tests.compatibility.api.documented import PACKAGE, parse_api_page
from tests.docs.snippets import ROOT

REFERENCE = ("core.md", "around.md", "adapter.md")
CONTRACT = (
    "Adapter", "AdapterCapabilities", "AdapterOptions", "Endpoint", "Loss", "Message", "MessageMetadata",
    "RequestContext", "SchemaRule", "ThinkingPolicy", "TokenUsage", "ToolDefinition", "ToolIdRule", "ToolNameRule",
    "Usage", "WireAdapter", "WireRequest", "WireResponse",
)  # fmt: skip
"""Classes of which every member has a sentence."""
WITHOUT_SENTENCE = 374
"""Members of the other public classes without one. The number only falls."""


_TAG = re.compile(r"(?:ClassVar\[)?Literal\[([^,\[\]]+)\]\]?")


@cache
def classes() -> dict[str, "griffe.Class"]:
    """Return every public class by its path in the source."""
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
            if target.is_class:
                found[target.path] = target
    return found


def members(kind: "griffe.Class") -> Iterator[tuple[str, bool]]:
    """Yield the public members of a class, inherited ones too, each with whether a sentence says what it is: its own,
    that of the member which it overrides, or one in the text of a class, which names it in ``double`` marks."""
    line = [kind, *kind.mro()]
    texts = " ".join(each.docstring.value for each in line if each.docstring is not None)
    for name in sorted({name for each in line for name in each.members if not name.startswith("_")}):
        if name == "model_config":
            continue
        own = any(name in each.members and each.members[name].has_docstring for each in line)
        is_value = any(base.name in ("StrEnum", "Enum", "IntEnum") for each in line for base in _bases(each))
        is_value = is_value or any(_is_tag(each.members[name]) for each in line if name in each.members)
        yield name, own or f"``{name}``" in texts or f"``{name}:" in texts or is_value


def _is_tag(member: "griffe.Object | griffe.Alias") -> bool:
    """Return whether a member has one value, which the reference shows: ``type: Literal["text"] = "text"``."""
    found = _TAG.fullmatch(str(getattr(member, "annotation", None)))
    return found is not None and found[1] == str(getattr(member, "value", None))


def _bases(kind: "griffe.Class") -> list["griffe.ExprName"]:
    return [base for base in kind.bases if isinstance(base, griffe.ExprName)]


def test_every_public_module_is_in_the_reference() -> None:
    """And the pages show what is inherited, and what has no sentence yet."""
    shown = set()
    for name in REFERENCE:
        shown |= set(re.findall(r"^::: (\S+)$", (ROOT / "docs" / "reference" / name).read_text("utf-8"), re.MULTILINE))
    assert {*parse_api_page()} - {PACKAGE} <= shown
    options = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "show_if_no_docstring: true" in options
    assert "inherited_members: true" in options


def test_every_member_of_the_contract_has_a_sentence() -> None:
    """Of the classes that adapters and programs are written with."""
    contract = [kind for kind in classes().values() if kind.name in CONTRACT]
    assert sorted(kind.name for kind in contract) == sorted(CONTRACT)
    missing = {kind.name: [name for name, has in members(kind) if not has] for kind in contract}
    assert {name: found for name, found in missing.items() if found} == {}


def test_the_members_without_a_sentence_only_fall() -> None:
    """A new public member says what it is."""
    missing = [f"{kind.path}.{name}" for kind in classes().values() for name, has in members(kind) if not has]
    assert len(missing) <= WITHOUT_SENTENCE, "\n".join(missing)


def test_the_pages_name_members_of_an_adapter_that_exist() -> None:
    """The tables of the contract, and of the page on the core."""
    adapter = next(kind for kind in classes().values() if kind.name == "Adapter")
    known = {name for name, _ in members(adapter)}
    for page in ("docs/reference/contract.md", "docs/core.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        table = text.partition("| member | does |")[2].partition("\n\n")[0]
        named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)", row.split(" | ")[0])}
        assert named
        assert named <= known, page
