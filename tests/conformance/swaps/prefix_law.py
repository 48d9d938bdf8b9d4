"""Checks the prefix law on every wire: a request begins with the one before it (docs/reference/tool-ids.md#prefix-law).

Two requests of one conversation for one target are compared, for a prefix of it and for a longer one. The law: system
prompt, tools and tool choice are the same, and the items of the shorter one are the first items of the longer one, as
the same JSON. It applies to prefixes that contain content and after which no answer of a tool is still missing: while
answers come in, the text about open calls, and what follows the answers, is at the very end and changes. The
assistant's neighbouring messages are one turn, which the answers follow.

Only this may differ:

- The last item of the shorter request may hold more content in the longer one, after what it held. Wires whose roles
must alternate, and those on which tools' answers share a message with the user's next text, put neighbours of one role
into one item; a single text may have been a string there and is the first text of a list now.

- The user's text that asks a model to continue where it cannot be last, `CONTINUE_TEXT`, is replaced by the real one.

- So does the mark ``prefix`` on an assistant's message that the model has to continue, on the wires that have one.

- Converse refuses a history with calls of tools that the request lacks. If none are offered, they are named, and the
list of their names grows with the calls; if calls are forbidden, which Converse cannot express, the tools come in with
the first call.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman import Message, Role

CONTINUE_TEXT = "Continue."
"""The user message that is added where a model cannot be last: no history here holds it."""

_LISTS = ("messages", "input", "contents")
_PRELUDE = ("system", "systemInstruction", "system_instruction", "instructions", "tools", "toolConfig")
_INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)

_API = "api"
"""The key for the API of a request, which the name of its list identifies."""

RequestParts = tuple[dict[str, Any], list[Any]]


def split_request(body: bytes) -> RequestParts:
    """The fields before the conversation, and its items; the body contains the items byte for byte."""
    whole = json.loads(body)
    (listed,) = (whole[name] for name in _LISTS if name in whole)
    items = listed if isinstance(listed, list) else [listed]
    run = json.dumps(items, separators=(",", ":"), ensure_ascii=False).encode()
    assert run in body or not isinstance(listed, list)
    return {_API: next(name for name in _LISTS if name in whole), **{name: whole.get(name) for name in _PRELUDE}}, items


def prefixes(history: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The prefixes of a history that the law applies to, itself included."""
    for end in range(1, len(history) + 1):
        asks = any(message.role not in _INSTRUCTING for message in history[:end])
        follows = history[end].role if end < len(history) else None
        goes_on = follows is Role.TOOL or follows is history[end - 1].role is Role.ASSISTANT
        if asks and not goes_on:
            yield history[:end]


def prefix_fault(shorter: RequestParts, longer: RequestParts) -> str | None:
    """How two requests break the law; None if they do not."""
    (prelude, old), (later, new) = shorter, longer
    if prelude.get(_API) != later.get(_API):
        return None
    if _without_named_tools(prelude, later) != later:
        return f"what precedes the conversation changed: {prelude} became {later}"
    kept = next((index for index, (one, two) in enumerate(zip(old, new, strict=False)) if one != two), len(new))
    gone = old[kept:]
    if gone and kept < len(new) and _extends(gone[0], new[kept]):
        gone = gone[1:]
    if all(CONTINUE_TEXT in json.dumps(item) for item in gone):
        return None
    return f"{old[kept:]} became {new[kept:]}"


def _without_named_tools(prelude: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """The fields before the conversation. Tools that the later request only names are added."""
    before, after = ((each["toolConfig"] or {}).get("tools", []) for each in (prelude, later))
    added = after[len(before) :]
    only_named = not before or all(tool.get("toolSpec", {}).keys() == {"name", "inputSchema"} for tool in added)
    if added and only_named and before == after[: len(before)]:
        return {**prelude, "toolConfig": later["toolConfig"]}
    return prelude


def _extends(old: Any, new: Any) -> bool:
    """Whether an item is the same one with more content at its end."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return bool(old == new)
    if "prefix" in old:
        old = {name: value for name, value in old.items() if name != "prefix"}
    for name in ("content", "parts"):
        if name in old and name in new:
            before, after = (value if isinstance(value, list) else [value] for value in (old[name], new[name]))
            before = [] if before == [""] else before
            texts = [{"type": "text", "text": each} if isinstance(each, str) else each for each in before]
            grown = after[: len(before)] in (before, texts)
            return grown and {**old, name: None} == {**{key: new.get(key) for key in old}, name: None}
    return bool(old == new)
