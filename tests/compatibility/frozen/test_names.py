"""Every name that leaves the process is the kept one."""

import pytest

from tests.compatibility.frozen import names

ADVICE = f"""If this is meant, say in CHANGELOG.md what it changes for users, and accept the names:
    {names.COMMAND}"""


GROUPS: dict[str, list[str]] = {}
for kind, collector in names.KINDS.items():
    GROUPS.setdefault(collector.__module__.rpartition(".")[2], []).append(kind)
"""Kinds by the module of their collectors, which share what is slow to make."""

_SLOW = {"from_source"}
"""These read every file of the library."""
CASES = [
    pytest.param(kinds, id=module, marks=pytest.mark.exhaustive if module in _SLOW else ())
    for module, kinds in GROUPS.items()
]


@pytest.mark.parametrize("kinds", CASES)
def test_the_names_are_the_kept_ones(kinds: list[str]) -> None:
    """A name changes only with its line, so a reviewer sees it."""
    found = [f"{kind}: {line}" for kind in kinds for line in names.differences(names.read(kind), names.collect(kind))]
    assert found == [], "\n".join(["names went (-) or came (+):", *found, ADVICE])


def test_every_file_belongs_to_a_kind() -> None:
    """A renamed kind takes its file with it, and none is empty."""
    assert {file.stem for file in names.FOLDER.iterdir()} == set(names.KINDS)
    assert all(names.read(kind) for kind in names.KINDS)


def test_differences_list_removed_and_added_names() -> None:
    """A renamed name is both."""
    assert names.differences(["a", "b"], ["b", "c"]) == ["- a", "+ c"]
    assert names.differences(["a"], ["a"]) == []
