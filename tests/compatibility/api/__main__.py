"""The public surface: `python -m tests.compatibility.api` writes the list of the version in pyproject.toml.

`--since 0.1.0` writes nothing, and prints what changed since that version's list; `--against REF` compares with a
commit or tag of the repository. Both exit with 1 if a name was removed or changed.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.compatibility.api import versions
from tests.compatibility.api.documented import ROOT, parse_api_page
from tests.compatibility.api.surface import surface
from tests.history import unpack_commit


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility.api", description=__doc__)
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument("--since", metavar="VERSION", help="compare with the list kept of a version")
    earlier.add_argument("--against", metavar="REF", help="compare with a commit or tag")
    chosen = parser.parse_args()
    after = versions.now()
    if chosen.since is None and chosen.against is None:
        file = versions.write(versions.version(), after)
        sys.stdout.write(f"{file.relative_to(ROOT)}: {len(after):,} names\n")
        return 0
    before = versions.read(chosen.since) if chosen.since is not None else surface_at(chosen.against)
    changes = versions.differences(before, after)
    sys.stdout.writelines(f"{line}\n" for line in changes or ["nothing changed"])
    return int(any(line.startswith(("-", "~")) for line in changes))


def surface_at(ref: str) -> dict[str, str]:
    """The public surface of a commit, by what that commit's docs/api.md promises."""
    with tempfile.TemporaryDirectory() as folder:
        unpack_commit(ref, Path(folder), "src/dragoman", "docs/api.md")
        return surface(Path(folder) / "src", parse_api_page(Path(folder) / "docs" / "api.md"))


if __name__ == "__main__":
    sys.exit(main())
