"""Labels of a session are removed only with a record, and stay removed wherever the session continues."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.events import EventBus
from dragoman.policy import (
    DataPolicy,
    Declassification,
    DeclassificationError,
    Extensions,
    Pipeline,
    PluginResult,
    SecurityExtension,
    Step,
    hook,
)
from dragoman.policy.labels import with_labels
from dragoman.session import Session
from dragoman.store import ConflictError, Store
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, AsyncDriver, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama

GRANT = ["declassify_labels"]
WHY = {"actor": "officer", "reason": "published"}


@hook("cmf.llm_input", "cmf.llm_output")
def labelling(step: Step) -> Any:
    """Text about a patient is PII."""
    text = " ".join(view.content or "" for view in step.views())
    return with_labels(step.extensions, ["PII"]) if "patient" in text else None


def look(path: str) -> str:
    """Reads a file."""
    return "A. Jones"


HOST = Extensions(security=SecurityExtension(data={"look": DataPolicy(apply_labels=["PHI"])}))


def settings(**more: Any) -> dict[str, Any]:
    return {"policy": Pipeline([labelling], grants=GRANT), "extensions": HOST, "tools": [look], **more}


def wires(*replies: Any) -> dict[str, Wire]:
    looks = handwritten_anthropic(Call("toolu_1", "look", {"path": "a"}))
    fine = [handwritten_anthropic("Fine.")] * 6
    wire = Wire([looks, handwritten_anthropic("Read."), *(replies or fine)])
    return {"anthropic": wire, "ollama": Wire([handwritten_ollama("Fine.")] * 3)}


def declassify(driver: Driver, session: Any, *labels: str, **how: Any) -> Declassification | None:
    given = {**WHY, **how}
    if not isinstance(driver, AsyncDriver):
        found: Declassification | None = session.declassify(labels, **given)
        return found

    async def main() -> Declassification | None:
        record: Declassification | None = await session.declassify(labels, **given)
        return record

    return driver.runner.run(main())


def begin(driver: Driver, **more: Any) -> Any:
    session = driver.session(wires(), **settings(**more))
    driver.ask(session, "Look up the patient.")
    assert session.labels == {"PII", "PHI"}
    return session


def test_declassification_has_exactly_one_record(driver: Driver, tmp_path: Path) -> None:
    """The caller, the audit, the bus and the store have the same record, which lists only existing labels."""
    events: list[Any] = []
    audited: list[Declassification] = []
    with EventBus(strict=True) as bus, Store(f"sqlite:///{tmp_path / 'chats.db'}", synchronous="normal") as store:
        bus.subscribe(events.append, types="policy.*")
        session = begin(driver, events=bus, store=store)
        record = declassify(driver, session, "PII", "OTHER", audit=audited.append)
        assert declassify(driver, session, "PII", "OTHER", audit=audited.append) is None
        kept = store.load("sess_1").extensions[session.messages[-1].id]
    assert record is not None
    assert audited == [record]
    assert (list(record.labels), record.actor, record.reason, record.at) == (["PII"], "officer", "published", NOW)
    assert kept["declassified"] == [record.model_dump(mode="json")]
    (event,) = events
    assert (event.type, event.payload.labels, event.payload.actor_id) == ("policy.declassified", ("PII",), "officer")
    assert (event.session_id, event.turn_id) == ("sess_1", None)
    assert session.labels == {"PHI"}


def test_declassification_has_to_be_granted(driver: Driver) -> None:
    """The policy has to grant it; a plugin's capability grants nothing, and a session without a policy cannot."""

    @hook("cmf.llm_input", capabilities=["declassify_labels", "append_labels"])
    def greedy(step: Step) -> PluginResult:
        return PluginResult()

    for policy in (None, Pipeline([labelling]), Pipeline([labelling, greedy]), Pipeline([], grants=["append_labels"])):
        session = driver.session(wires(), policy=policy)
        with pytest.raises(DeclassificationError):
            declassify(driver, session, "PII")
    session = begin(driver)
    for empty in ("actor", "reason"):
        with pytest.raises(DeclassificationError, match="actor and a reason"):
            declassify(driver, session, "PII", **{empty: " "})
    assert session.labels == {"PII", "PHI"}
    with pytest.raises(ConfigurationError, match="not a capability"):
        Pipeline(grants=["declassify"])
    assert driver.session(wires()).labels == frozenset()


