"""A release without publishing: `python -m tests.packaging.release`.

Both distributions are built twice and must be the same bytes. Their metadata, long descriptions and entry points are
read, the licences of all that they require are checked, and the bill of materials and the digests that are attested are
written. The documentation is built, and each of its links is followed. Then each Python from 3.11 to 3.14 that is found
installs the wheels alone, and reads what earlier versions have stored. `--against dist` compares the builds with the
files of a release, `--python PATH` adds an interpreter, and `--out FOLDER` keeps the bill and the digests. It ends with
what a maintainer has to press; exits with 1 if a step fails.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from packaging.metadata import Metadata

import dragoman
from tests.docs import site
from tests.packaging import programs, wheel
from tests.packaging.__main__ import (
    PackagingError,
    bare_environment,
    build_twice,
    check_contents,
    compare,
    install,
    run_program,
    run_steps,
)

GATEWAY: dict[str, Any] = tomllib.loads((wheel.GATEWAY / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = str(wheel.PROJECT["project"]["version"])
PYTHONS = tuple(line.rpartition(" ")[2] for line in wheel.PROJECT["project"]["classifiers"] if "Python :: 3." in line)
STORED = wheel.ROOT / "tests" / "compatibility"
_EXTRAS = "cli,sealed,speed,store"
_RELATIVE_LINK = re.compile(r"\]\((?!https://)[^)]*\)|(?:src|href)=\"(?!https://)[^\"]*\"")

BUTTONS = f"""
To release {VERSION}, a maintainer presses:
  1. Merge, on GitHub: the pull request that dates the section of CHANGELOG.md, `## {VERSION} (YYYY-MM-DD)`.
  2. In a checkout of that commit: `git tag v{VERSION}`, then `git push origin v{VERSION}`.
  3. Approve, in the run of the workflow Release: the environment `pypi`. It publishes both distributions by trusted
     publishing, and creates the release on GitHub.
Once for the repository: a trusted publisher on the package index for each of dragoman and dragoman-gateway (workflow
`release.yml`, environment `pypi`), reviewers for the environment `pypi`, which is limited to tags `v*`, and Pages from
GitHub Actions.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.release", description=__doc__)
    parser.add_argument(
        "--against", type=Path, help="a folder with the files of a release: they must be the same bytes"
    )
    parser.add_argument("--python", type=Path, action="append", default=[], help="one more interpreter to install for")
    parser.add_argument("--out", type=Path, help="a folder for the bill of materials and the digests")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        status = run_steps(steps(Path(folder), chosen.against, chosen.python, chosen.out or Path(folder, "out")))
    if status == 0:
        sys.stdout.write(BUTTONS)
    return status


