"""Every set of capabilities in every view: `python -m tests.laws.policy.capabilities` tries all 32,768 sets.

In the sample each text is the path of its field, so a text that appears names the slot from which it leaked. Prints a
table; the exit status is 1 if something was seen that was not granted, or not seen that was.
"""

import copy
import itertools
import json
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message, Role
from dragoman.policy import Capability, Extensions, MessageView, TierViolation
from dragoman.policy.extensions import filter_extensions, merge_extensions
from dragoman.policy.slots import expand_capabilities
from tests.unit.canonical.extensions.samples import FULL, full
from tests.unit.policy.grants import ACCESSORS, grant_for, texts

ALL_TEXTS = texts(FULL)
CALL = ToolUseBlock(id="tu_1", name="execute_sql")
FORGERIES: tuple[dict[str, Any], ...] = (
    {"agent": {"session_id": "x"}}, {"request": {"request_id": "x"}}, {"http": {"headers": {"A": "x"}}},
    {"security": {"subject": {"id": "x", "type": "user"}}}, {"security": {"objects": {"execute_sql": {}}}},
    {"security": {"data": {"execute_sql": {}}}}, {"security": {"classification": "x"}}, {"delegation": {"depth": 7}},
    {"meta": {"scope": "x"}},
)  # fmt: skip


def view_over(extensions: Extensions) -> MessageView:
    return MessageView(CALL, Role.ASSISTANT, hook="tool_pre_invoke", extensions=extensions)


def _error_texts(shown: Extensions, granted: frozenset[Capability]) -> str:
    """The texts of errors when a plugin changes what it may not, or does something impossible."""
    texts: list[str] = []
    for forgery in FORGERIES:
        try:
            merge_extensions(full(), shown.model_copy(update=_valid(forgery)), granted, plugin="spy")
        except TierViolation as error:
            texts.append(f"{error} {error!r} {error.args} {error.__dict__} {error.__cause__} {error.__context__}")
    attempts: tuple[Callable[[], object], ...] = (
        lambda: setattr(shown, "agent", None),
        lambda: setattr(view_over(shown), "labels", None),
        lambda: shown.model_copy(update={"wrong": 1}),
        lambda: view_over(shown).headers.update(a="b"),
        lambda: Message.user("Hi").iter_views(extensions=shown).send(None),  # type: ignore[attr-defined]
    )
    for attempt in attempts:
        try:
            attempt()
        except (ValueError, TypeError, AttributeError) as error:
            texts.append(f"{error} {error!r} {error.args}")
    # The slot that a violation names is the plugin's own doing, not what is in it.
    return " ".join(texts).replace("security.classification", "").replace("security.subject.id", "")


@cache
def _forge(index: int) -> dict[str, Any]:
    made = Extensions.model_validate(FORGERIES[index])
    return {name: getattr(made, name) for name in made.model_fields_set}


def _valid(forgery: dict[str, Any]) -> dict[str, Any]:
    return _forge(FORGERIES.index(forgery))


WAYS: dict[str, Callable[[Extensions, frozenset[Capability]], str]] = {
    "repr and str": lambda shown, _: f"{shown!r} {shown!s} {view_over(shown)!r} {shown.__repr_args__()!r}",
    "__dict__": lambda shown, _: repr(shown.__dict__) + repr({**shown.__dict__, **(shown.__pydantic_extra__ or {})}),
    "dict and JSON": lambda shown, _: f"{shown.model_dump()} {shown.model_dump_json()} {dict(shown)}",
    "pickle": lambda shown, _: (pickle.dumps(shown) + pickle.dumps(view_over(shown))).decode("latin-1"),
    "copies": lambda shown, _: repr([copy.copy(shown), copy.deepcopy(shown), shown.model_copy(deep=True)]),
    "view to_dict": lambda shown, _: json.dumps(view_over(shown).to_dict()),
    "view to_opa_input": lambda shown, _: json.dumps(view_over(shown).to_opa_input()),
    "view, every attribute": lambda shown, _: _attributes(view_over(shown)),
    "error text": _error_texts,
}


def _attributes(view: MessageView) -> str:
    names = [name for name in dir(view) if not name.startswith("__") and not callable(getattr(view, name))]
    return " ".join(repr(getattr(view, name)) for name in names) + repr(view.__reduce__())


_FULL_VIEW, _BARE_VIEW = view_over(full()), view_over(Extensions())


def breaches(names: Iterable[Capability]) -> list[tuple[str, str]]:
    """In which view, and what was seen that was not granted or missing that was."""
    names = tuple(names)
    granted = expand_capabilities(names)
    shown = filter_extensions(full(), names)
    assert shown is not None
    allowed = {text for text in ALL_TEXTS if (grant := grant_for(text)) is None or grant in granted}
    found: list[tuple[str, str]] = []
    seen = texts(shown.model_dump(mode="json"))
    found += [("fields", text) for text in seen ^ allowed]
    hidden = ALL_TEXTS - allowed
    for way, look in WAYS.items():
        seen_text = look(shown, granted)
        found += [(way, text) for text in hidden if text in seen_text]
    return found + [("accessors", name) for name in _wrong_accessors(view_over(shown), granted)]


def _wrong_accessors(view: MessageView, granted: frozenset[Capability]) -> Iterator[str]:
    for name, capability in ACCESSORS.items():
        expected = getattr(_FULL_VIEW if capability in granted else _BARE_VIEW, name)
        value = getattr(view, name)
        if name == "subject" and expected is not None:
            if value is None or (value.id, value.type) != (expected.id, expected.type):
                yield name
        elif value != expected:
            yield name
    if (view.environment, view.request_id) != ("request.environment", "request.request_id"):
        yield "base"


def subsets() -> Iterator[tuple[Capability, ...]]:
    for size in range(len(Capability) + 1):
        yield from itertools.combinations(Capability, size)


def main() -> int:
    count, ledger = 0, Counter[str]()
    examples: list[str] = []
    for names in subsets():
        count += 1
        for way, text in breaches(names):
            ledger[way] += 1
            if len(examples) < 20:
                examples.append(f"breach: {way} shows or lacks {text} with {', '.join(names) or 'no capability'}")
    print("| way of looking | sets of capabilities | breaches |\n| --- | --- | --- |")
    for way in ("fields", "accessors", *WAYS):
        print(f"| {way} | {count:,} | {ledger[way]} |")
    print("\n".join(examples))
    return 1 if ledger else 0


if __name__ == "__main__":
    sys.exit(main())
