"""The result of a history on a wire: refused by which rule, or accepted, and what was lost on the way."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tests.benchmarks.hard_histories.histories import Call, History
from tests.benchmarks.hard_histories.wires import Group, body_text, groups
from tests.conformance.validators.requests import VALIDATORS

_VALIDATOR = {
    "anthropic": "anthropic",
    "responses": "openai",
    "chat": "openai-chat",
    "gemini": "google-vertex",
    "mistral": "mistral",
    "bedrock": "bedrock",
}
"""Google's without the signature of calls: that is required in the current turn only, which has none here."""

_POLICY = ("a thought of foreign origin", "thinking of foreign origin", "the item reasoning of foreign origin")
"""Faults that are our own caution if thinking is sent without its signature: the wire's types allow it."""

_SILENT = "**silently**"


class Kind(Enum):
    """From best to worst. ``SILENT``: accepted, but something was lost or changed without a report."""

    ACCEPTED = auto()
    SILENT = auto()
    REJECTED = auto()
    RAISES = auto()


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """The result of one history at one target; ``text`` is the table's cell."""

    kind: Kind
    text: str


def judge(case: dict[str, Any], history: History) -> CaseVerdict:
    body, target = case["body"], case["target"]
    if body is None:
        return CaseVerdict(Kind.RAISES, f"raises {_short(case['error'])}")
    faults = [fault for fault in _faults(target, body) if not _is_policy(fault, body, history)]
    if faults:
        return CaseVerdict(Kind.REJECTED, f"**rejected**: {_short(faults[0])}")
    notes = [*_unlinked_calls(case, history), *_thinking(case, history), *_texts(case, history)]
    kind = Kind.SILENT if any(note.endswith(_SILENT) for note in notes) else Kind.ACCEPTED
    return CaseVerdict(kind, "; ".join(["accepted", *notes]))


def _faults(target: str, body: dict[str, Any]) -> list[str]:
    return list(VALIDATORS[_VALIDATOR[target]](body, foreign=True))


def _is_policy(fault: str, body: dict[str, Any], history: History) -> bool:
    steps = [step for turn in history.turns for step in turn.steps]
    return fault in _POLICY and not any(step.signature and step.signature in body_text(body) for step in steps)


def _unlinked_calls(case: dict[str, Any], history: History) -> list[str]:
    """How many calls are not linked to their own result."""
    found = groups(case["target"], case["body"])
    calls = [call for turn in history.turns for step in turn.steps for call in step.calls]
    apart = sum(not any(_is_linked(call, group) for group in found) for call in calls)
    if not apart:
        return []
    return [f"{apart} of {len(calls)} calls apart from their result, {_report_of(case, 'tool')}"]


def _is_linked(call: Call, group: Group) -> bool:
    """Whether the group links the call to its own result, and to no other: by id, or without ids by name and order."""
    for index, (call_id, name, value) in enumerate(group.calls):
        if (name, value) != (call.name, call.input):
            continue
        if call_id is None:
            place = sum(other[1] == name for other in group.calls[:index])
            answers = [text for _, answered, text in group.results if answered == name]
            return call.result in answers[place : place + 1][0] if len(answers) > place else False
        if sum(other[0] == call_id for other in group.calls) > 1:
            return False
        texts = [text for answered, _, text in group.results if answered == call_id]
        return len(texts) == 1 and call.result in texts[0]
    return False


def _thinking(case: dict[str, Any], history: History) -> list[str]:
    """Where the thinking went, and whether the library reported it."""
    thoughts = [step.thinking for turn in history.turns for step in turn.steps if step.thinking]
    if not thoughts:
        return []
    report = _report_of(case, "thinking|reasoning")
    if not all(passage in body_text(case["body"]) for passage in thoughts):
        return [f"thinking left out, {report}"]
    own = any(fault in _POLICY for fault in _faults(case["target"], case["body"]))
    return [f"thinking sent as {'its own thinking' if own else 'text'}, {report}"]


def _texts(case: dict[str, Any], history: History) -> list[str]:
    wire = body_text(case["body"])
    texts = [turn.question for turn in history.turns]
    texts += [step.text for turn in history.turns for step in turn.steps]
    missing = [text for text in texts if text not in wire]
    return [f"{len(missing)} texts lost, {_report_of(case, 'text')}"] if missing else []


def _report_of(case: dict[str, Any], what: str) -> str:
    """How a loss is reported: by the list of losses, by a log record or warning about dropping it, or not."""
    if any(re.match(what, loss) for loss in case["losses"]):
        return "named"
    if any(re.search(rf"dropp?(ing|ed)\b.*({what})", line, re.IGNORECASE | re.DOTALL) for line in case["reported"]):
        return "logged"
    return _SILENT


def _short(fault: str) -> str:
    """One line that fits a table's cell: long ids are replaced by their length, lists of ids left out."""
    line = " ".join(fault.replace("|", "/").split())
    line = re.sub(r"'(\w{4})(\w{30,})'", lambda found: f"`{found[1]}…` of {len(found[0]) - 2} characters", line)
    line = re.sub(r"^the calls \[.*\] are answered by .*", "calls and results do not pair one to one", line)
    line = line.replace("of foreign origin", "of another provider").replace("in a a", "in an a")
    return line if len(line) <= 90 else line[:89] + "…"
