"""What the model in this process accepts as a prompt: the body that the local adapter documents."""

from collections.abc import Iterator
from typing import Any

_ROLES = {
    "system": {"text"},
    "user": {"text"},
    "assistant": {"text", "call"},
    "tool": {"result"},
}


def faults(body: dict[str, Any], *, foreign: bool) -> Iterator[str]:
    """All faults of a body. Nothing is signed or encrypted on this wire, so nothing can be foreign."""
    if not body["messages"]:
        yield "messages is empty"
    waiting: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        role = message["role"]
        if role not in _ROLES:
            yield f"no role {role}"
            continue
        if role != "tool" and waiting:
            yield f"the calls {waiting} have no answer before a {role} message"
            waiting = []
        for part in message["content"]:
            if part["type"] not in _ROLES[role]:
                yield f"{part['type']} in a {role} message"
            elif part["type"] == "call":
                yield from (f"the id {part['id']} occurs twice" for _ in range(part["id"] in seen))
                seen.add(part["id"])
                waiting.append(part["id"])
            elif part["type"] == "result":
                yield from (f"a {inner['type']} in a result" for inner in part["content"] if inner["type"] != "text")
                if part["id"] in waiting:
                    waiting.remove(part["id"])
                else:
                    yield f"the result of {part['id']} answers none of {waiting}"
    if waiting:
        yield f"the calls {waiting} have no answer"
