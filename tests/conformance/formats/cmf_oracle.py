"""Our views, filtering, merging and globs compared with those of the specification's reference implementation, cpex.

`python -m tests.conformance.formats.cmf_oracle` needs that package, in any environment whose site-packages are on
PYTHONPATH. It prints what was compared and how often it differed, then the intended differences, each with its heading
in docs/reference/cmf.md. The exit status is 1 if anything else differs, or if an intended difference is gone.
"""

import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Role
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy import Capability, TierViolation
from dragoman.policy.extensions import filter_extensions, merge_extensions
from tests.unit.canonical.extensions.samples import FULL
from tests.unit.canonical.message_view.test_view import SQL, block


def missing() -> str | None:
    """Return why nothing can be compared, or None."""
    return None if find_spec("cpex") else "cpex is not installed: pip install cpex==0.1.4, best somewhere else"


class _Reference:
    """cpex, imported on first use."""

    def __getattr__(self, name: str) -> Any:
        modules = ("cmf.message", "extensions.extensions", "extensions.tiers")
        return next(
            getattr(module, name)
            for module in (import_module(f"cpex.framework.{each}") for each in modules)
            if hasattr(module, name)
        )


cpex = _Reference()

RESOURCE = {
    "resource_request_id": "r1", "uri": "file:///a", "resource_type": "file", "name": "execute_sql",
    "mime_type": "text/plain", "annotations": {"a": 1}, "version": "2",
}  # fmt: skip
URL = {"kind": "url", "data": "https://example.org/a"}
CPEX_URL = {"type": "url", "data": "https://example.org/a"}
ARGUMENTS = {"q": "SELECT 1", "n": [1, {"a": None}]}

PAIRS: list[tuple[ContentBlock, dict[str, Any]]] = [
    (block("text", text="Hi", citations=[]), {"content_type": "text", "text": "Hi"}),
    (block("text", text="", citations=[]), {"content_type": "text", "text": ""}),
    (block("thinking", text="äh"), {"content_type": "thinking", "text": "äh"}),
    (
        block("tool_use", id="tu_1", name="execute_sql", input=ARGUMENTS),
        {"content_type": "tool_call", "content": {
            "tool_call_id": "tu_1", "name": "execute_sql", "arguments": ARGUMENTS, "namespace": "db-server"}},
    ),
    (
        block("tool_result", tool_use_id="tu_1", content="42 rows", is_error=True),
        {"content_type": "tool_result", "content": {
            "tool_call_id": "tu_1", "tool_name": "execute_sql", "content": "42 rows", "is_error": True}},
    ),
    (
        block("tool_result", tool_use_id="tu_1", content=[], is_error=False),
        {"content_type": "tool_result", "content": {"tool_call_id": "tu_1", "tool_name": "execute_sql"}},
    ),
    (
        block("prompt_request", name="execute_sql", server_id=None),
        {"content_type": "prompt_request", "content": {
            "prompt_request_id": "p1", "name": "execute_sql", "arguments": {"who": "you"}}},
    ),
    (
        block("prompt_result", messages=[], content="Hello.", is_error=False),
        {"content_type": "prompt_result", "content": {
            "prompt_request_id": "p1", "prompt_name": "greet", "content": "Hello."}},
    ),
    (
        block("resource", **{**RESOURCE, "description": None, "content": "äb", "size_bytes": 999}),
        {"content_type": "resource", "content": {**RESOURCE, "content": "äb", "size_bytes": 999}},
    ),
    (
        block("resource", **{**RESOURCE, "description": None, "content": None, "size_bytes": None, "blob": "aGVsbG8="}),
        {"content_type": "resource", "content": {**RESOURCE, "blob": b"hello"}},
    ),
    (
        block("resource_ref", name=None),
        {"content_type": "resource_ref", "content": {
            "resource_request_id": "r1", "uri": "file:///a", "resource_type": "file"}},
    ),
    *(
        (
            block(kind, **{"source": URL, "media_type": "a/b", **({"transcript": None} if kind == "audio" else {}),
                           **({"context": None} if kind == "document" else {})}),
            {"content_type": kind, "content": {**CPEX_URL, "media_type": "a/b"}},
        )
        for kind in ("image", "video", "audio", "document")
    ),
]  # fmt: skip

