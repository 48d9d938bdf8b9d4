"""The generated files are what the script makes of the installed source, and name their origin."""

import hashlib
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from dragoman.adapter.registry import adapter_class, get_adapter, providers
from dragoman.pricing import install_update, price_table, use_update

FOLDER = Path(__file__).parents[3] / "pricing"
INDEX = tomllib.loads((FOLDER / "index.toml").read_text(encoding="utf-8"))


@pytest.mark.exhaustive
@pytest.mark.skipif(
    metadata.version("genai-prices") != INDEX["origin"]["release"],
    reason="another release of genai-prices is installed than the one that the files were made from",
)
def test_the_files_are_as_generated() -> None:
    """Nobody edited one by hand: the overlay is for that."""
    script = [sys.executable, str(FOLDER / "refresh.py"), "--check"]
    completed = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stdout.strip(), completed.stderr) == (0, "", "")


@pytest.mark.skipif(
    metadata.version("genai-prices") != INDEX["origin"]["release"],
    reason="another release of genai-prices is installed than the one that the files were made from",
)
@pytest.mark.exhaustive
def test_an_update_of_the_same_data_changes_no_price_and_no_window(tmp_path: Path) -> None:
    """It is one file for `dragoman prices update`. What we correct by hand stays corrected."""
    path = tmp_path / "update.toml"
    script = [sys.executable, str(FOLDER / "refresh.py"), "--update", str(path)]
    completed = subprocess.run(script, capture_output=True, text=True, check=True)
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() in completed.stdout
    released = f"date = {INDEX['origin']['released']}\n".encode()
    assert released in content
    models = [f"{name}:{model}" for name in providers() for model in adapter_class(name).listed_models]
    before = [_facts(model) for model in models]
    try:
        install_update(content.replace(released, b"date = 2999-01-01\n", 1), "the script", folder=tmp_path / "prices")
        use_update(tmp_path / "prices")
        assert [_facts(model) for model in models] == before
    finally:
        use_update(tmp_path / "none")


def _facts(model: str) -> tuple[str, int, object]:
    row = price_table().find(model)
    rates = row and dict(row.rates)
    return model, get_adapter(model).capabilities.max_context_tokens, rates


def test_every_file_names_its_origin() -> None:
    """Generated files name release, hash and licence of their source; the others are written by hand."""
    by_hand = set()
    for path in FOLDER.glob("*.toml"):
        origin = tomllib.loads(path.read_text(encoding="utf-8")).get("origin")
        if origin is None:
            by_hand.add(path.stem)
        else:
            assert origin == INDEX["origin"]
            assert len(origin["sha256"]) == 64
    assert by_hand == {"local", "ollama", "overlay"}
    assert "MIT" in (FOLDER / "LICENSE.genai-prices").read_text(encoding="utf-8")
