"""The pages of the documentation, and their Python snippets."""

from pathlib import Path

from pytest_examples import CodeExample, find_examples

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def snippets(*pages: Path) -> list[CodeExample]:
    return [example for example in find_examples(*pages) if example.prefix.split() == ["python"]]
