"""Hostile values at the doors of the library: each is accepted or refused with a typed error, and none is quoted."""

import contextlib
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from dragoman import Budget, Client, Message, Session, Store, get_adapter
from dragoman.blocks import ToolUseBlock
from dragoman.errors import DragomanError
from dragoman.messages import MessageMetadata
from dragoman.session.config import SessionSettings
from dragoman.transport import Fetcher
from dragoman.transport.settings import ProviderSettings

MODEL = "anthropic:claude-opus-5-5"
CONTENT = "a-text-of-the-conversation"
VALUES: tuple[Any, ...] = (
    None, "", 0, -1, 10**30, 1.5, float("nan"), float("inf"), "x" * 3000, b"\xff", "\ud800", "\x00", [], [1], {},
    {"a": 1}, {1: 2}, object(), object, print, True, (), ("a",), [None], {"a": {"b": []}}, "../../x", lambda: 1, [[]],
    {"": None}, set(), 1j,
)  # fmt: skip
ROW_VALUES: tuple[Any, ...] = (
    None, "", 0, -1, 2**62, -(2**62), 1.5, float("inf"), CONTENT, "x" * 3000, b"\xff\xfe", b"", "{", "[]", "{}", "[1]",
    "null", "\x00", "1e999", '{"a":NaN}', "[" * 2000, '"\\ud800"', "2026-01-01", f'{{"role":"{CONTENT}"}}',
    f'["{CONTENT}"]', f'[{{"type":"{CONTENT}"}}]',
)  # fmt: skip
LOCATIONS = (
    "http://[::1", "https://[", "//[", "https://a:99999/", "https://a:b/", "http://\x00", "https://exa mple.org/",
    "https://xn--/", f"https://{'a' * 300}.org", "https://a..b/", "///", "\\\\x", "http:", "https:/", "https://[v1.x]/",
    "https://[::1%25en0]/", "https://user@/", "http://\uff11\uff12\uff17.0.0.1/", "https://\ud800.org", "?",
    "javascript:alert(1)", "https://[fe80::1%eth0]/", "https://example\u3002org/",
)  # fmt: skip
_AT = datetime(2026, 11, 21, 8, tzinfo=UTC)
_ALPHABET = "https://[]:@/?#%aé.0_-\\\x00\t \uff11\u2177\u3002\u200d\u202e"


@dataclass
class Door:
    """What was tried at one door. ``bare`` holds the untyped exceptions, ``quoting`` those that repeat a text."""

    name: str
    tried: int = 0
    refused: int = 0
    bare: list[str] = field(default_factory=list)
    quoting: list[str] = field(default_factory=list)

    @property
    def enough(self) -> bool:
        return self.tried > 0 and not self.bare and not self.quoting

    def attempt(self, what: str, work: Callable[[], object]) -> None:
        self.tried += 1
        try:
            work()
        except DragomanError as error:
            self.refused += 1
            if CONTENT in str(error):
                self.quoting.append(f"{what}: {error}")
        except Exception as error:
            self.bare.append(f"{what}: {type(error).__name__}: {error!s:.80}")


def settings(_: random.Random, count: int) -> Door:
    """Each setting of a session, of a provider and of a budget with each value."""
    door = Door("settings and arguments")
    for value in VALUES:
        for name in SessionSettings.__annotations__:
            door.attempt(name, lambda: Session(MODEL, **{name: value}).close())  # noqa: B023
        for name in ProviderSettings.__annotations__:
            providers = {"anthropic": {name: value}}
            door.attempt(f"providers {name}", lambda: Session(MODEL, providers=providers).close())  # noqa: B023
        for what, work in _calls(value):
            door.attempt(what, work)
        if door.tried >= count:
            break
    return door