def steps(
    folder: Path, released: Path | None, interpreters: Sequence[Path], out: Path
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each step by its name, in order; its return value is printed, and it raises PackagingError."""
    first, gateway = folder / "first", folder / "gateway"
    yield "one version everywhere", check_versions
    yield "dragoman, built twice", lambda: build_twice(wheel.ROOT, first, folder / "second", folder / "elsewhere")
    yield (
        "dragoman-gateway, built twice",
        lambda: build_twice(wheel.GATEWAY, gateway, folder / "gateway-second", folder / "gateway-elsewhere"),
    )
    if released is not None:
        yield "the files of the release", lambda: compare((first, gateway), released)
    wheels = (next(first.glob("*.whl")), next(gateway.glob("*.whl")))
    yield "content of the wheel", lambda: check_contents(wheels[0])
    yield "metadata", lambda: check_metadata(wheels)
    yield "long descriptions", lambda: check_descriptions(wheels)
    yield "licences, bill of materials", lambda: write_bill(out / "bill.cdx.json")
    yield "what is attested", lambda: write_digests((first, gateway), out / "digests.txt")
    yield "what the workflow publishes", check_workflow
    yield "links of the documentation", check_site
    found = list(find_pythons(interpreters))
    for python in found:
        environment = folder / f"python-{len(list(folder.iterdir()))}"
        yield f"the wheels on {name_of(python)}", lambda at=environment, by=python: try_out(at, by, wheels)  # type: ignore[misc]
        yield "  what earlier versions stored", lambda at=environment: upgrade(at)  # type: ignore[misc]
    missing = [each for each in PYTHONS if each not in {name_of(python) for python in found}]
    yield "Pythons that are not here", lambda: ", ".join(missing) or "none"


def check_versions() -> str:
    """In both projects, in the gateway's requirement, in the changelog and in the installed package."""
    named = {
        "gateway/pyproject.toml": GATEWAY["project"]["version"],
        "dragoman.__version__": dragoman.__version__,
        "the installed gateway": version("dragoman-gateway"),
        **{
            each: each.rpartition("==")[2] for each in GATEWAY["project"]["dependencies"] if each.startswith("dragoman")
        },
    }
    if differing := {place: each for place, each in named.items() if each != VERSION}:
        raise PackagingError(f"{VERSION} is the version of pyproject.toml, but not of {differing}")
    changelog = (wheel.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(rf"^## {re.escape(VERSION)} \((unreleased|\d{{4}}-\d\d-\d\d)\)$", changelog, re.MULTILINE)
    if heading is None:
        raise PackagingError(f"CHANGELOG.md has no section for {VERSION}")
    return f"{VERSION}, {heading[1]} in CHANGELOG.md"


def check_metadata(wheels: Sequence[Path]) -> str:
    """Valid by the standard, and what the projects say: license, Pythons, requirements, addresses."""
    for built, project in zip(wheels, (wheel.PROJECT["project"], GATEWAY["project"]), strict=True):
        found = read_metadata(built)
        wanted = {
            "name": project["name"], "version": project["version"], "summary": project["description"],
            "requires_python": project["requires-python"], "license_expression": project["license"],
            "keywords": sorted(project["keywords"]), "classifiers": project["classifiers"],
        }  # fmt: skip
        differing = {
            key: str(getattr(found, key)) for key, value in wanted.items() if str(getattr(found, key)) != str(value)
        }
        if differing or not found.license_files or len(found.requires_dist or ()) < len(project["dependencies"]):
            raise PackagingError(f"{built.name}: {differing or 'no license file, or too few requirements'}")
        if found.project_urls != project["urls"]:
            raise PackagingError(f"{built.name}: {found.project_urls} are not the addresses of the project")
    return "valid, with the license, the Pythons and the addresses of both"


def read_metadata(built: Path) -> Metadata:
    """Return the metadata of a wheel. Raises packaging.metadata.InvalidMetadata."""
    with zipfile.ZipFile(built) as packed:
        (name,) = (each for each in packed.namelist() if each.endswith(".dist-info/METADATA"))
        return Metadata.from_email(packed.read(name))


def check_descriptions(wheels: Sequence[Path]) -> str:
    """The package index shows Markdown, and knows no other file of the repository: each link is a whole address."""
    for built in wheels:
        found = read_metadata(built)
        text = found.description or ""
        if str(found.description_content_type) != "text/markdown" or not text.startswith("# "):
            raise PackagingError(f"{built.name}: the long description is not a page of Markdown")
        if relative := _RELATIVE_LINK.findall(text):
            raise PackagingError(f"{built.name}: these links lead nowhere on the package index: {relative}")
    return "Markdown, with whole addresses"


def write_bill(target: Path) -> str:
    """Every license is known and allowed; the bill of materials holds every requirement of both distributions."""
    command = [sys.executable, "-m", "tests.upkeep.licences", "--bill", str(target)]
    done = subprocess.run(command, cwd=wheel.ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackagingError(done.stdout[-4000:] + done.stderr[-2000:])
    return done.stdout.strip().splitlines()[-1]


def write_digests(folders: Sequence[Path], target: Path) -> str:
    """The subjects of the attestation: each file by its SHA-256, as `sha256sum --check` reads them."""
    files = sorted(path for folder in folders for path in folder.iterdir() if path.suffix in (".whl", ".gz"))
    if len(files) != 4:
        raise PackagingError(f"{[path.name for path in files]} are not two wheels and two sdists")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return "\n    " + "\n    ".join(lines)


def check_workflow() -> str:
    """Its jobs build by `.ci/build`, attest and publish the same folder, and use an identity in place of a key."""
    text = (wheel.ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    jobs = yaml.load(text, yaml.BaseLoader)["jobs"]
    attested = [step["with"]["subject-path"] for step in jobs["attest"]["steps"] if "attest@" in step["uses"]]
    published = [step for step in jobs["publish"]["steps"] if "gh-action-pypi-publish@" in step["uses"]]
    holds = (
        attested == ["dist/*"]
        and len(published) == 1
        and "password" not in published[0].get("with", {})
        and jobs["publish"]["permissions"] == {"id-token": "write"}
        and jobs["publish"]["environment"] == "pypi"
        and "attest" in jobs["publish"]["needs"]
        and "secrets." not in text
    )
    if not holds:
        raise PackagingError("release.yml does not publish what it has attested, by trusted publishing")
    return "dist/*, attested, by trusted publishing"


def check_site() -> str:
    """No link of the site is broken, and the addresses in the metadata are pages of it."""
    built = site.build()
    if broken := site.broken_links(built):
        raise PackagingError("\n".join(broken))
    for project in (wheel.PROJECT["project"], GATEWAY["project"]):
        page = project["urls"]["Documentation"].removeprefix(site.ADDRESS)
        if not (built / page / "index.html").is_file():
            raise PackagingError(f"{project['urls']['Documentation']} is not a page of the site")
    return f"{len(site.read_pages(built))} pages, no broken link"


def find_pythons(added: Sequence[Path]) -> Iterator[Path]:
    """Yield an interpreter for each supported version: those that are named, on the path, or that uv finds or gets."""
    named = {name_of(path): path for path in added}
    for wanted in PYTHONS:
        if wanted in named:
            yield named[wanted]
            continue
        command = ["uv", "python", "find", "--no-project", "--python-preference", "managed", wanted]
        subprocess.run(["uv", "python", "install", "--quiet", wanted], capture_output=True, check=False)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip():
            yield Path(done.stdout.strip())


def name_of(python: Path) -> str:
    """Return the version of an interpreter, such as ``3.13``."""
    program = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def try_out(environment: Path, python: Path, wheels: Sequence[Path]) -> str:
    """Install the wheels without the checkout, and use each entry point."""
    library, gateway = wheels
    command = ["uv", "venv", "--quiet", "--clear", "--python", str(python), str(environment)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    install(environment, str(library))
    run_program(environment, programs.WATCHED)
    providers = run_program(environment, programs.INSTALLED)
    install(environment, f"{library}[{_EXTRAS}]", str(gateway))
    run_program(environment, programs.GATEWAY)
    return f"{providers}, {run_program(environment, programs.ENTRY_POINTS, VERSION)}"


def upgrade(environment: Path) -> str:
    """The stored examples, and a gateway's database of this checkout, as the installed wheels read them."""
    folder = environment / "stored"
    shutil.copytree(STORED, folder, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    settings = folder / "dragoman.toml"
    settings.write_text(f'[gateway]\ndatabase = "sqlite:///{folder / "gateway.db"}"\n', encoding="utf-8")
    command = [Path(sys.executable).with_name("dragoman"), "gateway", "keys"]
    created = subprocess.run(
        [*command, "create", "--name", "first", "--config", settings], capture_output=True, text=True, check=False,
        env=bare_environment(environment),
    )  # fmt: skip
    if created.returncode:
        raise PackagingError(created.stdout + created.stderr)
    listed = subprocess.run(
        [environment / "bin" / "dragoman", "gateway", "keys", "list", "--config", settings],
        capture_output=True, text=True, check=False, env=bare_environment(environment),
    )  # fmt: skip
    if listed.returncode or "first" not in listed.stdout:
        raise PackagingError(f"the installed gateway does not know the key\n{listed.stdout}{listed.stderr}")
    return f"{run_program(environment, programs.STORED, str(folder))}, and a gateway's database"


if __name__ == "__main__":
    sys.exit(main())