SLOTS: list[dict[str, Any]] = [
    {}, {name: slot for name, slot in FULL.items() if name != "agent"} | {"agent": {"turn": 0, "session_id": "s"}},
    {"http": {"headers": {"Cookie": "x"}}}, {"security": {"data": {"execute_sql": {"allowed_actions": []}}}},
]  # fmt: skip

NAMES = (
    "kind", "role", "hook", "content", "uri", "name", "action", "args", "mime_type", "size_bytes", "properties",
    "is_pre", "is_post", "is_tool", "is_prompt", "is_resource", "is_text", "is_media", "environment", "request_id",
    "roles", "permissions", "teams", "headers", "labels", "agent_input", "session_id", "conversation_id", "turn",
    "agent_id", "parent_agent_id",
)  # fmt: skip
PATTERNS = ("**", "*", "tool://*", "tool://**", "tool://db-server/*", "tool://db.server/*", "file:///*", "prompt*://**")

THEIR_CAPABILITIES = tuple(
    name
    for name in Capability
    if name not in (Capability.READ_OBJECTS, Capability.READ_DATA, Capability.DECLASSIFY_LABELS)
)
"""The reference has no others."""


def both(index: int, role: str, slots: dict[str, Any], hook: str | None = None) -> tuple[MessageView, Any]:
    """Two views of the same part."""
    part, theirs = PAIRS[index]
    called: CalledTool = SQL
    message = cpex.Message.model_validate({"role": role, "content": [theirs]})
    (their_view,) = message.iter_views(hook=hook, extensions=cpex.Extensions.model_validate(slots))
    ours = MessageView(part, Role(role), hook=hook, extensions=Extensions.model_validate(slots), tool=called)
    return ours, their_view


def views(counts: Counter[str]) -> Iterator[str]:
    """Differences of any part in any role, with and without context and content."""
    for index, role, slots, hook in itertools.product(range(len(PAIRS)), Role, SLOTS, (None, "llm_input")):
        ours, theirs = both(index, role, slots, hook)
        where = f"{ours.kind} of {role}"
        for name in NAMES:
            counts["attributes of views"] += 1
            if getattr(ours, name) != getattr(theirs, name) and (name, ours.is_media) != ("uri", True):
                yield f"{name}, {where}"
        if ours.is_media:  # the reference knows no address of media
            continue
        for pattern in PATTERNS:
            counts["patterns on URIs"] += 1
            if ours.matches_uri_pattern(pattern) != theirs.matches_uri_pattern(pattern):
                yield f"pattern {pattern}, {where}"
        for content, context in itertools.product((True, False), repeat=2):
            counts["to_dict, byte for byte"] += 1
            if json.dumps(ours.to_dict(content, context)) != json.dumps(theirs.to_dict(content, context)):
                yield f"to_dict, {where}"
        counts["to_opa_input, byte for byte"] += 1
        if json.dumps(ours.to_opa_input()) != json.dumps(theirs.to_opa_input()):
            yield f"to_opa_input, {where}"
        counts["repr of views"] += 1
        if repr(ours) != repr(theirs):
            yield f"repr, {where}"


def _plain(value: Any) -> Any:
    """JSON without the order of sets."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


SHARED = {name: slot for name, slot in FULL.items() if name != "agent"} | {
    "agent": {"session_id": "s", "turn": 3, "conversation": {"summary": "so far", "topics": ["a"]}}
}
"""Slots that both have: histories are of messages, which differ."""


def _as_theirs(extensions: Extensions | None) -> Any:
    """Our object as the reference's model writes it."""
    assert extensions is not None
    return _plain(cpex.Extensions.model_validate(extensions.model_dump(exclude_none=True)).model_dump())


