"""Laws of the contract, for every wire (``docs/reference/contract.md``, "Members")."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions, NamedTool
from dragoman.adapter.errors import DragomanError, RequestError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.losses import Loss
from dragoman.adapter.registry import adapter_class, get_adapter, providers
from dragoman.canonical.message import Message, write_message
from dragoman.testing.conformance.generate import History, generate_histories
from dragoman.testing.conformance.subject import (
    SCHEMA,
    NotTriedError,
    Subject,
    is_option_lost,
    over_histories,
    parse_body,
)
from dragoman.testing.network import block_network
from dragoman.testing.stream_laws import Trial

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SECRET_HEADERS = {"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}


def declares_itself(subject: Subject) -> Iterator[Trial]:
    """The adapter declares its provider, endpoint, models and capabilities, the same each time."""
    adapter, faults = subject.adapter, []
    if not _NAME.fullmatch(adapter.provider):
        faults.append(
            f"the provider {adapter.provider!r} has other characters than lower-case letters, digits and hyphens"
        )
    if not isinstance(adapter, Adapter):
        faults.append(f"{type(adapter).__name__} is not an Adapter")
    if adapter.transport == "http" and not re.match(r"https?://|.*\{", adapter.endpoint.base_url or "http://"):
        faults.append(f"the base URL {adapter.endpoint.base_url!r} begins with neither http:// nor https://")
    if not isinstance(adapter.capabilities, AdapterCapabilities):
        faults.append("the capabilities are not AdapterCapabilities")
    elif adapter.capabilities != adapter.capabilities:
        faults.append("the capabilities differ from one read to the next")
    elif min(adapter.capabilities.max_context_tokens, adapter.capabilities.max_output_tokens) < 1:
        faults.append("a limit under 1")
    if adapter.estimate_input_tokens([Message.user("Hi")], []) < 1:
        faults.append("an estimate under 1 token")
    yield Trial(subject.model, tuple(faults))


def is_registered_by_name(subject: Subject) -> Iterator[Trial]:
    """The entry point under the provider's name loads this adapter."""
    name = subject.adapter.provider
    if name not in providers():
        yield Trial(name, ("not installed: no entry point of that name in the group dragoman.adapters",))
        return
    found = get_adapter(subject.model)
    same = type(found) is type(subject.adapter) and adapter_class(name).provider == name
    yield Trial(name, () if same else (f"the name gives {type(found).__qualname__}",))


@over_histories
def writes_a_request(subject: Subject, history: History) -> Iterator[str]:
    """A history becomes bytes for a path, with losses, without a key and without a connection."""
    with block_network(allow=()):
        request = subject.write(history)
    if not request.method.isupper():
        yield f"the method {request.method!r}"
    if not request.path.startswith("/"):
        yield f"the path {request.path!r} does not start with a slash"
    if not isinstance(request.body, bytes):
        yield f"the body is {type(request.body).__name__}, not bytes"
    if not all(isinstance(each, Loss) for each in request.losses):
        yield "one of the losses is not a Loss"
    if secret := _SECRET_HEADERS.intersection(name.lower() for name in request.headers):
        yield f"the header {', '.join(secret)}: keys are the transport's business"


@over_histories
def leaves_the_history_unchanged(subject: Subject, history: History) -> Iterator[str]:
    """The same history gives the same bytes and losses, and does not change."""
    before = [write_message(message) for message in history]
    first, second = subject.write(history), subject.write(history)
    if first.body != second.body:
        yield "other bytes the second time"
    if first.losses != second.losses:
        yield "other losses the second time"
    if [write_message(message) for message in history] != before:
        yield "the history changed"


_PROGRAM = """
import hashlib, json, sys
from importlib import import_module
from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.canonical.message import read_message
given = json.load(sys.stdin)
found = import_module(given["module"])
for name in given["class"].split("."):
    found = getattr(found, name)
adapter, digest = found(given["model"]), hashlib.sha256()
for history in given["histories"]:
    context = RequestContext(model=str(adapter.model_id), session_id="sess_kit", request_id="request")
    digest.update(adapter.to_wire(list(map(read_message, history)), [], AdapterOptions(context=context)).body)
print(digest.hexdigest())
"""


