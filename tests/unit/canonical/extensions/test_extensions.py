"""Extensions: closed lists, rejected values, immutability. Source: docs/reference/cmf.md#extensions."""

import copy
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.extensions import AgentExtension, ConversationContext, Extensions
from dragoman.canonical.extensions.security import DataPolicy, SecurityExtension, SubjectExtension, SubjectType
from dragoman.canonical.extensions.slots import DelegationExtension, DelegationHop, HttpExtension
from dragoman.canonical.message import Message
from dragoman.policy import extensions
from tests.unit.canonical.extensions.samples import FULL, HOP, full


def test_the_sample_fills_every_field() -> None:
    """Every model is in it."""
    found = models_in(full())
    for model in found:
        for name, field in type(model).model_fields.items():
            if type(model) is not Message:
                assert getattr(model, name) != field.get_default(call_default_factory=True), (type(model), name)
    models = {name for name in extensions.__all__ if hasattr(getattr(extensions, name), "model_fields")}
    assert {type(model).__name__ for model in found} == models


def models_in(value: Any) -> list[FrozenModel]:
    """The value and all models in it; a message counts as one."""
    if isinstance(value, Message):
        return []
    if isinstance(value, FrozenModel):
        return [value, *(each for name in type(value).model_fields for each in models_in(getattr(value, name)))]
    if isinstance(value, dict):
        return [each for item in value.values() for each in models_in(item)]
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in models_in(item)]
    return []


def put(path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(FULL)
    *way, last = path.split(".")
    node: Any = changed
    for step in way:
        node = node[int(step)] if isinstance(node, list) else node[step]
    node[last] = value
    return changed


CLOSED = {
    "security.subject.type": ["user", "agent", "service", "system"],
    "security.objects.execute_sql.managed_by": ["host", "tool", "both"],
    "security.objects.execute_sql.trust_domain": ["internal", "external", "privileged"],
    "security.data.execute_sql.retention.policy": ["session", "transient", "persistent", "none"],
    "completion.stop_reason": ["end", "return", "call", "max_tokens", "stop_sequence"],
    "delegation.chain.0.subject_type": ["user", "agent", "service", "system"],
}


@pytest.mark.parametrize("path", CLOSED)
def test_closed_lists_accept_only_their_words(path: str) -> None:
    for word in CLOSED[path]:
        Extensions.model_validate(put(path, word))
    for word in ("other", "", CLOSED[path][0].upper()):
        with pytest.raises(ValidationError):
            Extensions.model_validate(put(path, word))


@pytest.mark.parametrize("slot", [None, *(name for name in FULL if name != "custom")])
def test_a_misspelt_field_is_refused(slot: str | None) -> None:
    """Policy data must not vanish because of a letter."""
    with pytest.raises(ValidationError, match="Extra inputs"):
        Extensions.model_validate(put("wrong" if slot is None else f"{slot}.wrong", {"a": 1}))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("agent.turn", -1), ("completion.latency_ms", -1), ("delegation.age_seconds", float("nan")),
        ("custom", {"a": float("nan")}), ("custom", {"a": object()}), ("http.headers", {"a": 1}),
        ("http.headers", {"a": "\ud800"}), ("security.labels", "PII"), ("llm.capabilities", "vision"),
        ("delegation.chain.0.timestamp", "2026-11-21T08:00:00"),
    ],
)  # fmt: skip
def test_unsafe_values_are_refused(path: str, value: Any) -> None:
    """Negative counts, NaN, surrogates, one word instead of several, a time without a zone."""
    with pytest.raises(ValidationError):
        Extensions.model_validate(put(path, value))


def test_a_conversation_window_holds_at_most_a_hundred_messages() -> None:
    message = Message.user("Hello.", session_id="s")
    assert len(ConversationContext(history=[message] * 100).history) == 100
    with pytest.raises(ValidationError, match="at most 100"):
        ConversationContext(history=[message] * 101)


def test_extensions_survive_json_pickle_and_copies() -> None:
    everything = full()
    for again in (
        Extensions.model_validate_json(everything.model_dump_json()),
        Extensions.model_validate(everything.model_dump()),
        pickle.loads(pickle.dumps(everything)),
        copy.deepcopy(everything),
        everything.model_copy(update={"meta": everything.meta}),
    ):
        assert again == everything
        assert hash(again) == hash(everything)
    assert Extensions() != everything


@pytest.mark.exhaustive
def test_extensions_as_json_are_the_same_in_every_process() -> None:
    """Sets have no order, so JSON sorts them."""
    program = (
        "from dragoman.policy import SecurityExtension as S;"
        "print(S(labels=frozenset(map(str, range(40)))).model_dump_json())"
    )
    written = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(written) == 1
    assert SecurityExtension(labels=frozenset({"b", "a"})).model_dump(mode="json")["labels"] == ["a", "b"]


def test_no_field_can_be_set_or_deleted() -> None:
    for model in models_in(full()):
        for field in type(model).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(model, field, None)
            with pytest.raises(ValidationError, match="frozen"):
                delattr(model, field)


