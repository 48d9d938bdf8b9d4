"""The prompts of the live tests in other words, so that no test depends on what a model answers to one of them.

DRAGOMAN_TEST_WORDING selects the wording: 0, the default, is the prompt in the test; 1 and 2 are those of
wordings.toml. `python -m tests.unit.local.live` tries all of them.
"""

import os
import tomllib
from functools import cache
from pathlib import Path

VARIABLE = "DRAGOMAN_TEST_WORDING"


@cache
def table() -> dict[str, list[str]]:
    """Each prompt with its other wordings."""
    text = Path(__file__).with_name("wordings.toml").read_text(encoding="utf-8")
    read: dict[str, list[str]] = tomllib.loads(text)
    return read


def reword(prompt: str) -> str:
    """Return the prompt in the selected wording. Raises KeyError for a prompt that is not in the table."""
    return [prompt, *table()[prompt]][int(os.environ.get(VARIABLE) or 0)]


def reword_within(text: str) -> str:
    """Return the text with the quoted prompts of the table reworded. Raises ValueError if it holds none."""
    found = [prompt for prompt in table() if f'"{prompt}"' in text]
    if not found:
        raise ValueError("none of the text's prompts is in wordings.toml")
    for prompt in found:
        text = text.replace(f'"{prompt}"', f'"{reword(prompt)}"')
    return text
