"""The user's identity: noted on everything, unchangeable, and useless without the key."""

import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import BudgetExceededError, ConfigurationError
from dragoman.canonical.message import Role
from dragoman.events import EventBus
from dragoman.session import Budget, Pseudonyms, Session
from dragoman.store import Store
from tests.unit.session.drivers import ANTHROPIC, Driver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic
from tests.unit.session.middleware.test_telemetry_events import look

KEY = "a key of thirty-two bytes, or so"
FINE = handwritten_anthropic("Yes.", usage=(100, 20))


def test_ids_follow_the_documented_rule() -> None:
    """Existing ids must not change: HMAC-SHA256, 128 bits, written as a ULID."""
    pseudonyms = Pseudonyms(KEY)
    assert pseudonyms.user("ann@example.org") == "usr_6JC9V8RYAF3DQPDPRVGMX5GZZ8"
    assert pseudonyms.team("blue") == "team_2ARJ9F5WFC6MD76V0WRCRD013Y"
    assert Pseudonyms(KEY.encode()).user("ann@example.org") == pseudonyms.user("ann@example.org")


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_names_have_different_ids(first: str, second: str) -> None:
    """Names, kinds (user, team) and keys all change the id; the same input gives the same id."""
    pseudonyms = Pseudonyms(KEY)
    same = unicodedata.normalize("NFC", first) == unicodedata.normalize("NFC", second)
    assert (pseudonyms.user(first) == pseudonyms.user(second)) is same
    assert pseudonyms.user(first)[4:] != pseudonyms.team(first)[5:]
    assert Pseudonyms("another key of many bytes").user(first) != pseudonyms.user(first)
    assert pseudonyms.user(pseudonyms.user(first)) == pseudonyms.user(first)


def test_a_guessable_key_is_refused() -> None:
    """Empty ids are refused too and, without a key, ids that look personal."""
    with pytest.raises(ConfigurationError, match="16 bytes"):
        Pseudonyms("secret")
    for wrong in ("ann@example.org", "Ann Example", ""):
        with pytest.raises(ConfigurationError) as refused:
            Session(ANTHROPIC, user_id=wrong)
        assert not wrong or wrong not in str(refused.value)
        with pytest.raises(ConfigurationError):
            Session(ANTHROPIC, team_id=wrong)


def test_messages_events_and_rows_have_the_user_id(driver: Driver) -> None:
    """Messages of all roles, events and rows; the name itself is nowhere."""
    bus, events = EventBus(strict=True), []
    bus.subscribe(events.append)
    pseudonyms = Pseudonyms(KEY)
    with Store("sqlite://") as store:
        session = driver.session(
            {"anthropic": Wire([handwritten_anthropic(Call("t1", "look", {"at": "it"})), FINE])},
            tools=[look], system="Be kind.", events=bus, store=store,
            user_id="ann@example.org", team_id="The Blues", pseudonyms=pseudonyms,
        )  # fmt: skip
        driver.ask(session, "Look.")
        bus.close()
        whose = (pseudonyms.user("ann@example.org"), pseudonyms.team("The Blues"))
        kept = store.load("sess_1")
        assert [message.role for message in kept.messages] == [
            Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT,
        ]  # fmt: skip
        assert {(message.metadata.user_id, message.metadata.team_id) for message in kept.messages} == {whose}
        assert (kept.record.user_id, kept.record.team_id) == whose
        stamps = [event.payload for event in events if event.type in ("llm.call_completed", "turn.completed")]
        assert {(payload.user_id, payload.team_id) for payload in stamps} == {whose}
        assert len(stamps) == 3
        everything = "".join([*store.export("sess_1"), *(event.to_json() for event in events)])
        assert "example" not in everything
        assert "Blues" not in everything


def test_another_user_may_take_the_next_turn(driver: Driver) -> None:
    """Earlier records stay unchanged, and each user's account has that user's costs."""
    budget = Budget(tokens=10_000, per="user")
    session = driver.session({"anthropic": Wire([FINE] * 2)}, user_id="usr_1", budgets=[budget])
    driver.ask(session, "Hi", max_output_tokens=50)
    session.identify("usr_2", "team_2")
    driver.ask(session, "Hi", max_output_tokens=50)
    stamps = [(message.metadata.user_id, message.metadata.team_id) for message in session.messages]
    assert stamps == [("usr_1", None)] * 2 + [("usr_2", "team_2")] * 2
    assert [budget.spend_of(user).tokens for user in ("usr_1", "usr_2")] == [120, 120]


def test_a_team_shares_a_budget(driver: Driver) -> None:
    """Whichever member asks; its store knows the earlier spending."""
    with Store("sqlite://") as store:
        budget = Budget(tokens=1_000, per="team")
        for user, session_id in (("usr_1", "sess_1"), ("usr_2", "sess_2")):
            session = driver.session(
                {"anthropic": Wire([FINE])}, user_id=user, team_id="team_1", budgets=[budget], store=store,
                session_id=session_id,
            )  # fmt: skip
            driver.ask(session, "Hi", max_output_tokens=50)
        driver.ask(
            driver.session({"anthropic": Wire([FINE])}, team_id="team_2", budgets=[budget]), "Hi", max_output_tokens=9
        )
        assert budget.spend_of("team_1").tokens == 240
        spent = store.total_spend(team_id="team_1")
        later = Budget(tokens=250, usd=1, per="team")
        later.add_spend("team_1", usd=spent.cost_usd or Decimal(0), tokens=spent.prompt_tokens + spent.output_tokens)
        assert later.spend_of("team_1").tokens == 240
        assert later.spend_of("team_1").usd == store.total_spend(user_id="usr_1").cost_usd * 2
        with pytest.raises(BudgetExceededError, match="per team"):
            driver.ask(
                driver.session({"anthropic": Wire([])}, team_id="team_1", budgets=[later]), "Hi", max_output_tokens=50
            )


def test_a_stored_session_keeps_its_user(driver: Driver) -> None:
    """A stored session keeps its user, also if an older version stored the user in another form."""
    with Store("sqlite://") as store:
        store.create(ANTHROPIC, session_id="sess_old", user_id="ann@example.org", team_id="blue")
        old = Session.resume("sess_old", store)
        assert (old.user_id, old.team_id) == ("ann@example.org", "blue")
        other = Session.resume("sess_old", store, user_id="usr_2")
        assert (other.user_id, other.team_id) == ("usr_2", "blue")