def filtering(counts: Counter[str], every: int = 1) -> Iterator[str]:
    """Differences in what a plugin sees, with every set of the reference's capabilities and, in ours, its two more."""
    ours, theirs = Extensions.model_validate(SHARED), cpex.Extensions.model_validate(SHARED)
    sets = (names for size in range(13) for names in itertools.combinations(THEIR_CAPABILITIES, size))
    for names in itertools.islice(sets, 0, None, every):
        counts["sets of capabilities"] += 1
        shown = filter_extensions(ours, [*names, Capability.READ_OBJECTS, Capability.READ_DATA])
        expected = cpex.filter_extensions(theirs, frozenset(map(str, names)))
        if _as_theirs(shown) != _plain(expected.model_dump()):
            yield f"filtering with {', '.join(names)}"


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {}, "custom": {"custom": {"b": 1}}, "headers": {"http": {"headers": {"A": "b"}}},
    "more labels": {"security": {**SHARED["security"], "labels": [*SHARED["security"]["labels"], "new"]}},
    "fewer labels": {"security": {**SHARED["security"], "labels": []}},
    "a longer chain": {"delegation": {**SHARED["delegation"], "chain": SHARED["delegation"]["chain"] * 2}},
    "a shorter chain": {"delegation": {**SHARED["delegation"], "chain": []}},
    "another chain": {"delegation": {**SHARED["delegation"], "chain": [
        {**SHARED["delegation"]["chain"][0], "subject_id": "x"}]}},
}  # fmt: skip


def merging(counts: Counter[str]) -> Iterator[str]:
    """Whether a change by a plugin with every capability is accepted, and which part of it."""
    ours, theirs = Extensions.model_validate(SHARED), cpex.Extensions.model_validate(SHARED)
    for name, change in CHANGES.items():
        counts["changes merged"] += 1
        ours_merged = _outcome(_merge_ours, ours, change)
        theirs_merged = _outcome(_merge_theirs, theirs, change)
        if (ours_merged is None) is not (theirs_merged is None):
            yield f"merging {name}: refused by {'us' if ours_merged is None else 'the reference'} alone"
            continue
        if ours_merged is None or name == "a longer chain":  # we compute what follows from a chain
            continue
        if _as_theirs(ours_merged) != _plain(theirs_merged.model_dump()):
            yield f"merging {name}"


def _merge_ours(ours: Extensions, change: dict[str, Any], capabilities: Iterable[str] = tuple(Capability)) -> Any:
    return merge_extensions(ours, Extensions.model_validate(SHARED | change), capabilities)


def _merge_theirs(theirs: Any, change: dict[str, Any]) -> Any:
    changed = cpex.Extensions.model_validate(SHARED | change)
    return cpex.merge_extensions(theirs, changed, frozenset(map(str, Capability)), "p")


def _outcome(attempt: Callable[..., Any], *given: Any) -> Any:
    """The result; None if it is refused."""
    try:
        return attempt(*given)
    except (TierViolation, ValueError):
        return None
    except Exception as error:
        if type(error).__name__ == "TierViolationError":
            return None
        raise


def globs(counts: Counter[str], pairs: int = 5_000) -> Iterator[str]:
    """Patterns on names of tools, without newlines, where a difference is intended."""
    chance = random.Random(11)
    for _ in range(pairs):
        counts["random patterns"] += 1
        name = "".join(chance.choices("ab/.(+ä", k=chance.randint(1, 6)))
        pattern = "tool://_/" + "".join(
            chance.choices("ab/.(+ä*", weights=(1, 1, 1, 1, 1, 1, 1, 6), k=chance.randrange(6))
        )
        if "***" in pattern:
            continue  # there three stars are two and one; here they equal two
        ours = MessageView(block("tool_use", name=name, input={}), Role.USER).matches_uri_pattern(pattern)
        call = {"content_type": "tool_call", "content": {"tool_call_id": "i", "name": name}}
        (theirs,) = cpex.Message.model_validate({"role": "user", "content": [call]}).iter_views()
        if ours != theirs.matches_uri_pattern(pattern):
            yield f"{pattern} on {name}"


class Difference(NamedTuple):
    """An intended difference: ``shown`` returns ours and theirs; ``section`` is a heading of docs/reference/cmf.md."""

    section: str
    what: str
    shown: Callable[[], tuple[Any, Any]]