def is_deterministic_across_processes(subject: Subject) -> Iterator[Trial]:
    """A request depends neither on the process nor on its hash seed."""
    kind = type(subject.adapter)
    if not subject.effort.processes:
        raise NotTriedError("other processes are left out of this run")
    if "<" in kind.__qualname__:
        raise NotTriedError(f"{kind.__qualname__} is made in a function, where no other process finds it")
    histories = generate_histories("foreign", "", subject.effort.histories)
    digest = hashlib.sha256()
    for history in histories:
        digest.update(subject.write(history).body)
    payload = {
        "module": kind.__module__,
        "class": kind.__qualname__,
        "model": subject.adapter.model,
        "histories": [[write_message(message).decode() for message in history] for history in histories],
    }
    for number in range(1, subject.effort.processes + 1):
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "PYTHONPATH": os.pathsep.join(sys.path)}
        found = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=json.dumps(payload),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        same = found.stdout.strip() == digest.hexdigest()
        why = found.stderr.strip().splitlines()[-1:] or ["other bytes"]
        yield Trial(f"hash seed {number}", () if same else (why[0],))


@over_histories
def request_round_trips(subject: Subject, history: History) -> Iterator[str]:
    """Reading a request and writing it again gives the same request."""
    first = subject.write(history, subject.tools)
    read = subject.adapter.from_wire_request(first.body, subject.context())
    again = subject.adapter.to_wire(*read)
    if parse_body(again.body) != parse_body(first.body):
        yield f"{first.body!r:.600} became {again.body!r:.600}"


_INVALID_REQUESTS = (
    b"",
    b"garbage",
    b"[]",
    b"null",
    b"7",
    b"\xff\xfe",
    b'{"a":',
    b'{"messages": 7}',
)


def refuses_invalid_requests(subject: Subject) -> Iterator[Trial]:
    """Reading garbage as a request raises RequestError, never KeyError."""
    for body in _INVALID_REQUESTS:
        try:
            subject.adapter.from_wire_request(body, subject.context())
        except RequestError:
            yield Trial(repr(body))
        except Exception as error:
            yield Trial(repr(body), (f"{type(error).__name__}: {error}",))
        else:  # an empty conversation may be valid if the wire keeps the history elsewhere
            is_object = body.startswith(b"{")
            yield Trial(repr(body), () if is_object else ("it was read as a request",))


_SINGLE_FIELDS: tuple[tuple[str, Any], ...] = (
    ("max_output_tokens", 1234),
    ("temperature", 0.25),
    ("top_p", 0.5),
    ("top_k", 17),
    ("frequency_penalty", 0.75),
    ("presence_penalty", -0.5),
    ("seed", 4711),
    ("stop_sequences", ("STOP",)),
)
OPTIONS: tuple[tuple[str, Any], ...] = (
    *_SINGLE_FIELDS,
    ("tool_choice", "required"),
    ("tool_choice", NamedTool("look_up")),
    ("parallel_tool_calls", False),
    ("output_schema", SCHEMA),
    ("effort", "high"),
    ("thinking", True),
    ("thinking_budget", 2048),
    ("prompt_cache", "1h"),
    ("service_tier", "standard"),
    ("verbosity", "low"),
    ("reasoning_summary", "detailed"),
    ("user", "user-1"),
    ("metadata", {"team": "blue"}),
    ("safety", "strict"),
    ("logprobs", 2),
    ("server_state", "conv_1"),
    ("background", True),
    ("n", 2),
    ("num_ctx", 4096),
    ("keep_alive", "10m"),
)
"""Each option with a value to try."""
_ALTERNATIVE_OPTIONS = {"thinking": "effort", "effort": "thinking"}
_ONLY_WITH_TOOLS = ("tool_choice", "parallel_tool_calls")


_READ_BACK: tuple[tuple[str, Any], ...] = (
    *_SINGLE_FIELDS,
    ("tool_choice", "auto"),
    ("tool_choice", "required"),
    ("tool_choice", "none"),
    ("tool_choice", NamedTool("look_up")),
    ("parallel_tool_calls", False),
    ("parallel_tool_calls", True),
)


