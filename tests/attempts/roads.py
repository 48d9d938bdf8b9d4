"""The roads of the library: each is walked sync and async, and returns what the caller has in the end."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman import AsyncClient, Client, Message
from dragoman.batch import BatchError, BatchRequest
from dragoman.canonical.extensions.message_labels import with_message_labels
from tests.attempts.endings import Ending
from tests.attempts.governed import (
    LABEL,
    PROMPT,
    USER,
    Watched,
    as_json,
    dollars,
    error_fields,
    message_line,
    unraisable,
    watched,
    without_port,
)
from tests.attempts.provider import EMBEDDER, MODEL, PATIENCE

Kept = Any
Walk = Callable[[Client, Watched], Kept]
WalkAsync = Callable[[AsyncClient, Watched], Awaitable[Kept]]


@dataclass(frozen=True)
class Road:
    """``room`` is a number of tokens in which one request fits, and a second one beside the usage of the first does
    not. ``at`` is the end of the path at which the provider's fault happens. ``watches`` are settings of `Watched`.
    ``left_out`` says why the road does not have an ending. ``resumes``: the walk is repeated when everything works
    again, because it resumes what the first one left."""

    name: str
    walk_sync: Walk
    walk_async: WalkAsync
    room: int
    at: str = ""
    watches: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    resumes: bool = False

    def walk(self, ending: Ending, way: str, folder: Path) -> dict[str, Any]:
        """Return the record of one cell. ``way`` is ``sync`` or ``async``."""
        with (
            unraisable(collect=ending.fault == "waits") as ignored,
            watched(ending, folder, at=self.at, room=self.room, **self.watches) as seen,
        ):
            kept = self._walk(way, seen)
            if self.resumes and ending.name != "whole" and ending.budget != "for one":
                before = len(seen.provider.requests)
                seen.heal()
                again = self._walk(way, seen)
                asked = len(seen.provider.requests) - before
                kept = {"first": kept, "again": "the same" if again == kept else again, "requests of again": asked}
            record: dict[str, Any] = {"kept": kept, **seen.close()}
        return {**as_json(record), **({"ignored errors": ignored} if ignored else {})}

    def _walk(self, way: str, seen: Watched) -> Kept:
        times = 2 if seen.ending.budget == "for one" else 1
        if way == "sync":
            with Client(**seen.settings()) as client:
                kept = [_outcome(lambda: self.walk_sync(client, seen), seen) for _ in range(times)]
        else:
            kept = asyncio.run(self._walk_async(seen, times))
        seen.limits_in_use.close()
        return kept[0] if times == 1 else kept

    async def _walk_async(self, seen: Watched, times: int) -> list[Kept]:
        async with AsyncClient(**seen.settings()) as client:
            kept = [await _outcome_async(self.walk_async(client, seen), seen) for _ in range(times)]
            await seen.limits_in_use.close_async()
            return kept


def _outcome(walk: Callable[[], Kept], seen: Watched) -> Kept:
    """Return what the caller has, or the fields of the error. A caller who cancels presses Ctrl-C."""
    presser = threading.Thread(target=_press, args=(seen, threading.get_ident()))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    if seen.provider.fault == "waits":
        presser.start()
    try:
        return walk()
    except (Exception, KeyboardInterrupt) as error:
        return error_fields(error)
    finally:
        seen.provider.go.set()
        seen.provider.arrived.set()
        if presser.ident is not None:
            presser.join()
        signal.signal(signal.SIGINT, before)


def _press(seen: Watched, thread: int) -> None:
    if seen.provider.arrived.wait(PATIENCE) and not (seen.leaves or seen.provider.go.is_set()):
        signal.pthread_kill(thread, signal.SIGINT)
        if seen.waits:
            seen.provider.go.set()


async def _outcome_async(walk: Awaitable[Kept], seen: Watched) -> Kept:
    task = asyncio.ensure_future(walk)
    if seen.provider.fault == "waits" and not seen.leaves:
        task.add_done_callback(lambda _: seen.provider.arrived.set())
        await asyncio.to_thread(seen.provider.arrived.wait, PATIENCE)
        task.cancel()
        await asyncio.sleep(0)  # the walk has heard of it before the provider goes on
        await asyncio.sleep(0)
        seen.provider.go.set()
    try:
        return await task
    except (Exception, asyncio.CancelledError) as error:
        return error_fields(error)
    finally:
        seen.provider.go.set()


def _session(seen: Watched) -> dict[str, Any]:
    return {"user_id": USER, **({"labels": [LABEL]} if seen.ending.label else {})}


# -- One question


def _ask(client: Client, seen: Watched) -> Kept:
    return _reply(client.ask(MODEL, PROMPT, **_session(seen)))


async def _ask_async(client: AsyncClient, seen: Watched) -> Kept:
    return _reply(await client.ask(MODEL, PROMPT, **_session(seen)))


def _reply(reply: Any) -> Kept:
    return message_line(reply.message)


def _stream(client: Client, seen: Watched) -> Kept:
    arrived = ""
    session = client.session(MODEL, **_session(seen))
    try:
        with session, session.stream(PROMPT) as stream:
            for event in stream:
                arrived += getattr(event, "text", "") if event.type == "text_delta" else ""
                if seen.provider.fault == "waits" and arrived:
                    break
            else:
                return _reply(stream.reply)
    except Exception as error:
        return {"shown": arrived, **error_fields(error), **_history(session)}
    return {"shown": arrived, **_history(session)}


async def _stream_async(client: AsyncClient, seen: Watched) -> Kept:
    arrived = ""
    session = client.session(MODEL, **_session(seen))
    try:
        async with session, session.stream(PROMPT) as stream:
            async for event in stream:
                arrived += getattr(event, "text", "") if event.type == "text_delta" else ""
                if seen.provider.fault == "waits" and arrived:
                    break
            else:
                return _reply(stream.reply)
    except Exception as error:
        return {"shown": arrived, **error_fields(error), **_history(session)}
    return {"shown": arrived, **_history(session)}


def _history(session: Any) -> dict[str, Any]:
    return {"history": [message_line(each) for each in session.messages]}


_SAID = [Message.user("Where is Basel?"), Message.assistant("At the Rhine."), Message.user("And Biel?"),
         Message.assistant("At a lake.")]  # fmt: skip


def _compact(client: Client, seen: Watched) -> Kept:
    with client.session(MODEL, messages=_SAID, **_session(seen)) as session:
        return message_line(session.compact(keep_last=1))


async def _compact_async(client: AsyncClient, seen: Watched) -> Kept:
    async with client.session(MODEL, messages=_SAID, **_session(seen)) as session:
        return message_line(await session.compact(keep_last=1))


# -- Vectors


def _embed(client: Client, seen: Watched) -> Kept:
    return _vectors(client.embed(EMBEDDER, [PROMPT], **_session(seen)))


async def _embed_async(client: AsyncClient, seen: Watched) -> Kept:
    return _vectors(await client.embed(EMBEDDER, [PROMPT], **_session(seen)))


def _vectors(found: Any) -> Kept:
    usage = found.usage
    return f"{len(found)} vector [{usage.total_tokens} tokens, {dollars(usage.cost_usd)}, {usage.cost_status}]"


# -- Batches


def _batch(client: Client, seen: Watched) -> Kept:
    with client.batches(MODEL, user_id=USER) as batches:
        handle = batches.submit(_requests(seen))
        try:
            return _results(batches.fetch(handle))
        except (Exception, KeyboardInterrupt) as error:
            seen.heal()
            return {"fetched": error_fields(error), "fetched again": _results(batches.fetch(handle))}


async def _batch_async(client: AsyncClient, seen: Watched) -> Kept:
    async with client.batches(MODEL, user_id=USER) as batches:
        handle = await batches.submit(_requests(seen))
        try:
            return _results(await batches.fetch(handle))
        except (Exception, asyncio.CancelledError) as error:
            seen.heal()
            return {"fetched": error_fields(error), "fetched again": _results(await batches.fetch(handle))}


def _requests(seen: Watched) -> list[BatchRequest]:
    labels = frozenset({LABEL}) if seen.ending.label else frozenset()
    return [BatchRequest(custom_id="one", messages=PROMPT, labels=labels)]


def _results(results: list[Any]) -> Kept:
    return [
        {"batch error": each.error_class, "usage": None if each.usage is None else each.usage.total_tokens}
        if isinstance(each, BatchError)
        else message_line(each)
        for each in results
    ]


# -- Bulk runs


def _bulk(client: Client, seen: Watched) -> Kept:
    return _report(client.bulk(_rows(), MODEL, **_run(seen)))


async def _bulk_async(client: AsyncClient, seen: Watched) -> Kept:
    return _report(await client.bulk(_rows(), MODEL, **_run(seen)))


def _rows() -> list[dict[str, str]]:
    return [{"prompt": PROMPT, "secrecy": LABEL}]


def _run(seen: Watched) -> dict[str, Any]:
    labels = {"labels": "secrecy"} if seen.ending.label else {}
    seen.runs += seen.ending.budget == "for one"  # two runs, not one that is resumed
    return {"manifest": seen.folder / f"manifest{seen.runs}", "concurrency": 1, "user_id": USER, **labels}


_COLUMNS: dict[str, Callable[[Any], Any]] = {"answer": str, "error": without_port, "cost": dollars, "tokens": int}


def _report(report: Any) -> Kept:
    with report:
        rows = [{name: show(row[name]) for name, show in _COLUMNS.items() if row[name] is not None} for row in report]
        kept: dict[str, Any] = {"rows": rows, "cost": dollars(report.cost_usd)}
        lost = report.lost
        counts = {name: getattr(lost, name) for name in ("killed", "network", "failed") if getattr(lost, name)}
        if counts:
            kept["lost"] = {**counts, "usd": dollars(lost.usd)}
        if report.stopped is not None:
            kept["stopped"] = True
        return kept


# -- Services


def _prompt(seen: Watched) -> Message:
    return with_message_labels(Message.user(PROMPT), frozenset({LABEL} if seen.ending.label else ()))


def _count(client: Client, seen: Watched) -> Kept:
    with client.services(MODEL) as services:
        return services.count_tokens(_prompt(seen))


async def _count_async(client: AsyncClient, seen: Watched) -> Kept:
    async with client.services(MODEL) as services:
        return await services.count_tokens(_prompt(seen))


def _models(client: Client, seen: Watched) -> Kept:
    with client.services(MODEL) as services:
        return [each.id for each in services.models()]


async def _models_async(client: AsyncClient, seen: Watched) -> Kept:
    async with client.services(MODEL) as services:
        return [each.id for each in await services.models()]


ROADS = {
    each.name: each
    for each in (
        Road("ask", _ask, _ask_async, room=130),
        Road("stream", _stream, _stream_async, room=130, watches={"leaves": True}),
        Road("compact", _compact, _compact_async, room=2150),
        Road("embed", _embed, _embed_async, room=12),
        Road("batch", _batch, _batch_async, room=130, at="/results"),
        Road("batch submission", _batch, _batch_async, room=130, at="/batches"),
        Road("bulk", _bulk, _bulk_async, room=130, watches={"bus": False, "store": False, "waits": True}, resumes=True),
        Road("bulk with policy", _bulk, _bulk_async, room=130, watches={"policy": True, "waits": True}, resumes=True),
        Road("token count", _count, _count_async, room=130),
        Road(
            "model list",
            _models,
            _models_async,
            room=130,
            left_out={"label forbids the model": "a list of models is asked for without content"},
        ),
    )
}
