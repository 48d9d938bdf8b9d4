"""The files of the tutorial: every titled block of docs/adapters.md, saved under its title."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "adapters.md"
PACKAGE = Path(__file__).parent / "acme_adapter"

_BLOCK = re.compile(r'^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


def tutorial_files() -> dict[str, str]:
    """Their names are promised."""
    return {found["name"]: found["text"] for found in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}


def write_files(folder: Path) -> None:
    """Saves them all below the folder."""
    for name, text in tutorial_files().items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
