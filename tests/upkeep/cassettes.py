"""What a new recording changes: `python -m tests.upkeep.cassettes REF`, as Markdown for a pull request.

Ids, times and the chunks of a stream differ in every recording, and mean nothing. The status, the text, and the names
of the fields on the wire are compared: an added or removed field is a change of the server's API, or of our requests.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from difflib import unified_diff

from dragoman.testing.cassettes.exchange import Exchange, request_target
from dragoman.testing.cassettes.file import describe_reply, loads
from tests.upkeep import repository

FOLDER = "cassettes"


def main() -> None:
    (ref,) = sys.argv[1:]
    before = {path: describe(text) for path, text in repository.files_at(ref, FOLDER, ".yaml")}
    after = {path: describe(text) for path, text in repository.current_files(FOLDER, ".yaml")}
    sys.stdout.writelines(f"{line}\n" for line in compare(before, after))


def describe(text: str) -> list[str]:
    """A cassette file as lines: each exchange's status, its text, and the fields of request and reply."""
    return [line for number, each in enumerate(loads(text).exchanges, 1) for line in _exchange(number, each)]


def compare(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> Iterator[str]:
    """The changes as Markdown, file by file; one sentence if nothing relevant has changed."""
    changed = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    if not changed:
        yield "Every recording has the same statuses, words and fields as before."
    for path in changed:
        yield f"### `{path}`{_fate(path in before, path in after)}"
        yield "```diff"
        yield from list(unified_diff(before.get(path, []), after.get(path, []), n=1, lineterm=""))[2:]
        yield "```"


def _fate(was: bool, is_: bool) -> str:
    return "" if was and is_ else " is new" if is_ else " is gone"


def _exchange(number: int, exchange: Exchange) -> Iterator[str]:
    wire = request_target(exchange.request)
    yield f"{number}. {exchange.request.provider or wire.wire_owner} {wire.operation} -> {exchange.response.status}"
    yield from (describe_reply(exchange) or "").splitlines()
    yield from (f"request field {name}" for name in sorted(_fields(exchange.request.body)))
    yield from (f"reply field {name}" for name in sorted(_fields(exchange.response.body)))


def _fields(body: bytes) -> set[str]:
    """The paths of the fields in a JSON body, or in all events of a stream: ``choices[].delta.content``."""
    found: set[str] = set()
    text = body.decode("utf-8", "replace")
    try:
        documents = [json.loads(text)]
    except ValueError:
        documents = [one for line in text.splitlines() for one in _event(line.removeprefix("data:"))]
    for document in documents:
        found.update(_paths(document, ""))
    return found


def _event(line: str) -> Iterator[object]:
    try:
        yield json.loads(line)
    except ValueError:  # an empty line, an event's name, or `[DONE]`
        return


def _paths(value: object, path: str) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _paths(inner, f"{path}.{name}" if path else str(name))
        case list():
            for inner in value:
                yield from _paths(inner, f"{path}[]")
        case _:
            yield path


if __name__ == "__main__":
    main()
