"""What a new release of the price data changes: `python -m tests.upkeep.prices REF`, as Markdown for a pull request."""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.upkeep import repository

FOLDER = "pricing"
COMPARED = ("match", "prices", "variants")


def main() -> None:
    (ref,) = sys.argv[1:]
    before, after = (models(text for _, text in files) for files in _both(ref))
    sys.stdout.writelines(f"{line}\n" for line in compare(before, after))


def models(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Each model of the price files, as ``provider:id``; files without models are left out."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        table = tomllib.loads(text)
        for model in table.get("model", ()):
            found[f"{table['provider']}:{model['id']}"] = {key: model.get(key) for key in COMPARED}
    return found


def compare(before: Mapping[str, dict[str, Any]], after: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """The changes as Markdown: a table of the models' old and new prices, then the names that were added and
    removed.
    """
    rows = [
        (name, key, before[name][key], after[name][key])
        for name in sorted(before.keys() & after.keys())
        for key in COMPARED
        if before[name][key] != after[name][key]
    ]
    if rows:
        yield "| model | what | before | after |"
        yield "| --- | --- | --- | --- |"
        yield from (f"| `{name}` | {key} | {_words(was)} | {_words(is_)} |" for name, key, was, is_ in rows)
    for title, names in (("New models", after.keys() - before.keys()), ("Gone", before.keys() - after.keys())):
        if names:
            yield f"\n{title}: {', '.join(f'`{name}`' for name in sorted(names))}."
    if before == after:
        yield "No model has another price."


def _both(ref: str) -> tuple[Iterable[tuple[str, str]], Iterable[tuple[str, str]]]:
    return repository.files_at(ref, FOLDER, ".toml"), repository.current_files(FOLDER, ".toml")


def _words(value: object) -> str:
    """A value on one line, without characters that would end a cell of the table."""
    match value:
        case None:
            return "none"
        case list():
            return "; ".join(map(_words, value))
        case dict():
            return ", ".join(f"{key} {_words(inner)}" for key, inner in value.items())
        case _:
            return str(value).replace("|", "\\|")


if __name__ == "__main__":
    main()
