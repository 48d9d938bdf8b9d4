"""``python -m tests.gateway.replicas.rolling [--old COMMIT]``: an update of replicas one after the other.

Three replicas of one version serve clients. The first is replaced by the next version, which migrates the database;
then both versions serve, an older one is started again, and at the end all are of the next version. The next version is
this one with one more migration; with ``--old``, this version replaces the one of an earlier commit first.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import text

import dragoman_gateway
from dragoman_gateway.database.tables import HEAD, VERSION_TABLE
from tests.gateway.replicas import sharing
from tests.gateway.replicas.clients import Clients
from tests.gateway.replicas.fleet import Fleet, fleet
from tests.gateway.replicas.kills import bookings, conversations, responses, revocations
from tests.gateway.replicas.rows import Row, print_rows
from tests.gateway.replicas.sharing import counted
from tests.gateway.scripted import Answer, Received
from tests.history import unpack_commit
from tests.store.databases import SKIP_REASON, postgres_url
from tests.unit.limits.redis_server import HOW_TO_RUN, REDIS_URL

_SOURCES = ("src", "adapters", "gateway/src")
NEXT = "9999"
_MIGRATION = f'''"""What a later version may do: add a column, a table and an index."""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD}"


def upgrade() -> None:
    op.add_column("gateway_keys", sa.Column("colour", sa.Text))
    op.add_column("gateway_responses", sa.Column("size", sa.Integer, server_default="0", nullable=False))
    op.create_table("gateway_notes", sa.Column("id", sa.String(40), primary_key=True))
    op.create_index("gateway_spend_by_day", "gateway_spend", ["day"])
'''


def next_version(folder: Path) -> list[Path]:
    """Write this version with one more migration, and return its folder."""
    package = folder / "dragoman_gateway"
    shutil.copytree(Path(dragoman_gateway.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "database" / "migrations" / "versions" / f"v{NEXT}_next.py").write_text(_MIGRATION)
    tables = package / "database" / "tables.py"
    changed = re.sub(rf'^HEAD = "{HEAD}"$', f'HEAD = "{NEXT}"', tables.read_text(), count=1, flags=re.MULTILINE)
    tables.write_text(changed)
    return [folder]


def earlier_version(commit: str, folder: Path) -> list[Path]:
    """Write the packages of a commit, and return their folders."""
    unpack_commit(commit, folder, *_SOURCES, "pricing", "pyproject.toml")
    return [folder / each for each in _SOURCES]


def _slowly(request: Received) -> Answer:
    """Answer some requests so slowly that a replica that ends has streams to finish."""
    return counted(request, pause=2.0 if zlib.crc32(request.raw) % 8 == 0 else 0.02)


def roll(running: Fleet, old: Sequence[Path], new: Sequence[Path], *, starts_old: bool) -> Iterator[Row]:
    """Replace all replicas, which are of the old version. ``starts_old``: start an old one after the migration too."""
    first, before, clients = len(running.upstream.requests), _version(running), Clients(running, seed=1)
    codes = []
    with clients.asking(_slowly):
        codes.append(running.replicas[0].replace(new))
        running.http(0, clients.secret).get("/v1/models").raise_for_status()  # it has migrated the database
        mixed = _version(running)
        if starts_old:
            codes.append(running.replicas[1].replace(old))
    yield _served(clients, f"from {before} to {mixed}", codes)
    yield conversations(running, clients, "the update", first)
    yield bookings(running, clients, "the update", first)
    yield responses(running, clients)
    yield revocations(clients)
    yield from sharing.rows(running)  # the first replica is new, and the others are old
    first, clients = len(running.upstream.requests), Clients(running, seed=2)
    with clients.asking(_slowly):
        codes = [replica.replace(new) for replica in running.replicas[1:]]
    yield _served(clients, f"all to {mixed}", codes)
    yield bookings(running, clients, "the end of the update", first)


def _served(clients: Clients, what: str, codes: Sequence[int]) -> Row:
    counts = (clients.whole, clients.again, clients.broken, len(clients.failed))
    found = "{} answered, {} sent elsewhere, {} broken, {} failed".format(*counts)
    holds = clients.whole > 0 and not clients.broken and not clients.failed and not any(codes)
    more = f" ({clients.failed[0]})" if clients.failed else ""
    return Row(f"requests during the update {what}", found + more, "none broken or failed", holds)


def _version(running: Fleet) -> str:
    query = text(f"SELECT version_num FROM {VERSION_TABLE}")
    return str(running.database.run(lambda connection: connection.execute(query).scalar(), writes=False))


def rows(postgres: str, redis: str, earlier: str | None = None) -> Iterator[Row]:
    """Yield what holds during the updates."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "next").mkdir()
        newest = next_version(folder / "next")
        old = [] if earlier is None else earlier_version(earlier, folder / "earlier")
        with fleet(postgres, redis, sources=old) as running:
            if earlier is not None:
                yield from roll(running, old, (), starts_old=False)
            yield from roll(running, (), newest, starts_old=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Returns 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.replicas.rolling", description=__doc__)
    parser.add_argument("--old", metavar="COMMIT", help="also update from the version of that commit")
    options = parser.parse_args(arguments)
    postgres, redis = postgres_url(), os.environ.get(REDIS_URL)
    if postgres is None or not redis:
        print(f"{SKIP_REASON}; {HOW_TO_RUN}", file=sys.stderr)
        return 2
    return print_rows(rows(postgres, redis, options.old))


if __name__ == "__main__":
    sys.exit(main())
