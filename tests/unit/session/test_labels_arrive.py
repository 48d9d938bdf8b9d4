"""Labels that arrive in the middle of a conversation: in what a tool returns, an answer, a prompt, and a summary."""

from typing import Any

import pytest

from dragoman import Message, ToolDefinition
from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import PromptResultBlock, ToolResultBlock
from dragoman.canonical.message import MessageMetadata
from dragoman.policy import DataPolicy, Extensions, Pipeline, PolicyDeniedError, SecurityExtension
from dragoman.policy.plugins import LabelledModels
from dragoman.routing import Router, label_rules
from dragoman.session import Session
from dragoman.store import Store
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

PHI = frozenset({"PHI"})
FOUND = Message.assistant("A. Jones", metadata=MessageMetadata(labels=PHI))
READERS: dict[str, dict[str, Any]] = {
    "a policy": {"policy": Pipeline()},
    "plugins": {"policy": Pipeline([LabelledModels({"PHI": ["ollama:**"]})])},
    "a router": {"router": Router(global_default=ANTHROPIC, rules=label_rules({"PHI": [OLLAMA]}))},
}
"""What reads labels."""


def ask_agent(name: str) -> Message:
    """Asks another agent."""
    return FOUND


def ask_agents(name: str) -> list[Any]:
    """Asks several agents."""
    return ["Two of them:", FOUND]


def calling(name: str) -> Wire:
    return Wire([handwritten_anthropic(Call("toolu_1", name, {"name": "A"})), *([handwritten_anthropic("Done.")] * 3)])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("function", [ask_agent, ask_agents])
def test_a_result_has_the_labels_of_the_message_that_a_tool_returns(driver: Driver, reader: str, function: Any) -> None:
    """A session without a label so far gets them, and so does everything after them."""
    wire = calling(function.__name__)
    session = driver.session({"anthropic": wire}, tools=[function], **READERS[reader])
    if reader == "a policy":
        driver.ask(session, "Ask.")
        assert [message.metadata.labels for message in session.messages] == [None, None, PHI, PHI]
        assert Session.load(session.dump(), policy=Pipeline()).labels == PHI
    else:
        with pytest.raises(PolicyDeniedError):
            driver.ask(session, "Ask.")
        assert len(wire.requests) == 1
        assert session.messages[-1].metadata.labels == PHI
    assert session.labels == PHI


def test_labels_of_a_result_that_nothing_reads_are_refused(driver: Driver) -> None:
    wire = calling("ask_agent")
    session = driver.session({"anthropic": wire}, tools=[ask_agent])
    with pytest.raises(ConfigurationError, match="PHI"):
        driver.ask(session, "Ask.")
    assert len(wire.requests) == 1


@pytest.mark.parametrize("reader", ["a policy", "a router"])
def test_an_answer_from_elsewhere_brings_its_labels(reader: str) -> None:
    definition = ToolDefinition(name="ask_agent", input_schema={"type": "object", "properties": {}})
    wire = calling("ask_agent")
    with Store("sqlite://") as store:
        session = SyncDriver().session({"anthropic": wire}, tools=[definition], store=store, **READERS[reader])
        session.ask("Ask.")
        (call,) = session.pending
        if reader == "a router":
            with pytest.raises(PolicyDeniedError):
                session.answer({call.id: FOUND})
        else:
            session.answer({call.id: FOUND})
        assert session.labels == PHI
        assert store.load(session.session_id).messages[-1].metadata.labels == PHI


def prompt_result() -> PromptResultBlock:
    return PromptResultBlock(
        prompt_request_id="p", prompt_name="case", messages=(FOUND.model_dump(mode="json", exclude_none=True),)
    )


@pytest.mark.parametrize("reader", ["a policy", "a router"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_rendered_prompt_has_the_labels_of_its_messages(reader: str, nested: bool) -> None:
    prompt = prompt_result()
    content: Any = ToolResultBlock(tool_use_id="tu_1", content=(prompt,)) if nested else prompt
    role: Any = "tool" if nested else "user"
    history = [
        Message.user("Hi"),
        *([Message.assistant([{"type": "tool_use", "id": "tu_1", "name": "a", "input": {}}])] if nested else []),
        Message(role=role, content=(content,)),
    ]
    session = SyncDriver().session({"anthropic": Wire([])}, messages=history, **READERS[reader])
    if reader == "a policy":
        session = SyncDriver().session(
            {"anthropic": Wire([handwritten_anthropic("Fine.")])}, messages=history, **READERS[reader]
        )
        session.ask("And?")
        assert session.messages[-1].metadata.labels == PHI
    assert session.labels == PHI


@pytest.mark.parametrize("plugins", [(), (LabelledModels({"PHI": ["anthropic:**"]}),)])
def test_a_summary_has_the_labels_of_what_it_replaces(driver: Driver, plugins: tuple[Any, ...]) -> None:
    said = [Message.user("A"), Message.assistant("B"), Message.user("C"), Message.assistant("D")]
    session = driver.session(
        {"anthropic": Wire([handwritten_anthropic("Short.")] * 2)},
        messages=said,
        policy=Pipeline(plugins),
        extensions=Extensions(security=SecurityExtension(labels=PHI)),
    )
    summary = driver.compact(session, keep_last=1)
    assert summary.metadata.labels == PHI
    driver.ask(session, "And?")
    assert session.messages[-1].metadata.labels == PHI
    assert Session.load(session.dump(), policy=Pipeline()).labels == PHI


def test_a_notebook_shows_labels() -> None:
    session = SyncDriver().session({"anthropic": Wire([])}, messages=[FOUND], policy=Pipeline())
    assert "labels: PHI" in (session._repr_html_() or "")


def test_an_action_that_nothing_enforces_cannot_be_denied() -> None:
    """Stores ask no data policy before they delete: a program that relies on it would rely on nothing."""
    rules = {"look": DataPolicy(denied_actions=["export", "delete"])}
    with pytest.raises(ConfigurationError, match="delete"):
        Session(ANTHROPIC, policy=Pipeline(), extensions=Extensions(security=SecurityExtension(data=rules)))
