"""Names in what a session leaves behind: its dump, its store, its events, spans and metrics."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import MetaData, create_engine, inspect
from sqlalchemy.dialects import postgresql
from typer.testing import CliRunner

from dragoman import DragomanError
from dragoman.adapter.registry import GROUP
from dragoman.bulk.manifest import records as bulk_tables
from dragoman.canonical.message import Message, MessageMetadata, StopReason
from dragoman.cli.app import app
from dragoman.cli.cost import By
from dragoman.cli.cost.sources import SESSION_GROUPS
from dragoman.events import EventBus, Telemetry, conventions
from dragoman.policy import Extensions, Pipeline, SecurityExtension, Step, SubjectExtension, Violation, hook
from dragoman.policy.labels import with_labels
from dragoman.routing import Router
from dragoman.session import tool
from dragoman.store import Store
from dragoman.store import schema as store_tables
from tests.compatibility.frozen.from_source import entries
from tests.compatibility.frozen.key_paths import of_value
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, Body, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, Thought, handwritten_anthropic, handwritten_ollama

_BROKEN = "broken"
_FORBIDDEN = "forbidden"
_SECRET = "secret"
_OF_WORDS = ("status", "kind", "cost_status", "role", "stop_reason")


class Records(NamedTuple):
    """What the session left behind."""

    dump: dict[str, Any]
    lines: list[dict[str, Any]]
    store: list[str]
    """Its tables, and the words in them."""
    events: list[dict[str, Any]]
    spans: tuple[ReadableSpan, ...]
    metrics: list[Any]
    replies: list[str]
    """The columns of exported replies."""


@tool(side_effects="read")
def look(at: str) -> str:
    """Look at something."""
    if at == _BROKEN:
        raise ValueError(at)
    return at


@hook("cmf.llm_input", capabilities=["append_labels", "write_headers"])
def label(step: Step) -> Any:
    """Labels secrets, and refuses what is forbidden."""
    text = " ".join(view.content or "" for view in step.views())
    if _FORBIDDEN in text:
        return Violation(_FORBIDDEN, code=_FORBIDDEN)
    return with_labels(step.extensions, [_SECRET]) if _SECRET in text else None


@cache
def record_session() -> Records:
    """A session over two providers: with tools that answer, fail and get invalid calls, a policy, labels that are added
    and removed, a fallback, a broken reply, an abandoned one, and a refused request.
    """
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(
        message_content=True, agent_name="freezer", tracer_provider=tracers, meter_provider=MeterProvider([reader])
    )
    events: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder, EventBus(strict=True) as bus:
        bus.subscribe(telemetry)
        bus.subscribe(lambda event: events.append(event.as_dict()))
        url = f"sqlite:///{Path(folder) / 'sessions.db'}"
        with Store(url) as store:
            dump = _play(store, bus)
            assert bus.flush(60)
            lines = [json.loads(line) for line in store.export("sess_1")]
            store.export_replies(Path(folder) / "replies", text=True)
        metrics = reader.get_metrics_data()
        return Records(
            dump, lines, [*_tables(url), *_words(Path(folder) / "sessions.db")], events,
            exporter.get_finished_spans(), [] if metrics is None else list(metrics.resource_metrics),
            list(_columns(Path(folder) / "replies")),
        )  # fmt: skip


def _play(store: Store, bus: EventBus) -> dict[str, Any]:
    fine = handwritten_anthropic("Fine.")
    failing = httpx.Response(500, json={"type": "error", "error": {"type": "api_error", "message": "no"}})
    anthropic = Wire(
        [
            handwritten_anthropic(
                Thought("Hm."), Call("t1", "look", {"at": "it"}), Call("t2", "look", {"at": _BROKEN})
            ),
            handwritten_anthropic(Call("t3", "look", {"wrong": 1})),
            fine,
            Body(fine.frames[:-2]),
            fine,
            *[failing] * 3,
        ]
    )
    session = SyncDriver().session(
        {"anthropic": anthropic, "ollama": Wire([handwritten_ollama("Here.")])}, ANTHROPIC,
        tools=[look], events=bus, store=store, user_id="ann", team_id="blue", system="Be brief.",
        router=Router(global_default=OLLAMA, clock=lambda: NOW),
        policy=Pipeline([label], grants=["declassify_labels"]),
        extensions=Extensions(security=SecurityExtension(subject=SubjectExtension(id="ann", type="user"))),
    )  # fmt: skip
    with session:
        session.ask(f"The {_SECRET} is in it.")
        session.declassify([_SECRET], actor="officer", reason="published")
        with suppress(DragomanError):  # breaks off
            list(session.stream("Go on."))
        for event in session.stream("Once more."):
            if event.type == "text_delta":
                break
        with suppress(DragomanError):
            session.ask(_FORBIDDEN)
        session.ask("And now?")
        dump: dict[str, Any] = json.loads(session.dump())
    return dump


def _words(file: Path) -> Iterator[str]:
    """Keys of JSON in columns, and the words of columns that hold one of a few."""
    with closing(sqlite3.connect(file)) as connection:
        for table in store_tables.metadata.tables:
            cursor = connection.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                for (column, *_), value in zip(cursor.description, row, strict=True):
                    if value is not None and column.endswith("_json"):
                        yield from (f"{table}.{column}: {path}" for path in of_value(json.loads(value)))
                    elif value is not None and column in _OF_WORDS:
                        yield f"{table}.{column} = {value}"


def _tables(url: str) -> Iterator[str]:
    """Tables, columns, keys and indexes of a database, as it describes itself."""
    engine = create_engine(url)
    inspector = inspect(engine)
    for table in inspector.get_table_names():
        if table.startswith(f"{store_tables.SEARCH_TABLE}_"):
            continue  # SQLite's own
        yield table
        yield from (f"{table}.{each['name']} {each['type']}" for each in inspector.get_columns(table))
        yield from (f"{table}: index {_list_words(each)}" for each in inspector.get_indexes(table))
        yield from (f"{table}: unique {_list_words(each)}" for each in inspector.get_unique_constraints(table))
        key = inspector.get_pk_constraint(table)
        yield f"{table}: key {key['name']} ({', '.join(key['constrained_columns'])})"
        for each in inspector.get_foreign_keys(table):
            yield f"{table}: {', '.join(each['constrained_columns'])} of {each['referred_table']}"
    with engine.connect() as connection:
        triggers = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        yield from (f"trigger {name}" for (name,) in triggers)
    engine.dispose()


def _list_words(index: Mapping[str, Any]) -> str:
    return f"{index['name']} ({', '.join(map(str, index['column_names']))})"


def _columns(folder: Path) -> Iterator[str]:
    import duckdb

    (file,) = folder.rglob("*.parquet")
    yield file.relative_to(folder).as_posix().replace(f"{NOW:%Y-%m-%d}", "DATE")
    with duckdb.connect() as connection:
        columns = connection.execute("DESCRIBE FROM read_parquet(?, hive_partitioning = false)", [str(file)]).fetchall()
        yield from (f"{name} {kind}" for name, kind, *_ in columns)
        keys = connection.execute("SELECT decode(key) FROM parquet_kv_metadata(?)", [str(file)]).fetchall()
        yield from (f"file's note {key}" for (key,) in keys)


def session_dump() -> Iterator[str]:
    return of_value(record_session().dump)


def store_lines() -> Iterator[str]:
    """The lines of an exported session."""
    return (path for line in record_session().lines for path in of_value(line))


def store() -> Iterator[str]:
    """Tables on SQLite as they are created, with those of bulk runs, and their types on PostgreSQL."""
    yield from record_session().store
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'bulk.db'}"
        engine = create_engine(url)
        bulk_tables.metadata.create_all(engine)
        engine.dispose()
        yield from _tables(url)
    for metadata in (store_tables.metadata, bulk_tables.metadata):
        yield from _postgres(metadata)


def _postgres(metadata: MetaData) -> Iterator[str]:
    dialect = postgresql.dialect()
    for table in metadata.tables.values():
        yield from (f"postgresql {table.name}.{column.name} {column.type.compile(dialect)}" for column in table.columns)
        yield from (f"postgresql {table.name}: {each.name}" for each in table.constraints if each.name)
        yield from (f"postgresql {table.name}: {index.name}" for index in table.indexes)


def exported_replies() -> Iterator[str]:
    """The columns of the Parquet files that a store exports."""
    return iter(record_session().replies)


def event_envelopes() -> Iterator[str]:
    """An event as JSON, without the payload's fields, which have their own list."""
    for event in record_session().events:
        yield from of_value({name: None if name == "payload" else value for name, value in event.items()})


