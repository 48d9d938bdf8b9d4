"""Labels travel with the data: into other sessions, dumps, stores, forks, formats, files and batches."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, ImageBlock, MediaSource, ResourceBlock, TextBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.cli.app import app
from dragoman.formats import (
    from_cmf,
    from_messages,
    from_umf,
    to_acp,
    to_chatml,
    to_cmf,
    to_message_body,
    to_messages,
    to_native,
    to_umf,
)
from dragoman.policy import DataPolicy, Extensions, Pipeline, PolicyDeniedError, SecurityExtension
from dragoman.routing import Router, label_rules
from dragoman.session import Session, tool
from dragoman.store import Store
from dragoman.testing import ScriptedProvider
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama

SECRET = frozenset({"SECRET"})
HISTORY = [
    Message.user("Hello.", session_id="s"),
    Message.assistant("The code is 7.", session_id="s", metadata=MessageMetadata(labels=SECRET)),
    Message.user("Thanks.", session_id="s", metadata=MessageMetadata(labels=frozenset({"EU", "SECRET"}))),
]
ALL = frozenset({"EU", "SECRET"})


def labels_of(messages: Any) -> list[frozenset[str] | None]:
    return [message.metadata.labels for message in messages]


def settings(**more: Any) -> dict[str, Any]:
    return {"policy": Pipeline(grants=["declassify_labels"]), **more}


def test_a_session_takes_labels_from_its_messages_and_its_arguments(driver: Driver) -> None:
    """A session takes labels from its messages and its arguments, and its new messages carry them, in the history, in
    the reply and in what another session starts from.
    """
    wire = Wire([handwritten_anthropic("Well."), handwritten_anthropic("Again.")])
    session = driver.session({"anthropic": wire}, messages=HISTORY[:2], labels=["EU"], **settings())
    assert session.labels == ALL
    reply = driver.ask(session, "And?")
    assert labels_of(reply.messages) == [ALL, ALL]
    assert labels_of(session.messages)[-2:] == [ALL, ALL]
    follower = driver.session({"anthropic": wire}, messages=reply.messages, **settings())
    assert follower.labels == ALL


@pytest.mark.parametrize("guard", ["nothing", "allowed", "router", "policy"])
def test_labels_without_a_policy_are_refused_or_allowed_explicitly(guard: str, caplog: Any) -> None:
    """However they come: with messages, as an argument, in a dump, in a store, or with a prompt."""
    guards: dict[str, dict[str, Any]] = {
        "nothing": {},
        "allowed": {"labels_without_policy": "allow"},
        "router": {"router": Router(global_default=ANTHROPIC)},
        "policy": {"policy": Pipeline()},
    }
    given = guards[guard]
    dump = Session(ANTHROPIC, messages=HISTORY, policy=Pipeline()).dump()
    with Store("sqlite://") as store:
        store.create(ANTHROPIC, HISTORY, session_id="sess_1")
        ways = {
            "messages": lambda: Session(ANTHROPIC, messages=HISTORY, **given),
            "labels": lambda: Session(ANTHROPIC, labels=["EU", "SECRET"], **given),
            "dump": lambda: Session.load(dump, **given),
            "store": lambda: Session.resume("sess_1", store, **given),
        }
        for start in ways.values():
            if guard == "nothing":
                with pytest.raises(ConfigurationError, match="no policy and no router reads them"):
                    start()
            else:
                caplog.clear()
                assert start().labels == ALL
                assert (logging.WARNING in {record.levelno for record in caplog.records}) is (guard == "allowed")
    with pytest.raises(ConfigurationError, match="use refuse or allow"):
        Session(ANTHROPIC, labels_without_policy="maybe")  # type: ignore[arg-type]


def test_a_labelled_prompt_needs_a_policy() -> None:
    """Or an explicit word; the reply has its labels too."""
    with pytest.raises(ConfigurationError, match="no policy"):
        Session(ANTHROPIC).ask(HISTORY[2])
    for given in ({"policy": Pipeline()}, {"labels_without_policy": "allow"}):
        with ScriptedProvider("Well.") as provider:
            session = Session(provider.model, **given)  # type: ignore[arg-type]
            session.ask(HISTORY[2])
            assert labels_of(session.messages) == [ALL, ALL]


def test_a_router_reads_kept_labels_without_a_policy() -> None:
    """Labelled content is routed to a model that may see it, also after a load."""
    with ScriptedProvider("Here.") as provider:
        router = Router(rules=label_rules({"SECRET": [provider.model]}), global_default=ANTHROPIC)
        session = Session(None, messages=HISTORY[:2], router=router)
        assert session.ask("And?").message.metadata.model == provider.model
        loaded = Session.load(session.dump(), router=router)
        assert loaded.labels == SECRET
        assert labels_of(loaded.messages) == labels_of(session.messages) == [None, SECRET, SECRET, SECRET]


def test_forks_stores_and_exports_keep_labels(tmp_path: Path) -> None:
    """And a declassified label does not come back through the messages."""
    with Store(f"sqlite:///{tmp_path / 'chats.db'}") as store, ScriptedProvider("Well.") as provider:
        session = Session(provider.model, messages=HISTORY[:2], store=store, labels=["EU"], **settings())
        session.ask("And?")
        stored = store.load(session.session_id)
        assert labels_of(stored.messages) == labels_of(session.messages)
        fork = store.fork(session.session_id)
        assert Session.resume(fork.id, store, **settings()).labels == ALL
        exported = list(store.export(session.session_id))
        with Store("sqlite://") as other:
            copy = other.import_lines(exported)
            assert labels_of(other.load(copy.id).messages) == labels_of(session.messages)
        session.declassify(["SECRET"], actor="officer", reason="published")
        assert labels_of(session.messages)[-1] == {"EU"}
        assert labels_of(store.load(session.session_id).messages) == labels_of(session.messages)
        for again in (
            Session(provider.model, messages=session.messages, **settings()),
            Session.load(session.dump(), **settings()),
            Session.resume(session.session_id, store, **settings()),
        ):
            assert again.labels == {"EU"}


def test_formats_with_room_keep_labels() -> None:
    for write, read in ((to_messages, from_messages), (to_cmf, from_cmf), (to_umf, from_umf)):
        written = write(HISTORY)
        assert LossKind.LABELS not in {loss.kind for loss in written.losses}
        assert labels_of(read(json.dumps(written.data))) == labels_of(HISTORY)
        assert labels_of(read(json.dumps(write(read(written.data)).data))) == labels_of(HISTORY)
    session = Session(ANTHROPIC, messages=HISTORY, policy=Pipeline())
    assert labels_of(from_messages(session.dump())) == labels_of(HISTORY)


def test_cmf_has_labels_where_its_specification_says() -> None:
    """Beside those of the extensions that are written; a label that another program adds is read."""
    (_, entry, _) = to_cmf(HISTORY, extensions=[None, {"security": {"labels": ["EU"]}}, None]).data
    assert entry["extensions"]["security"]["labels"] == ["EU", "SECRET"]
    entry["extensions"]["security"]["labels"].append("NEW")
    assert labels_of(from_cmf([entry])) == [{"EU", "SECRET", "NEW"}]
    foreign = {"message": {"role": "user", "content": []}, "extensions": {"security": {"labels": ["PII"]}}}
    read = from_cmf([foreign])
    assert labels_of(read) == [{"PII"}]
    assert to_cmf(read).data == [foreign]


def test_formats_without_room_name_the_loss() -> None:
    """One for each labelled message; the labels are beside the document."""
    for written in (to_chatml(HISTORY), to_acp(HISTORY), to_native("anthropic", HISTORY), to_native("openai", HISTORY)):
        assert [loss.message_id for loss in written.losses if loss.kind is LossKind.LABELS] == [
            message.id for message in HISTORY[1:]
        ]
        assert written.labels == ALL
    assert to_message_body(HISTORY[1]).labels == SECRET
    assert to_chatml(HISTORY[:1]).labels == frozenset()


@pytest.mark.parametrize("target", ["cmf", "umf", "messages", "session", "chatml", "acp", "anthropic", "umf-events"])
def test_converted_files_keep_labels(target: str, tmp_path: Path) -> None:
    """A file beside the document holds what the document cannot, and is read with it."""
    source, there, back = tmp_path / "a.json", tmp_path / f"b.{target}", tmp_path / "c.json"
    source.write_bytes(Session(ANTHROPIC, messages=HISTORY, policy=Pipeline()).dump())
    lost = "security labels" in convert(source, there, "--to", target)
    beside = there.with_name(there.name + ".labels.json")
    assert lost is beside.exists() is (target in ("chatml", "acp", "anthropic", "umf-events"))
    convert(there, back, "--from", target, "--to", "messages")
    found = labels_of(from_messages(back.read_bytes()))
    assert frozenset().union(*(labels or () for labels in found)) == ALL
    convert(tmp_path, tmp_path / "all", "--to", "messages")
    assert not (tmp_path / "all" / f"{beside.stem}.json").exists()


def convert(*words: object) -> str:
    run = CliRunner().invoke(app, ["convert", *map(str, words)], env={"COLUMNS": "200", "NO_COLOR": "1"})
    return run.output


RULES = SecurityExtension(data={"file:///hr/pay.txt": DataPolicy(apply_labels=["PAY"], denied_actions=["forward"])})
PAY = ResourceBlock(resource_request_id="r", uri="FILE:/hr/./pay.txt", resource_type="file", content="9")
PICTURE = ImageBlock(source=MediaSource(kind="url", data="file:///hr/pay.txt"))


@pytest.mark.parametrize("said", [[PAY], [TextBlock(text="See"), PAY], [PICTURE]])
def test_what_a_user_says_has_the_labels_of_its_address(said: list[ContentBlock]) -> None:
    """Nobody knows who asked for it, so no model may receive what may not be forwarded."""
    session = Session(ANTHROPIC, policy=Pipeline(), extensions=Extensions(security=RULES))
    with pytest.raises(PolicyDeniedError) as denied:
        session.ask(said)
    assert (session.labels, denied.value.code) == ({"PAY"}, "data_policy")


def test_a_resource_in_a_result_has_the_labels_of_its_address(driver: Driver) -> None:
    """It may go back to the provider whose model asked for it, and to no other."""

    @tool(side_effects="none")
    def look() -> Any:
        """Looks."""
        return [PAY]

    wires = {
        "anthropic": Wire([handwritten_anthropic(Call("call_1", "look")), handwritten_anthropic("Nine.")]),
        "ollama": Wire([handwritten_ollama("No.")]),
    }
    session = driver.session(wires, tools=[look], policy=Pipeline(), extensions=Extensions(security=RULES))
    driver.ask(session, "Look.")
    assert session.labels == {"PAY"}
    session.swap(OLLAMA)
    with pytest.raises(PolicyDeniedError):
        driver.ask(session, "And?")
