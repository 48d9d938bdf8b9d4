"""`python -m tests.docs.readability [PAGE...]`: how many sentences of each page are long; `--list` prints them."""

import argparse
from pathlib import Path

from tests.docs.readability.sentences import MOST_WORDS, count_words, foreign_words, long_sentences, sentences
from tests.docs.snippets import ROOT


def pages() -> list[Path]:
    """Return the pages of the site, and those that a visitor of the repository reads."""
    return [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.readability", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--list", action="store_true", help=f"print each sentence of more than {MOST_WORDS} words")
    options = parser.parse_args()
    total = total_long = 0
    for path in options.pages or pages():
        text = path.read_text(encoding="utf-8")
        count, found = len(list(sentences(text))), long_sentences(text)
        total, total_long = total + count, total_long + len(found)
        if found or foreign_words(text):
            print(f"{len(found):4} of {count:5}  {path}  {' '.join(foreign_words(text))}".rstrip())
        if options.list:
            print(*(f"      {count_words(each)}: {each}" for each in found), sep="\n")
    print(f"{total_long:4} of {total:5} sentences have more than {MOST_WORDS} words")


if __name__ == "__main__":
    main()
