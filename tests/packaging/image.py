"""The packages of the gateway's image: `python -m tests.packaging.image` writes their names into gateway/deploy.

The image takes their versions and hashes from .ci/requirements.txt, so that there is one place with pins.
"""

from collections.abc import Iterable
from importlib.metadata import distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.wheel import GATEWAY

DEPLOY = GATEWAY / "deploy"
OURS = frozenset({"dragoman", "dragoman-gateway"})
SOURCES = {
    "packages.txt": ("dragoman-gateway", "dragoman[postgres,redis]"),
    "build-packages.txt": ("hatchling",),
}
"""What the image installs and is built with, by the file with all that it requires."""
_ENVIRONMENT = {
    "python_version": "3.13", "python_full_version": "3.13.0", "sys_platform": "linux", "platform_system": "Linux",
    "os_name": "posix", "platform_machine": "x86_64", "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
}  # fmt: skip
"""That of the base image."""


def required(lines: Iterable[str]) -> set[str]:
    """Return the names of all packages that some requirements need in the image, without ours.

    Raises importlib.metadata.PackageNotFoundError if one is not installed here.
    """
    open_ends, visited = list(lines), set[str]()
    while open_ends:
        line = open_ends.pop()
        if line in visited:
            continue
        visited.add(line)
        wanted = Requirement(line)
        for each in distribution(wanted.name).requires or ():
            marker = Requirement(each).marker
            if marker is None or any(marker.evaluate({**_ENVIRONMENT, "extra": name}) for name in ("", *wanted.extras)):
                open_ends.append(each.partition(";")[0].strip())
    return {canonicalize_name(Requirement(line).name) for line in visited} - OURS


def main() -> None:
    for name, lines in SOURCES.items():
        (DEPLOY / name).write_text("\n".join(sorted(required(lines))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
