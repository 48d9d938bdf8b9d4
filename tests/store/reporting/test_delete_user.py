"""`Store.delete_user`: everything of that user goes, and the report says what."""

from pathlib import Path

import anyio
import pytest

from dragoman.canonical.blocks import ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.usage import TokenUsage
from dragoman.open_turns import OpenTurn, TurnStep
from dragoman.pricing import price_table
from dragoman.store import AsyncStore, ConflictError, Store, StoreError
from dragoman.store.schema import attempts, messages, sessions, tool_calls, tool_ids, turns
from tests.store.load import integrity
from tests.store.turns import rows

ANN, BOB = "usr_ann", "usr_bob"
MODEL = "anthropic:claude-sonnet-4-6"
SECRET = "heliotrope"
CALL = "tu_01M7YJFK7P2ZFT4X2CGGZPP000"


def message_of(role: str, text: str, user: str | None, *, billed: bool = False) -> Message:
    message = getattr(Message, role)(text)
    usage = TokenUsage(input_tokens=1000, output_tokens=10) if billed else None
    priced = usage and price_table().price(MODEL, usage, message.created_at)
    metadata = MessageMetadata(
        user_id=user, model=MODEL if billed else None, usage=priced, provider_raw={"x": SECRET} if user == ANN else None
    )
    changed: Message = message.model_copy(update={"metadata": metadata})
    return changed


def fill(store: Store) -> None:
    """Two sessions of Ann, a fork that is Bob's, and one of Bob in which Ann also wrote."""
    turn = [message_of("user", f"My {SECRET} is Ann's.", ANN), message_of("assistant", f"{SECRET}!", ANN, billed=True)]
    store.create(
        MODEL, turn, session_id="sess_ann", user_id=ANN, title=SECRET, attempts=[message_of("assistant", SECRET, ANN)]
    )
    store.create(MODEL, [message_of("user", SECRET, None)], session_id="sess_plain", user_id=ANN)
    call = Message.assistant(
        [ThinkingBlock(text=SECRET), ToolUseBlock(id=CALL, name="find", input={"q": SECRET})],
        metadata=MessageMetadata(user_id=ANN, provider="anthropic", model=MODEL),
    )
    result = Message.tool(CALL, SECRET).model_copy(update={"metadata": MessageMetadata(user_id=ANN)})
    shared = [message_of("user", "Bob asks.", BOB), message_of("user", f"{SECRET}?", ANN), call, result]
    tail = [message_of("assistant", "Bob's answer.", BOB, billed=True)]
    store.create(
        MODEL, [*shared, *tail], session_id="sess_bob", user_id=BOB, extensions={shared[1].id: {"who": SECRET}},
        attempts=[message_of("assistant", SECRET, ANN, billed=True)],
    )  # fmt: skip
    asked = OpenTurn(prompt=(message_of("user", f"And {SECRET}?", ANN),))
    store.append("sess_bob", expected_version=None, step=TurnStep(begins=True, turn=asked))
    store.fork("sess_bob", new_session_id="sess_fork")


def test_everything_of_the_user_is_gone(store: Store) -> None:
    """Everything of the user is gone, also from the search, the spending, and the words in a session of
    another user.
    """
    fill(store)
    before = store.load("sess_bob")
    done = store.delete_user(ANN)
    assert (done.sessions, done.messages, done.attempts, done.tool_calls) == (2, 3, 1, 0)
    assert (done.shared_sessions, done.erased, done.forks) == (("sess_bob", "sess_fork"), 7, ())
    assert [record.id for record in store.list(user_id=ANN).sessions] == []
    assert store.search(SECRET) == ()
    assert store.total_spend(user_id=ANN).replies == 0
    for table in (sessions, messages, attempts, tool_calls, tool_ids, turns):
        held = str(rows(store, f"SELECT * FROM {table.name}"))
        assert SECRET not in held, table.name
        assert ANN not in held, table.name
    found = store.load("sess_bob")
    assert found.version == before.version + 1
    assert [message.id for message in found.messages] == [message.id for message in before.messages]
    assert [message.text for message in found.messages][:2] == ["Bob asks.", "[deleted]"]
    assert found.messages[2].tool_uses[0].input == {}
    assert found.messages[3].tool_results[0].tool_use_id == CALL
    assert found.messages[4] == before.messages[4]
    assert integrity.faults(store) == []
    with pytest.raises(ConflictError):
        store.append("sess_bob", [Message.user("Late.")], expected_version=before.version)
    store.append("sess_bob", [Message.user("More.")], expected_version=found.version)
    assert {hit.session_id for hit in store.search("bob asks")} == {"sess_bob", "sess_fork"}


def test_what_others_paid_stays(store: Store) -> None:
    """The cost of an erased reply still counts, without the user."""
    fill(store)
    team_before = store.total_spend().cost_usd
    bobs = store.total_spend(user_id=BOB)
    done = store.delete_user(ANN)
    assert store.total_spend(user_id=BOB) == bobs
    assert team_before is not None
    assert store.total_spend().cost_usd == team_before / 3 * 2, "one of three billed replies was in a deleted session"
    assert done.reports is None


def test_forks_of_others_are_named(store: Store) -> None:
    """They hold copies, which may be of others, too."""
    store.create(MODEL, [message_of("user", SECRET, ANN)], session_id="sess_ann", user_id=ANN)
    lines = [line.replace(ANN, BOB) for line in store.export("sess_ann")]
    store.import_lines([line.replace('"sess_ann"', '"sess_x"') for line in lines], session_id="sess_other")
    fork = store.fork("sess_ann", new_session_id="sess_fork")
    with store._database.engine.begin() as connection:
        connection.execute(sessions.update().where(sessions.c.id == fork.id).values(user_id=BOB))
    done = store.delete_user(ANN)
    assert (done.sessions, done.forks, done.erased) == (1, ("sess_fork",), 1)
    assert store.load("sess_fork").messages[0].text == "[deleted]"
    assert store.load("sess_other").messages[0].text == SECRET


@pytest.mark.parametrize("user", ["", None, 3])
def test_no_user_is_not_everybody(store: Store, user: object) -> None:
    """Sessions without a user belong to nobody, and stay."""
    store.create(MODEL, [Message.user("Hi")])
    with pytest.raises(StoreError, match="name the user"):
        store.delete_user(user)  # type: ignore[arg-type]  # that is the mistake
    done = store.delete_user("usr_%")
    assert (done.sessions, done.erased) == (0, 0)
    assert len(store.list().sessions) == 1


def test_an_async_store_and_reports(tmp_path: Path) -> None:
    """A folder of exported replies follows."""
    pytest.importorskip("duckdb", reason="the extra `report` is not installed")
    import duckdb

    with Store(f"sqlite:///{tmp_path / 'chats.db'}") as store:
        fill(store)
        folder = tmp_path / "replies"
        store.export_replies(folder, text=True)

        async def delete() -> object:
            return await AsyncStore(store).delete_user(ANN, reports=folder, text=True)

        done = anyio.run(delete)
        assert done.reports is not None  # type: ignore[attr-defined]  # anyio.run knows no result
        found = str(
            duckdb.sql(f"SELECT * FROM '{folder}/**/*.parquet'").project("CAST(COLUMNS(*) AS VARCHAR)").fetchall()
        )
    assert "Bob's answer" in found
    assert SECRET not in found
    assert ANN not in found