def containers(value: Any) -> list[Any]:
    """Each dict, list, tuple and set inside, except in ``custom``."""
    if isinstance(value, Message):
        return []
    if isinstance(value, FrozenModel):
        names = [name for name in type(value).model_fields if name != "custom"]
        return [each for name in names for each in containers(getattr(value, name))]
    if isinstance(value, dict):
        return [value, *(each for item in value.values() for each in containers(item))]
    if isinstance(value, (list, tuple)):
        return [value, *(each for item in value for each in containers(item))]
    return [value] if isinstance(value, (set, frozenset)) else []


def test_no_container_can_be_changed() -> None:
    found = containers(full())
    assert {type(each).__name__ for each in found} == {"FrozenDict", "FrozenList", "tuple", "frozenset"}
    for each in found:
        if isinstance(each, dict):
            with pytest.raises(TypeError):
                each["new"] = 1
        elif isinstance(each, list):
            with pytest.raises(TypeError):
                each.append(1)


def test_extensions_share_nothing_with_their_source() -> None:
    """Later changes of the caller's dicts have no effect."""
    given = copy.deepcopy(FULL)
    built = Extensions.model_validate(given)
    given["http"]["headers"]["X-Trace"] = "changed"
    given["mcp"]["tool"]["annotations"]["readOnlyHint"]["of"] = "changed"
    given["custom"]["a"]["b"].append("changed")
    assert built == full()


def test_repr_shows_no_secret() -> None:
    """Claims and the values of secret headers are hidden; other headers are shown."""
    printed = repr(full()) + str(full()) + repr(full().http) + str(full().http)
    assert "http.headers.trace" in printed
    assert "http.headers.authorization" not in printed
    assert "security.subject.claims" not in printed


@pytest.mark.parametrize(
    ("allowed", "denied", "permitted"),
    [
        (None, [], {"export", "read"}), (None, ["export"], {"read"}), ([], [], set()), (["read"], [], {"read"}),
        (["read", "export"], ["export"], {"read"}),
    ],
)  # fmt: skip
def test_data_policies_permit_and_deny_actions(
    allowed: list[str] | None, denied: list[str], permitted: set[str]
) -> None:
    """Denied wins; without a list of allowed actions all are allowed, with an empty one none."""
    policy = DataPolicy(allowed_actions=allowed, denied_actions=denied)
    assert {action for action in ("export", "read") if policy.permits(action)} == permitted


def test_a_delegation_chain_fills_the_other_fields() -> None:
    """Explicit values stay."""
    start = datetime(2026, 11, 21, 8, tzinfo=UTC)
    hops = [
        DelegationHop(subject_id=name, subject_type=SubjectType.AGENT, timestamp=start + timedelta(seconds=30 * place))
        for place, name in enumerate(("alice", "bot", "helper"))
    ]
    grown = DelegationExtension()
    for hop in hops:
        grown = grown.with_new_hop(hop)
    given = DelegationExtension(chain=tuple(hops))
    assert given == grown == DelegationExtension.model_validate_json(grown.model_dump_json())
    assert (given.depth, given.origin_subject_id, given.actor_subject_id) == (3, "alice", "helper")
    assert (given.delegated, given.age_seconds) == (True, 60.0)
    rooted = DelegationExtension(chain=tuple(hops), origin_subject_id="root")
    assert rooted.with_new_hop(hops[0]).origin_subject_id == rooted.origin_subject_id == "root"


def test_a_delegation_chain_grows_by_hops() -> None:
    """Each hop makes a new chain; the origin stays, the actor is the last one, the age counts from the first hop."""
    start = datetime(2026, 11, 21, 8, tzinfo=UTC)
    first = DelegationHop(subject_id="alice", subject_type=SubjectType.USER, timestamp=start)
    second = DelegationHop(subject_id="bot", subject_type=SubjectType.AGENT, timestamp=start + timedelta(seconds=90))
    empty = DelegationExtension()
    chain = empty.with_new_hop(first).with_new_hop(second)
    assert empty == DelegationExtension()
    assert chain == DelegationExtension(
        chain=(first, second), depth=2, origin_subject_id="alice", actor_subject_id="bot", delegated=True,
        age_seconds=90.0,
    )  # fmt: skip
    assert DelegationHop.model_validate(HOP).timestamp == start


def test_the_simplest_extensions() -> None:
    """What a caller writes most often."""
    built = Extensions(
        agent=AgentExtension(session_id="s"),
        http=HttpExtension(headers={"Accept": "*/*"}),
        security=SecurityExtension(
            labels=frozenset({"PII"}), subject=SubjectExtension(id="alice", type=SubjectType.USER)
        ),
    )
    assert built.model_dump(mode="json", exclude_defaults=True) == {
        "agent": {"session_id": "s"},
        "http": {"headers": {"Accept": "*/*"}},
        "security": {"labels": ["PII"], "subject": {"id": "alice", "type": "user"}},
    }
