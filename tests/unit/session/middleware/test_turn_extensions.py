"""What a program says of one turn to the plugins of its policy: it holds for that turn, and takes nothing away."""

from typing import Any

import pytest

from dragoman import Client, Message, Session
from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk import bulk
from dragoman.policy import (
    DataPolicy,
    Extensions,
    HttpExtension,
    ObjectSecurityProfile,
    Pipeline,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    SubjectExtension,
    SubjectType,
    hook,
)
from dragoman.policy.extensions import AgentExtension
from dragoman.server_tools import CodeExecution
from tests.bulk.provider import HAIKU, Provider
from tests.unit.session.drivers import ANTHROPIC, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

EVERYTHING = [
    "read_subject", "read_labels", "read_agent", "read_objects", "read_data", "write_headers", "append_labels",
]  # fmt: skip


def subject(name: str) -> SubjectExtension:
    return SubjectExtension(id=name, type=SubjectType.USER)


def of(name: str, **more: Any) -> Extensions:
    return Extensions(security=SecurityExtension(subject=subject(name), **more))


class Witness:
    """Notes who asks, at each hook."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self.steps: list[Step] = []
        self.plugin = hook(
            "llm_input", "llm_output", "resource_pre_fetch", "request", name="witness", capabilities=EVERYTHING
        )(self._note)

    def _note(self, step: Step) -> None:
        security = step.extensions.security
        self.steps.append(step)
        self.seen.append((step.hook, security.subject.id if security and security.subject else None))

    @property
    def names(self) -> list[str | None]:
        return [name for _, name in self.seen]


def answers(count: int) -> Wire:
    return Wire([handwritten_anthropic("Fine.")] * count)


@pytest.mark.parametrize("streams", [False, True])
def test_they_hold_for_one_turn(driver: Driver, streams: bool) -> None:
    """The next turn, and what happens between the two, have those of the session."""
    witness = Witness()
    session = driver.session({"anthropic": answers(3)}, policy=Pipeline([witness.plugin]), extensions=of("ann"))
    ask = driver.stream if streams else driver.ask
    expected = []
    for given, name in ((None, "ann"), (of("bob"), "bob"), (None, "ann")):
        ask(session, "Hi", **({} if given is None else {"extensions": given}))
        expected += [name] * 3
    assert witness.names == expected


def test_between_turns_those_of_the_session_hold() -> None:
    witness = Witness()
    session = SyncDriver().session({"anthropic": answers(2)}, policy=Pipeline([witness.plugin]), extensions=of("ann"))
    session.ask("Hi", extensions=of("bob"))
    session.apply_policy("resource_pre_fetch", Message.user("x"))
    assert witness.seen[-1] == ("cmf.resource_pre_fetch", "ann")


def test_a_field_of_security_replaces_only_itself() -> None:
    """Profiles and data policies of the session go on to hold, and labels are added and stay."""
    rules = {"look": ObjectSecurityProfile(permissions=["look"])}
    data = {"look": DataPolicy(apply_labels=["found"])}
    session_wide = of("ann", objects=rules, data=data, labels=frozenset({"ours"}))
    witness = Witness()
    session = SyncDriver().session(
        {"anthropic": answers(3)}, policy=Pipeline([witness.plugin]), extensions=session_wide
    )
    session.ask("Hi", extensions=of("bob", labels=frozenset({"theirs"})))
    security = witness.steps[-1].extensions.security
    assert security is not None
    assert ([*security.objects], [*security.data]) == (["look"], ["look"])
    assert session.labels == {"ours", "theirs"}
    session.ask("Hi")
    assert session.labels == {"ours", "theirs"}


def test_permissions_of_the_asker_of_a_turn_decide_about_tools(driver: Driver) -> None:
    """One session serves several users."""

    def look() -> str:
        """Looks."""
        return "A. Jones"

    rules = SecurityExtension(objects={"look": ObjectSecurityProfile(permissions=["look"])})
    replies = [handwritten_anthropic(Call("toolu_1", "look")), handwritten_anthropic("Fine.")]
    session = driver.session(
        {"anthropic": Wire([*replies, replies[0]])}, tools=[look], policy=Pipeline(),
        extensions=Extensions(security=rules),
    )  # fmt: skip
    may = SubjectExtension(id="ann", type=SubjectType.USER, permissions=frozenset({"look"}))
    driver.ask(session, "Look.", extensions=Extensions(security=SecurityExtension(subject=may)))
    with pytest.raises(PolicyDeniedError, match="object_permissions"):
        driver.ask(session, "Look.", extensions=of("bob"))


def test_data_policies_of_a_turn_reach_the_decision() -> None:
    """Also if the session has none, and no plugin."""

    def look() -> str:
        """Looks."""
        return "A. Jones"

    wire = Wire([handwritten_anthropic(Call("toolu_1", "look")), handwritten_anthropic("Fine.")])
    session = SyncDriver().session({"anthropic": wire}, tools=[look, CodeExecution()], policy=Pipeline())
    data = {"look": DataPolicy(denied_actions=["execute"], apply_labels=["PHI"])}
    session.ask("Look.", extensions=Extensions(security=SecurityExtension(data=data)))
    assert [len(request["tools"]) for request in wire.requests] == [2, 1]
    assert session.labels == {"PHI"}


def test_what_plugins_write_stays_and_what_the_turn_wrote_goes() -> None:
    """Slots that plugins write are kept from turn to turn; those that the program set for a turn are not."""

    @hook("llm_input", name="writer", capabilities=["write_headers"])
    def writer(step: Step) -> Extensions | None:
        found = step.extensions.custom or {}
        seen.append(dict(found))
        return step.extensions.model_copy(update={"custom": {**found, "turns": found.get("turns", 0) + 1}})

    seen: list[dict[str, Any]] = []
    session = SyncDriver().session({"anthropic": answers(3)}, policy=Pipeline([writer]))
    session.ask("Hi")
    session.ask("Hi", extensions=Extensions(custom={"mine": 1}))
    session.ask("Hi")
    assert seen == [{}, {"mine": 1}, {"turns": 1}]


def test_headers_and_agent_of_a_turn_are_seen_and_not_sent() -> None:
    witness = Witness()
    wire = answers(2)
    session = SyncDriver().session({"anthropic": wire}, policy=Pipeline([witness.plugin]))
    given = Extensions(http=HttpExtension(headers={"x-ward": "7"}), agent=AgentExtension(agent_id="a1"))
    session.ask("One", extensions=given)
    agent = witness.steps[-1].extensions.agent
    assert agent is not None
    assert (agent.agent_id, agent.input, agent.turn, agent.session_id) == ("a1", "One", 0, session.session_id)
    session.ask("Two")
    agent = witness.steps[-1].extensions.agent
    assert agent is not None
    assert (agent.agent_id, agent.input, agent.turn) == (None, "Two", 1)


def test_a_turn_of_a_session_without_a_policy_has_none() -> None:
    with pytest.raises(ConfigurationError, match="policy"):
        Session(ANTHROPIC, api_key="none").ask("Hi", extensions=of("ann"))
    session = Session(ANTHROPIC, api_key="none", policy=Pipeline())
    with pytest.raises(ConfigurationError, match="Extensions"):
        session.ask("Hi", extensions={"security": {}})  # type: ignore[arg-type]


def test_a_data_policy_that_cannot_be_enforced_is_refused_for_a_turn_too() -> None:
    session = Session(ANTHROPIC, api_key="none", policy=Pipeline())
    rules = {"look": DataPolicy(denied_actions=["delete"])}
    with pytest.raises(ConfigurationError, match="delete"):
        session.ask("Hi", extensions=Extensions(security=SecurityExtension(data=rules)))


def test_a_bulk_run_has_its_own() -> None:
    witness = Witness()
    client = Client(policy=[witness.plugin], extensions=of("ann"))
    bulk(["Hi"], HAIKU, client=client, providers=Provider().settings, extensions=of("bob")).close()
    assert set(witness.names) == {"bob"}