def test_a_failing_record_keeps_the_labels(driver: Driver, tmp_path: Path) -> None:
    """The audit, or a store in which another program has continued the session."""

    def failing(_: Declassification) -> None:
        raise OSError

    async def late(_: Declassification) -> None: ...

    with Store(f"sqlite:///{tmp_path / 'chats.db'}", synchronous="normal") as store:
        session = begin(driver, store=store)
        before = session.dump()
        for audit, error in ((failing, OSError), (late, ConfigurationError)):
            with pytest.raises(error):
                declassify(driver, session, "PII", audit=audit)
        store.append("sess_1", [session.messages[0].model_copy(update={"id": "m9"})], expected_version=None)
        with pytest.raises(ConflictError):
            declassify(driver, session, "PII")
    assert session.labels == {"PII", "PHI"}
    assert session.dump() == before


def load(driver: Driver, session: Any, _: Store, **more: Any) -> Any:
    return type(session).load(session.dump(), providers=session.providers, **settings(**more))


def resume(driver: Driver, session: Any, store: Store, **more: Any) -> Any:
    driver.close(session)
    given = {"providers": session.providers, **settings(**more)}
    if not isinstance(driver, AsyncDriver):
        return Session.resume("sess_1", store, **given)
    return driver.runner.run(type(session).resume("sess_1", store, **given))


@pytest.mark.parametrize("reopen", [load, resume])
def test_a_removed_label_stays_removed_in_the_next_program(
    driver: Driver, tmp_path: Path, reopen: Callable[..., Any]
) -> None:
    """Although plugins and data policies judge the old messages again there, and the program gives the label again. New
    data brings it back, and that is kept as well."""
    with Store(f"sqlite:///{tmp_path / 'chats.db'}", synchronous="normal") as store:
        session = begin(driver, store=store)
        declassify(driver, session, "PII", "PHI")
        driver.ask(session, "And now?")
        again = reopen(driver, session, store, extensions=with_labels(HOST, ["PHI"]))
        assert again.labels == frozenset()
        driver.ask(again, "Go on.")
        assert again.labels == frozenset()
        driver.ask(again, "Another patient.")
        assert again.labels == {"PII"}
        assert load(driver, again, store).labels == {"PII"}
        assert json.dumps(json.loads(again.dump())).count('"declassified"') == 1


def test_judging_again_restores_no_label(driver: Driver) -> None:
    """For another model, a retry or a summary, the messages are still declassified."""
    session = begin(driver)
    declassify(driver, session, "PII", "PHI")
    session.swap(OLLAMA)
    driver.ask(session, "And now?")
    session.swap(ANTHROPIC)
    driver.compact(session, keep_last=1)
    driver.ask(session, "And now?")
    assert session.labels == frozenset()


def test_a_record_before_the_first_message_is_stored_with_it(driver: Driver) -> None:
    """For labels that a program gave, and for a failed turn."""
    session = driver.session(
        {"anthropic": Wire([ConnectionError()] * 3 + [handwritten_anthropic("Fine.")])},
        policy=Pipeline([labelling], grants=GRANT),
        extensions=with_labels(None, ["EU"]),
    )
    with pytest.raises(Exception, match="anthropic"):
        driver.ask(session, "A patient.")
    declassify(driver, session, "PII", "EU")
    driver.ask(session, "Another patient.")
    again = type(session).load(
        session.dump(), policy=Pipeline([labelling], grants=GRANT), extensions=with_labels(None, ["EU"])
    )
    assert session.labels == again.labels == {"PII"}


def test_declassification_during_a_turn_is_refused() -> None:
    """It would be unclear what is declassified."""
    session = Session(ANTHROPIC, policy=Pipeline(grants=GRANT), tools=[look])
    session._running = iter(())  # type: ignore[assignment]
    with pytest.raises(ConfigurationError, match="middle of a turn"):
        session.declassify(["PII"], actor="officer", reason="published")
    session._running = None


def test_labels_are_read_only(driver: Driver) -> None:
    """The attribute returns a copy, and cannot be set."""
    session = begin(driver)
    assert isinstance(session.labels, frozenset)
    with pytest.raises(AttributeError):
        session.labels = frozenset()


def test_a_declassification_before_the_first_message_is_kept() -> None:
    """A declassification before the first message is kept in a dump without messages, also after a turn that failed,
    and with the first message from then on.
    """
    extensions = Extensions(security=SecurityExtension(labels=frozenset({"PII"})))
    given: dict[str, Any] = {"policy": Pipeline(grants=GRANT), "extensions": extensions}
    replies = [*[ConnectionError()] * 3, handwritten_anthropic("Hello.")]
    session = SyncDriver().session({"anthropic": Wire(replies)}, **given)
    session.declassify(["PII"], **WHY)
    with pytest.raises(ProviderError):
        session.ask("Hi")
    again = Session.load(session.dump(), providers=session.providers, **given)
    assert again.labels == frozenset()
    assert Session.load(again.dump(), **given).labels == frozenset()
    again.ask("Hi")
    assert json.loads(again.dump())["extensions"].keys() == {again.messages[0].id}
    assert Session.load(again.dump(), **given).labels == frozenset()