def reports_unsent_options(subject: Subject) -> Iterator[Trial]:
    """Every option is in the request, or is a loss of the kind `option` whose reason begins with its name."""
    for name, value in OPTIONS:
        tools = subject.tools if name != "output_schema" else []
        if name in _ONLY_WITH_TOOLS and not tools:
            continue
        plain = subject.write([Message.user("Hi")], tools)
        request = subject.write([Message.user("Hi")], tools, **{name: value})
        lost = is_option_lost(request.losses, name, _ALTERNATIVE_OPTIONS.get(name, name))
        sent = (request.body, request.path, dict(request.headers)) != (plain.body, plain.path, dict(plain.headers))
        fault = f"{value!r} is neither in the request nor named as lost"
        yield Trial(name, () if lost or sent else (fault,), "named as lost" if lost else "asked for")


def options_come_back(subject: Subject) -> Iterator[Trial]:
    """An option that is sent without a loss is read back with its value, if the adapter reads it at all."""
    for name, value in _READ_BACK:
        if subject.tools or name not in _ONLY_WITH_TOOLS:
            yield from _comes_back(subject, name, value, None)


def _comes_back(subject: Subject, name: str, value: Any, *others: Any) -> Iterator[Trial]:
    """Try an option that is sent: it is read back with its value, or as one of the others."""
    request = subject.write([Message.user("Hi")], subject.tools, **{name: value})
    if not is_option_lost(request.losses, name):
        back = getattr(subject.read(request).options, name)
        fault = f"{value!r} came back as {back!r}"
        yield Trial(f"{name} {value!r}", () if back in (value, *others) else (fault,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewerOptions(AdapterOptions):
    """The options of a version to come. No adapter can know ``kit_option``."""

    kit_option: float | None = None


def reports_unknown_options(subject: Subject) -> Iterator[Trial]:
    """An option that a later version adds is a loss of the kind `option` that begins with its name."""
    named = {}
    for value in (0.5, None):
        options = _NewerOptions(kit_option=value, context=subject.context())
        named[value] = is_option_lost(subject.adapter.to_wire([Message.user("Hi")], [], options).losses, "kit_option")
    fault = "it is neither sent nor named as lost: take the options from `RequestBuilder.used`, or use `UsedOptions`"
    yield Trial("an option that is set", () if named[0.5] else (fault,), "named as lost")
    yield Trial("an option that is not set", ("it is named as lost",) if named[None] else ())


def sends_no_default_options(subject: Subject) -> Iterator[Trial]:
    """Without options nothing is lost, and a request gives back exactly the options that were written."""
    request = subject.write([Message.user("Hi")], [])
    lost = tuple(loss.reason for loss in request.losses)
    yield Trial("no options", tuple(f"lost: {reason}" for reason in lost))
    for name, value in _SINGLE_FIELDS:
        yield from _comes_back(subject, name, value)


def passes_extra_and_headers(subject: Subject) -> Iterator[Trial]:
    """Fields in ``extra`` for this provider are merged into the body, those for others are not; headers are sent."""
    name = subject.provider
    request = subject.write([Message.user("Hi")], [], extra={name: {"kit_field": 7}}, headers={name: {"x-kit": "1"}})
    foreign_headers = {"another-provider": {"x-kit": "1"}}
    other = subject.write(
        [Message.user("Hi")], [], extra={"another-provider": {"kit_field": 7}}, headers=foreign_headers
    )
    body, foreign = parse_body(request.body), parse_body(other.body)
    if not isinstance(body, dict):
        raise NotTriedError("the body is not a JSON object")
    faults = [] if body.get("kit_field") == 7 else ["a field of the caller's own is not in the body"]
    faults += [] if dict(request.headers).get("x-kit") == "1" else ["a header of the caller's own is not sent"]
    faults += ["a field for another provider is in the body"] if "kit_field" in foreign else []
    faults += ["a header for another provider is sent"] if "x-kit" in other.headers else []
    yield Trial("extra and headers", tuple(faults))


@over_histories
def never_loses_critical_content(subject: Subject, history: History) -> Iterator[str]:
    """Losing content that is marked critical raises CriticalLossError; other critical content is sent."""
    from dragoman.adapter.errors import CriticalLossError

    lost_ids = {loss.message_id for loss in subject.write(history).losses if loss.severity == "warning"} - {""}
    marked = [
        message.model_copy(update={"metadata": message.metadata.model_copy(update={"critical": True})})
        for message in history
    ]
    try:
        subject.write(marked)
    except CriticalLossError:
        if not lost_ids:
            yield "refused, although nothing would be lost"
    except DragomanError as error:
        yield f"{type(error).__name__}: {error}"
    else:
        if lost_ids:
            yield "sent, although critical content is lost"
