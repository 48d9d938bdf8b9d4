"""Another program that holds what a transaction locks, for as long as a test wants."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from dragoman_gateway.database import Database
from tests.gateway.upstream import PATIENCE


@contextmanager
def holding(place: str, work: Callable[[Connection], object]) -> Iterator[None]:
    """Keep a transaction of the database at that place open behind some work."""
    database, held, ends = Database(place, timeout=PATIENCE), threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        work(connection)
        held.set()
        ends.wait(PATIENCE)

    thread = threading.Thread(target=database.run, args=(hold,))
    thread.start()
    try:
        assert held.wait(PATIENCE)
        yield
    finally:
        ends.set()
        thread.join(PATIENCE)
        database.close()
