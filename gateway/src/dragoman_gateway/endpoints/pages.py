"""Endpoints that are not turns: models, health, metrics, and addresses that do not exist."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Match, Route

from dragoman.errors import NotFoundError
from dragoman_gateway.access import Caller, OpenAccess
from dragoman_gateway.bodies.read import read_headers
from dragoman_gateway.database import DatabaseUnavailableError
from dragoman_gateway.endpoints.openapi import openapi
from dragoman_gateway.errors import ClientError, DeniedError, NoAddressError, UnavailableError
from dragoman_gateway.keys.admission import spend_page
from dragoman_gateway.models import Models, facts_of
from dragoman_gateway.running.board import Status
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.running.metrics import SECONDS, Metrics, new_request_id
from dragoman_gateway.toml import load_table
from dragoman_gateway.turn.errors import error_response
from dragoman_gateway.wires import MESSAGES, RESPONSES, Wire, wire_of


def routes(gateway: Gateway) -> list[Route]:  # noqa: C901  # each function inside is a page
    """Return the routes that call no model."""

    def which() -> dict[str, str]:
        """Return the header with the version of the worker's configuration."""
        return {"x-dragoman-configuration": gateway.current.version}

    async def health(request: Request) -> Response:
        """Report that the process runs, without any check."""
        return PlainTextResponse("ok", headers=which())

    async def ready(request: Request) -> Response:
        """Report whether the gateway accepts requests."""
        if gateway.draining:
            return PlainTextResponse("the gateway is about to end", 503, {"retry-after": "2", **which()})
        return PlainTextResponse("ready", headers=which())

    async def counts(request: Request) -> Response:
        access = gateway.current.access
        if isinstance(access, OpenAccess):
            try:
                access.rules.check(read_headers(request.scope))
            except (ClientError, DeniedError) as error:
                return error_page(wire_of(request.headers), error)
        return Response(metrics_page(gateway.whole_status()), media_type=CONTENT_TYPE_LATEST, headers=which())

    async def spend(request: Request) -> Response:
        services = gateway.services
        try:
            caller = await gateway.current.access.authenticate(read_headers(request.scope))
            return JSONResponse(await spend_page(services.admission.ledger, services.cache, caller))
        except DatabaseUnavailableError:
            busy = UnavailableError("spend cannot be read at the moment: try again", retry_after=5)
            return error_page(wire_of(request.headers), busy)
        except Exception as error:
            return error_page(wire_of(request.headers), error)

    async def root(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):  # a browser
            return RedirectResponse("/gateway/")
        return PlainTextResponse("Dragoman gateway. Its page is /gateway/; /openapi.json describes its interface\n")

    async def describe(request: Request) -> Response:
        return JSONResponse(openapi())

    async def models(request: Request) -> Response:
        generation = gateway.current
        try:
            caller = await generation.access.authenticate(read_headers(request.scope))
            known, wire = generation.models, wire_of(request.headers)
            if (name := request.path_params.get("model")) is not None:
                return JSONResponse(_entry(name, known.resolve(name, caller).model, wire))
            return JSONResponse(list_models(known, caller, wire, request.query_params))
        except Exception as error:
            return error_page(wire_of(request.headers), error)

    async def no_socket(request: Request) -> Response:
        """Tell a client that wants a websocket to use HTTP: with 426 it does so at once."""
        return error_page(
            wire_of(request.headers, RESPONSES), _NoSocketError("use POST: this gateway does not serve websockets")
        )

    return [
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{model:path}", models, methods=["GET"]),
        Route("/v1/responses", no_socket, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/gateway/spend", spend, methods=["GET"]),
        Route("/metrics", counts, methods=["GET"]),
        Route("/openapi.json", describe, methods=["GET"]),
        Route("/", root, methods=["GET"]),
    ]


def metrics_page(status: Status) -> bytes:
    """Return all counts in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Page([*_counted(status), *_present(status)]))
    return generate_latest(registry)


def _counted(status: Status) -> Iterator[Metric]:
    """Yield the metrics of the requests that have ended."""
    metrics = Metrics()
    metrics.add(status.metrics)
    for name, each in load_table("endpoints/metrics.toml")["counters"].items():
        counter = CounterMetricFamily(f"dragoman_{name}", each["text"], labels=each["labels"])
        for labels, numbers in metrics.series(name).items():
            for label, number in numbers.items():
                counter.add_metric((*labels, label), float(number))
        yield counter
    bounds = [*map(floatToGoString, SECONDS), "+Inf"]
    for name, each in load_table("endpoints/metrics.toml")["histograms"].items():
        histogram = HistogramMetricFamily(f"dragoman_{name}", each["text"], labels=each["labels"])
        for labels, numbers in metrics.series(each["time"]).items():
            ranges = accumulate(numbers.get(str(place), 0) for place in range(len(bounds)))
            histogram.add_metric(labels, list(zip(bounds, ranges, strict=True)), numbers["sum"])
        yield histogram


def _present(status: Status) -> Iterator[Metric]:
    """Yield the metrics of the present state."""
    values: dict[str, dict[tuple[str, ...], float]] = {
        "requests_in_flight": {(): status.in_flight},
        "estimated": {(): status.estimated},
        "dropped": {(kind,): number for kind, number in status.dropped.items()},
        "waiting": {(kind,): number for kind, number in status.waiting.items()},
        "waiting_seconds": {(): status.waiting_seconds},
        "service_available": {(name,): answers for name, answers in status.available.items()},
        "database_busy": {(lane, wait): each for lane, waits in status.busy.items() for wait, each in waits.items()},
        "configuration": dict.fromkeys(status.workers.items(), 1),
    }
    for name, each in load_table("endpoints/metrics.toml")["gauges"].items():
        gauge = GaugeMetricFamily(f"dragoman_{name}", each["text"], labels=each["labels"])
        for labels, number in values[name].items():
            gauge.add_metric(labels, number)
        yield gauge


class _Page(Collector):
    """Metrics that exist already."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics


class _NoSocketError(ClientError):
    status = 426


class _MethodError(ClientError):
    status = 405


def error_page(wire: Wire, error: Exception) -> Response:
    """Return an error as the wire's provider would send it, outside of a turn."""
    written = error_response(wire, error, "", new_request_id())
    reply = Response(written.body, written.status)
    reply.raw_headers += written.headers
    return reply


async def _not_found(request: Request, error: Exception) -> Response:
    path = request.url.path
    hint = "give the base URL without /v1" if path.startswith("/v1/v1/") else "/openapi.json lists the addresses"
    return error_page(wire_of(request.headers), NoAddressError(f"there is no address {path!r:.120}; {hint}"))


async def _wrong_method(request: Request, error: Exception) -> Response:
    reply = error_page(wire_of(request.headers), _MethodError(f"{request.method} is not possible here"))
    routes = [each for each in request.app.routes if isinstance(each, Route)]
    path = next(each.path for each in routes if each.matches(request.scope)[0] is not Match.NONE)
    methods = {method for each in routes if each.path == path for method in each.methods or ()}
    reply.headers["allow"] = ", ".join(sorted(methods))  # the router names those of the first route alone
    return reply


HANDLERS: Mapping[Any, Any] = {404: _not_found, 405: _wrong_method}
"""Answers requests without a route."""


_CREATED = "2026-01-01T00:00:00Z"
_CREATED_SECONDS = 1767225600
"""A fixed time: the names are the gateway's own, and clients require one."""
_MAX_PAGE = 1000


def list_models(models: Models, caller: Caller, wire: Wire, query: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the models that the caller may use: the names of the settings and the aliases. Clients of Messages get the
    part of the list that they ask for."""
    entries = [_entry(name, models.target(name), wire) for name in models.names(caller)]
    if wire is not MESSAGES:
        return {"object": "list", "data": entries}
    ids = [entry["id"] for entry in entries]
    start, end = 0, len(entries)
    if (after := query.get("after_id")) is not None:
        start = _place(ids, after) + 1
    if (before := query.get("before_id")) is not None:
        end = _place(ids, before)
    limit = query.get("limit", "20")
    size = min(max(int(limit), 1), _MAX_PAGE) if limit.isdigit() and len(limit) < 6 else 20
    if before is not None:
        start = max(end - size, start)
    shown = entries[start : min(start + size, end)]
    return {
        "data": shown,
        "has_more": start + len(shown) < end or (before is not None and start > 0),
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }


def _place(ids: list[str], name: str) -> int:
    if name not in ids:
        raise NotFoundError(f"there is no model {name!r:.120} in the list")
    return ids.index(name)


def _entry(name: str, target: str, wire: Wire) -> dict[str, Any]:
    if wire is not MESSAGES:
        return {"id": name, "object": "model", "created": _CREATED_SECONDS, "owned_by": target.partition(":")[0]}
    entry: dict[str, Any] = {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": _CREATED,
        "max_input_tokens": None,
        "max_tokens": None,
    }
    if (facts := facts_of(target)) is not None:
        entry |= {"max_input_tokens": facts.max_context_tokens, "max_tokens": facts.max_output_tokens}
    return entry
