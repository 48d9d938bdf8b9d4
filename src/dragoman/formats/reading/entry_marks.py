"""The marks of formats: what only one format has, and what a format cannot have. They are data: ``marks.toml`` says how
its conditions and rules read. Here are the tests that conditions are made of, and conditions that need code.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dragoman.adapter.package_data import read_toml
from dragoman.formats.importers.traces import attributes_of, iter_spans

Entry = Mapping[str, Any]
Test = Callable[[Entry], bool]
_LANGCHAIN_TYPES = frozenset({"system", "human", "ai", "tool", "function", "chat", "remove"})
_MAX_SPANS = 50
_KINDS: Mapping[str, type] = {"text": str, "list": list, "object": Mapping, "null": type(None)}


@dataclass(frozen=True, slots=True)
class Rule:
    """What an entry must fit, or each object of the list ``of`` in it, and the reason to give if not. ``takes_one``: an
    object in place of the list is the only one of it.
    """

    fits: Test
    reason: str
    of: str
    takes_one: bool
    condition: Mapping[str, Any]

    def objection(self, entry: Entry) -> str | None:
        """Return the reason if the entry breaks the rule, or None."""
        if not self.of and self.fits(entry):
            return None
        takes_one = self.takes_one and isinstance(entry.get(self.of), Mapping)
        for each in [entry[self.of]] if takes_one else _objects(entry.get(self.of)) if self.of else [entry]:
            if not self.fits(each):
                shown = {name: repr(str(each.get(name))[:40]) for name in ("role", "type")}
                known = self.condition
                others = each.keys() - known["only"] if "only" in known else each.keys() & set(known.get("lacks", ()))
                return self.reason.format(**shown, field=repr(min(map(str, others), default="")))
        return None


@dataclass(frozen=True, slots=True)
class Mark:
    """A format by what only it has, and its rules for entries. ``is_step``: its object is not a whole conversation."""

    format: str
    fits: Test
    rules: Sequence[Rule]
    is_step: bool


def _objects(value: Any) -> Iterable[Entry]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else ()


def _all(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def fits(entry: Entry) -> bool:
        for test in tests:  # noqa: SIM110 - the loop takes half the time of all()
            if not test(entry):
                return False
        return True

    return fits


def _each(test: Callable[[Any], Callable[[Any], bool]]) -> Callable[[Mapping[str, Any]], Test]:
    """Return the test that the fields of a table pass, each with the value that the table has for it."""

    def test_of(name: str, fits: Callable[[Any], bool]) -> Test:
        return lambda entry: fits(entry.get(name))

    return lambda fields: _all([test_of(name, test(value)) for name, value in fields.items()])


def _no(test: Test) -> Test:
    return lambda entry: not test(entry)


def _is_kind(kinds: str) -> Callable[[Any], bool]:
    types = tuple(_KINDS[kind] for kind in kinds.split("|"))
    return lambda value: isinstance(value, types)


def _is_object_that(condition: Mapping[str, Any]) -> Callable[[Any], bool]:
    fits = _compile(condition)
    return lambda value: isinstance(value, Mapping) and fits(value)


def _has_part_that(condition: Mapping[str, Any]) -> Callable[[Any], bool]:
    fits = _compile(condition)
    return lambda value: any(map(fits, _objects(value)))


@cache
def named(name: str) -> Test:
    """Return the condition of this name."""
    return _NAMED.get(name) or _compile(_table()["conditions"][name])


_TESTS: Mapping[str, Callable[[Any], Test]] = {
    "has": lambda names: frozenset(names).issubset,
    "has_any": lambda names: _no(frozenset(names).isdisjoint),
    "lacks": lambda names: frozenset(names).isdisjoint,
    "filled": lambda names: lambda entry: any(entry.get(name) for name in names),
    "empty": lambda names: lambda entry: not any(entry.get(name) for name in names),
    "only": lambda names: frozenset(names).issuperset,
    "size": lambda count: lambda entry: len(entry) == count,
    "words": _each(lambda words: lambda value: value in words),
    "matches": _each(lambda expression: lambda value: re.search(expression, str(value)) is not None),
    "kinds": _each(_is_kind),
    "inside": _each(_is_object_that),
    "parts": _each(_has_part_that),
    "any": lambda conditions: _no(_all([_no(_compile(condition)) for condition in conditions])),
    "no": lambda condition: _no(_compile(condition)),
    "is": lambda name: named(name),
}


def _compile(condition: Mapping[str, Any]) -> Test:
    return _all([_TESTS[test](value) for test, value in condition.items()])


def _is_openinference(entry: Entry) -> bool:
    """Whether the entry is a span of OpenInference, without the messages of OpenTelemetry's conventions."""
    names = [str(name) for name in attributes_of(entry.get("attributes"))]
    marked = any(name.startswith(("llm.input_messages", "llm.output_messages", "openinference.")) for name in names)
    return marked and not any(name in ("gen_ai.input.messages", "gen_ai.output.messages") for name in names)