def _by_uri() -> tuple[Any, Any]:
    ours, theirs = both(10, "user", {"security": {"objects": {"file:///a": {"managed_by": "tool"}}}})
    return ours.object is not None, theirs.object is not None


def _headers() -> tuple[Any, Any]:
    ours, theirs = both(0, "user", {"http": {"headers": {"Proxy-Authorization": "x", "A": "b"}}})
    return ours.to_dict()["extensions"]["headers"], theirs.to_dict()["extensions"]["headers"]


def _call(name: str, arguments: dict[str, Any]) -> tuple[MessageView, Any]:
    call = {"content_type": "tool_call", "content": {"tool_call_id": "i", "name": name, "arguments": arguments}}
    (theirs,) = cpex.Message.model_validate({"role": "user", "content": [call]}).iter_views()
    return MessageView(block("tool_use", id="i", name=name, input=arguments), Role.USER), theirs


def _newline() -> tuple[Any, Any]:
    ours, theirs = _call("f\n", {})
    return ours.matches_uri_pattern("tool://_/f"), theirs.matches_uri_pattern("tool://_/f")


def _alphabet() -> tuple[Any, Any]:
    ours, theirs = _call("f", {"a": "ü"})
    return ours.content, theirs.content


def _alias() -> tuple[Any, Any]:
    ours, theirs = both(0, "user", {})
    return ours.text, getattr(theirs, "text", "AttributeError")


def _arguments() -> tuple[Any, Any]:
    ours, theirs = _call("f", {"a": [1]})
    return type(ours.args).__name__, type(theirs.args).__name__


def _unseen_policies() -> tuple[Any, Any]:
    ours = filter_extensions(Extensions.model_validate(SHARED), [])
    theirs = cpex.filter_extensions(cpex.Extensions.model_validate(SHARED), frozenset())
    assert ours is not None
    assert ours.security is not None
    return len(ours.security.objects), len(theirs.security.objects)


def _silence() -> tuple[Any, Any]:
    changed = {"http": {"headers": {"A": "b"}}}
    ours = _outcome(merge_extensions, Extensions(), Extensions.model_validate(changed), [])
    theirs = cpex.merge_extensions(cpex.Extensions(), cpex.Extensions.model_validate(changed), frozenset(), "p")
    return "TierViolation" if ours is None else "merged", "dropped" if theirs.http is None else "merged"


def _words() -> tuple[Any, Any]:
    profile = {"security": {"objects": {"f": {"managed_by": "nobody"}}}}
    taken = [_outcome(kind.model_validate, profile) is not None for kind in (Extensions, cpex.Extensions)]
    return "taken" if taken[0] else "refused", "taken" if taken[1] else "refused"


DIFFERENCES = (
    Difference("capabilities", "policies seen without a capability", _unseen_policies),
    Difference("extensions", "a word outside of a closed list", _words),
    Difference("merging", "a change without the capability", _silence),
    Difference("attributes", "text beside content", _alias),
    Difference("attributes", "arguments as JSON, in letters beyond ASCII", _alphabet),
    Difference("accessors", "an object profile found by its URI", _by_uri),
    Difference("globs", "f matches a name that ends with a newline", _newline),
    Difference("view-as-json", "headers that are written", _headers),
    Difference("review-findings", "arguments that cannot change", _arguments),
)


def main() -> int:
    why = missing()
    if why:
        print(why)
        return 2
    counts: Counter[str] = Counter()
    wrong = [*views(counts), *filtering(counts), *merging(counts), *globs(counts)]
    print("| compared | times |\n| --- | --- |")
    print("\n".join(f"| {what} | {count:,} |" for what, count in counts.items()))
    print(f"\n{len(wrong)} differences that are not meant")
    print("\n".join(f"differs: {each}" for each in wrong[:20]))
    print("| section | what differs on purpose | ours | the reference's |\n| --- | --- | --- | --- |")
    gone = 0
    for each in DIFFERENCES:
        ours, theirs = each.shown()
        gone += ours == theirs
        print(f"| {each.section} | {each.what} | {ours!r} | {theirs!r} |")
    return 1 if wrong or gone else 0


if __name__ == "__main__":
    sys.exit(main())
