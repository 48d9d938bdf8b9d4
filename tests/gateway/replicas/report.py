"""``python -m tests.gateway.replicas [--replicas N] [--kills N] [--seed N]``.

Three gateways share a PostgreSQL and a Redis, as DRAGOMAN_TEST_POSTGRES_URL and DRAGOMAN_TEST_REDIS_URL name them:
`.ci/services` starts both. First nothing fails; then replicas are killed at random moments, in the middle of requests
and streams; then they are parted from Redis, and from PostgreSQL.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from tests.gateway.replicas import kills, partitions, sharing
from tests.gateway.replicas.fleet import fleet
from tests.gateway.replicas.rows import Row, print_rows
from tests.store.databases import SKIP_REASON, postgres_url
from tests.unit.limits.redis_server import HOW_TO_RUN, REDIS_URL


def rows(postgres: str, redis: str, *, replicas: int, number: int, seed: int) -> Iterator[Row]:
    """Yield what holds, with that many kills."""
    with fleet(postgres, redis, count=replicas) as running:
        yield from sharing.rows(running)
        yield from partitions.rows(running)
        yield from kills.rows(running, number, seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Returns 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.replicas", description=__doc__)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=20261122)
    options = parser.parse_args(arguments)
    postgres, redis = postgres_url(), os.environ.get(REDIS_URL)
    if postgres is None or not redis:
        print(f"{SKIP_REASON}; {HOW_TO_RUN}", file=sys.stderr)
        return 2
    chosen = {"replicas": options.replicas, "number": options.kills, "seed": options.seed}
    return print_rows(rows(postgres, redis, **chosen))