def _is_openinference_export(document: Entry) -> bool:
    if "attributes" in document:
        return _is_openinference(document)
    spans = (span for _, (span, _) in zip(range(_MAX_SPANS), iter_spans(document, "$"), strict=False))
    return any(map(_is_openinference, spans))


def _is_gen_ai_span(entry: Entry) -> bool:
    """Whether the entry is a span with attributes of OpenTelemetry's conventions."""
    attributes = entry.get("attributes")
    return isinstance(attributes, Mapping) and any(str(name).startswith("gen_ai.") for name in attributes)


def _is_gen_ai_export(document: Entry) -> bool:
    if any(name in document for name in ("resourceSpans", "resourceLogs")):
        return True
    return any(map(_is_gen_ai_span, [document, *_objects(document.get("spans"))][:_MAX_SPANS]))


def _is_langchain(entry: Entry) -> bool:
    if "lc" in entry:
        return True
    kind = str(entry.get("type")).removesuffix("Chunk")
    named = kind in _LANGCHAIN_TYPES or kind.removesuffix("Message").lower() in _LANGCHAIN_TYPES
    return named and ("data" in entry or "content" in entry) and ("role" not in entry or kind == "chat")


def _is_row(entry: Entry) -> bool:
    """Whether the entry is a whole conversation of a data set."""
    if "role" in entry or "contents" in entry:
        return False
    lists = (entry.get(name) for name in ("messages", "conversations", "prompt", "chosen", "conversation"))
    return any(
        isinstance(each, list) and each and all(isinstance(item, Mapping) and ("role" in item or "from" in item)
                                                for item in each)
        for each in lists
    )  # fmt: skip


def _is_umf(entry: Entry) -> bool:
    metadata = entry.get("metadata")
    if "role" not in entry or not isinstance(metadata, Mapping):
        return False
    return bool(metadata) and all(isinstance(value, str) for value in metadata.values())


_NAMED: Mapping[str, Test] = {
    "gen_ai_export": _is_gen_ai_export,
    "gen_ai_span": _is_gen_ai_span,
    "langchain": _is_langchain,
    "openinference": _is_openinference,
    "openinference_export": _is_openinference_export,
    "row": _is_row,
    "umf": _is_umf,
}


def _table() -> dict[str, Any]:
    return read_toml("dragoman.formats.reading", "marks.toml")


@cache
def rules_of(name: str) -> Sequence[Rule]:
    """Return the rules of this name."""
    return _rules(_table()["rules"][name])


def _rules(rows: Sequence[Any]) -> Sequence[Rule]:
    if isinstance(rows, str):
        return rules_of(rows)
    known = _table()["conditions"]
    return tuple(
        Rule(
            _compile(condition),
            reason,
            "".join(of).removesuffix("?"),
            "".join(of).endswith("?"),
            known.get(condition.get("is"), condition),
        )
        for condition, reason, *of in rows
    )


@cache
def marks_of(kind: str) -> tuple[Mark, ...]:
    """Return the marks of ``entries`` or of ``objects``, in the order in which they are tried: the first that fits, and
    to which no entry objects, decides.
    """
    return tuple(
        Mark(row["format"], _compile(row["mark"]), _rules(row.get("rules", ())), row.get("is_step", False))
        for row in _table()[kind]
    )