def _calls(value: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "model", lambda: Session(value)
    yield "system", lambda: Session(MODEL, system=value)
    yield "store", lambda: Client(store=value).close()
    yield "get_adapter", lambda: get_adapter(value)
    yield "budget usd", lambda: Budget(usd=value)
    yield "budget tokens", lambda: Budget(tokens=value)
    yield "load", lambda: Session.load(value, model=MODEL)
    yield "limits", lambda: Session(MODEL, limits=value)


def redirects(picker: random.Random, count: int) -> Door:
    """Targets of redirects, and addresses."""
    door = Door("redirects and addresses")
    for number in range(count // 2):
        if number < len(LOCATIONS):
            location = LOCATIONS[number]
        else:
            location = picker.choice(("https://", "")) + "".join(picker.choices(_ALPHABET, k=picker.randrange(1, 20)))
        header = [(b"location", location.encode("utf-8", "surrogatepass"))]
        answer = httpx.Response(302, headers=header)
        fetcher = Fetcher(
            resolve=lambda *_, **__: [(0, 0, 0, "", ("93.184.216.34", 0))],
            connection=lambda: httpx.MockTransport(lambda _: answer),  # noqa: B023
        )
        for url in ("https://example.org/a", location):
            door.attempt(ascii(location), lambda: fetcher(url))  # noqa: B023
    return door


def stores(picker: random.Random, count: int) -> Iterator[Door]:
    """Files with damaged bytes, then rows with changed values."""
    files, rows = Door("damaged files of a store"), Door("changed rows of a store")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "whole.db"
        _write_store(path)
        whole = path.read_bytes()
        while files.tried < count:
            damaged = _new_copy(Path(folder))
            damaged.write_bytes(_damage(picker, whole))
            _use_store(files, damaged)
        columns = _columns(path)
        while rows.tried < count:
            (table, column), value = picker.choice(columns), picker.choice(ROW_VALUES)
            changed = _new_copy(Path(folder))
            shutil.copy(path, changed)
            with contextlib.closing(sqlite3.connect(changed)) as connection:
                try:
                    connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
                except sqlite3.Error:  # the schema refuses it
                    continue
                connection.commit()
            _use_store(rows, changed, f"{table}.{column} = {value!r:.40}")
    yield files
    yield rows


def _new_copy(folder: Path) -> Path:
    for old in folder.glob("copy.db*"):
        old.unlink()
    return folder / "copy.db"


def _write_store(path: Path) -> None:
    """Write the same bytes each time, so that a seed damages the same ones."""
    usage = {"usage": {"input_tokens": 3, "cost_usd": Decimal("0.1"), "cost_status": "priced"}}
    with Store(f"sqlite:///{path}", clock=lambda: _AT) as store:
        for number in range(3):
            call = ToolUseBlock(id=f"c{number}", name="f", input={"a": CONTENT})
            metadata = MessageMetadata.model_validate({"model": MODEL, "provider": "anthropic", **usage})
            turn = [
                Message.user(CONTENT), Message.assistant([call], metadata=metadata), Message.tool(call.id, CONTENT),
            ]  # fmt: skip
            turn = [
                each.model_copy(update={"id": f"m{number}{place}", "created_at": _AT})
                for place, each in enumerate(turn)
            ]
            store.create(MODEL, turn, session_id=f"s{number}", title=CONTENT, metadata={"x": CONTENT})
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _columns(path: Path) -> list[tuple[str, str]]:
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute(names) if not name.startswith("message_search")]
        return [(table, row[1]) for table in tables for row in connection.execute(f"PRAGMA table_info({table})")]


def _damage(picker: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    at = picker.randrange(len(data))
    match picker.randrange(4):
        case 0:
            del data[at:]
        case 1:
            for _ in range(picker.choice((1, 5, 50))):
                data[picker.randrange(len(data))] = picker.randrange(256)
        case 2:
            data[at : at + picker.randrange(4096)] = picker.randbytes(picker.randrange(4096))
        case _:
            data[at : at + 4096] = bytes(4096)
    return bytes(data)


def _use_store(door: Door, path: Path, what: str = "file") -> None:
    opened: list[Store] = []
    door.attempt(f"{what}, open", lambda: opened.append(Store(f"sqlite:///{path}", timeout=0.2)))
    for store in opened:
        with store:
            for name, work in _operations(store):
                door.attempt(f"{what}, {name}", work)


def _operations(store: Store) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "load", lambda: store.load("s0")
    yield "record", lambda: store.record("s1")
    yield "list", store.list
    yield "billed_replies", lambda: list(store.billed_replies())
    yield "total_spend", store.total_spend
    yield "search", lambda: store.search("text")
    yield "export", lambda: list(store.export("s0"))
    yield "append", lambda: store.append("s0", [Message.user(CONTENT)], expected_version=None)
    yield "fork", lambda: store.fork("s0")
    yield "import", lambda: store.import_lines(list(store.export("s1")), session_id="new")
    yield "delete", lambda: store.delete("s2")


def doors(count: int, seed: int) -> Iterator[Door]:
    """Try about ``count`` values at each door."""
    picker = random.Random(seed)
    yield settings(picker, count)
    yield redirects(picker, count)
    yield from stores(picker, count)


def lines(tried: Iterator[Door]) -> Iterator[str]:
    yield f"{'door':<28}{'tried':>8}{'refused':>9}{'bare':>6}{'quoting':>9}"
    for door in tried:
        yield f"{door.name:<28}{door.tried:>8}{door.refused:>9}{len(door.bare):>6}{len(door.quoting):>9}"
        yield from (f"    {each}" for each in [*door.bare, *door.quoting][:10])
