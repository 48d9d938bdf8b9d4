"""The pinned release is the one whose prices are written."""

import re
from datetime import date

import pytest

from tests.upkeep.newest_prices import PINS, Release, pin, read_lock

NEWER = Release("9.9.9", date(2026, 12, 1), ("a" * 64, "b" * 64))
HANDWRITTEN_LOCK = """
lock-version = "1.0"
[[packages]]
name = "genai-prices"
version = "9.9.9"
sdist = { url = "https://example.org/a.tar.gz", upload-time = 2026-12-02T00:10:00Z, hashes = { sha256 = "SDIST" } }
wheels = [{ url = "https://example.org/a.whl", upload-time = 2026-12-01T23:59:00Z, hashes = { sha256 = "WHEEL" } }]
""".replace("SDIST", "b" * 64).replace("WHEEL", "a" * 64)


def test_a_release_is_read_from_a_lock() -> None:
    """The day is that of its first file."""
    assert read_lock(HANDWRITTEN_LOCK) == NEWER


def test_one_pin_changes_and_nothing_else() -> None:
    """Version and hashes are replaced, line by line."""
    before = PINS.read_text(encoding="utf-8")
    after = pin(before, NEWER)
    block = f"genai-prices==9.9.9 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}\n"
    assert block in after
    start = after.index(block)
    assert before.startswith(after[:start])
    assert before.endswith(after[start + len(block) :])
    assert pin(after, NEWER) == after


@pytest.mark.parametrize("times", [0, 2])
def test_an_unclear_pin_is_refused(times: int) -> None:
    """Requirements that do not name it exactly once are not those that CI installs."""
    block = re.search(r"^genai-prices==.*\n(?:    --hash.*\n)+", PINS.read_text(encoding="utf-8"), re.MULTILINE)
    assert block is not None
    with pytest.raises(ValueError, match=f"pinned {times} times"):
        pin(block[0] * times, NEWER)