def telemetry() -> Iterator[str]:
    """Spans, their attributes, events and status; metrics, their units and attributes."""
    for span in record_session().spans:
        scope = span.instrumentation_scope
        yield f"scope {scope.name if scope else ''} {scope.schema_url if scope else ''}"
        yield f"span {span.name} {span.kind.name}"
        operation = span.name.partition(" ")[0]
        yield from (f"span {operation}: {name}" for name in span.attributes or ())
        for event in span.events:
            yield f"span {operation}: event {event.name}"
            yield from (f"span {operation}: event {event.name}: {name}" for name in event.attributes or ())
    for metric in (each for data in record_session().metrics for scope in data.scope_metrics for each in scope.metrics):
        yield f"metric {metric.name} {metric.unit}"
        for point in metric.data.data_points:
            yield from (f"metric {metric.name}: {name}" for name in point.attributes)
    for name in (entry.name for entry in entries(GROUP)):
        known = conventions.request_attributes(name, "")
        yield f"provider {name} = {known[conventions.PROVIDER]}, {known[conventions.OPERATION]}"
    yield from (f"stop reason {reason.value} = {conventions.finish_reason(reason)}" for reason in StopReason)


def cost_report() -> Iterator[str]:
    """The report of `dragoman cost --json`."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "session.json"
        file.write_text(json.dumps(record_session().dump), encoding="utf-8")
        store = Path(folder) / "store.db"
        with Store(f"sqlite:///{store}") as opened:
            opened.create("a:m", [Message.assistant("No.", metadata=MessageMetadata(provider="a", model="a:m"))])
        of_sessions = [by for by in By if by not in SESSION_GROUPS]
        for source, groups in ((file, of_sessions), (store, list(By))):
            named = [word for by in groups for word in ("--by", by.value)]
            done = CliRunner().invoke(app, ["cost", str(source), *named, "--json"])
            yield from of_value(json.loads(done.stdout))
