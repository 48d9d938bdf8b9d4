"""Virtual keys: stored as hashes, checked in memory, changed on every replica within seconds."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from dragoman.errors import AuthenticationError, ConfigurationError, InvalidRequestError, OverloadedError
from dragoman.limits import Limits
from dragoman_gateway.access import Caller
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.keys.access import KeyAccess
from dragoman_gateway.keys.admission import Admission
from dragoman_gateway.keys.amounts import parse_budget, parse_limit
from dragoman_gateway.keys.key_store import KeyCache, KeyStore
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.rates import Rates
from dragoman_gateway.keys.records import Allowance
from dragoman_gateway.keys.secrets import digest
from tests.gateway.keys.clock import Clock


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def access_to(database: Database, clock: Clock, **settings: Any) -> KeyAccess:
    cache = KeyCache(database, clock=clock.seconds, **settings)
    return KeyAccess(cache, Admission(cache, Ledger(database), Rates(Limits(()))), clock.now)


def test_the_secret_of_a_key_is_stored_nowhere(database: Database) -> None:
    """The database holds the hash of a key, and no part of its secret."""
    key, secret = KeyStore(database).create(name="laptop", team="research")
    rows = database.run(lambda connection: connection.execute(text("SELECT * FROM gateway_keys")).all())
    assert secret[-43:] not in str(rows)  # it may have hyphens itself
    assert digest(secret) in str(rows)
    assert secret not in repr(key)
    assert digest(secret) not in repr(key)


@pytest.mark.parametrize("header", ["x-api-key", "api-key", "x-goog-api-key", "authorization"])
def test_each_header_of_a_client_carries_a_key(database: Database, header: str) -> None:
    """A key is found in the header of every client's SDK."""
    _, secret = KeyStore(database).create(user="ann", team="research", models=("anthropic:*",))
    value = f"Bearer {secret}" if header == "authorization" else secret
    caller: Caller = run(access_to(database, Clock()).authenticate({header: value}))
    assert (caller.user, caller.team, caller.models) == ("ann", "research", ("anthropic:*",))


def test_two_different_keys_in_one_request_are_refused(database: Database) -> None:
    """A request with two different keys names nobody; the same key twice is one key."""
    (_, one), (_, two) = KeyStore(database).create(), KeyStore(database).create()
    access = access_to(database, Clock())
    with pytest.raises(InvalidRequestError):
        run(access.authenticate({"x-api-key": one, "authorization": f"Bearer {two}"}))
    assert run(access.authenticate({"x-api-key": one, "authorization": f"Bearer {one}"})).key_id


def test_every_wrong_key_gets_the_same_answer(database: Database) -> None:
    """Missing, malformed, unknown, altered, revoked and expired keys are refused with the same words, which repeat
    no part of the key."""
    clock = Clock()
    store = KeyStore(database, clock.now)
    _, good = store.create()
    revoked, revoked_secret = store.create()
    store.revoke(revoked.id)
    _, expired = store.create(expires_at=clock.now() + timedelta(seconds=5))
    clock.advance(10)
    altered = good[:-1] + ("A" if good[-1] != "A" else "B")
    unknown = "sk-dragoman-0123456789abcdef-" + "x" * 43
    wrong: list[dict[str, str]] = [{}, {"authorization": "Bearer"}, {"authorization": "Basic YTpi"}]
    wrong += [{"x-api-key": secret} for secret in ("hello", altered, unknown, revoked_secret, expired, "\udcff")]
    access = access_to(database, clock)

    async def messages() -> set[str]:
        found = set()
        for headers in wrong:
            with pytest.raises(AuthenticationError) as raised:
                await access.authenticate(headers)
            found.add(str(raised.value))
        return found

    (message,) = run(messages())
    assert "sk-dragoman" not in message
    assert run(access_to(database, clock).authenticate({"x-api-key": good})).key_id


def test_a_revoked_key_is_refused_by_another_replica_within_five_seconds(url: str) -> None:
    """A key that is revoked on one replica works on another one for three seconds at most."""
    here, there = Database(url), Database(url)
    clock = Clock()
    store = KeyStore(here, clock.now)
    key, secret = store.create()

    async def scenario() -> float:
        access = access_to(there, clock)
        await access.authenticate({"x-api-key": secret})
        store.revoke(key.id)
        for tenth in range(51):
            try:
                await access.authenticate({"x-api-key": secret})
            except AuthenticationError:
                return tenth / 10
            clock.advance(0.1)
            await asyncio.sleep(0)
        return 99.0

    assert run(scenario()) <= 3.1
    here.close()
    there.close()


@pytest.mark.parametrize("age", [0.24, 0.5])
def test_a_new_key_works_at_once_on_every_replica(database: Database, age: float) -> None:
    """A key that is missing from the copy in memory is looked for in the database.

    If the copy is so young that the database is not read for each wrong key, the request waits for it.
    """
    clock = Clock()
    store = KeyStore(database, clock.now)

    async def scenario() -> str | None:
        access = access_to(database, clock)
        with pytest.raises(AuthenticationError):
            await access.authenticate({"x-api-key": "nothing"})
        clock.advance(age)
        _, secret = store.create()
        caller: Caller = await access.authenticate({"x-api-key": secret})
        return caller.key_id

    assert run(scenario())


def test_a_rotated_key_keeps_its_old_secret_for_the_time_of_grace(database: Database) -> None:
    """After a rotation the new secret works, and the old one until the grace ends."""
    clock = Clock()
    store = KeyStore(database, clock.now)
    key, old = store.create(name="ci")
    _, new = store.rotate("ci", grace_until=clock.now() + timedelta(hours=1))

    async def works(secret: str) -> bool:
        try:
            return (await access_to(database, clock).authenticate({"x-api-key": secret})).key_id == key.id
        except AuthenticationError:
            return False

    assert (run(works(old)), run(works(new))) == (True, True)
    clock.advance(3_601)
    assert (run(works(old)), run(works(new))) == (False, True)
    _, newest = store.rotate("ci")
    assert (run(works(new)), run(works(newest))) == (False, True)
    store.revoke("ci")
    assert not run(works(newest))
    with pytest.raises(ConfigurationError):
        store.rotate("ci")


def test_keys_work_from_memory_while_the_database_is_gone_and_then_no_longer(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage of the database lets known keys pass for a time, and then closes the gateway with 503."""
    clock = Clock()
    _, secret = KeyStore(database, clock.now).create()

    async def fail(*_: Any) -> Any:
        raise DatabaseUnavailableError("gone")

    async def scenario() -> None:
        access = access_to(database, clock, max_outage=60)
        await access.authenticate({"x-api-key": secret})
        monkeypatch.setattr(database, "read", fail)
        clock.advance(59)
        await access.authenticate({"x-api-key": secret})
        clock.advance(2)
        with pytest.raises(OverloadedError) as raised:
            await access.authenticate({"x-api-key": secret})
        assert (raised.value.status, raised.value.retry_after) == (503, 5)

    run(scenario())


def test_a_caller_has_the_budgets_and_limits_of_its_key_user_and_team(database: Database) -> None:
    """Budgets and limits of a key, of its user and of its team count together; `user:*` stands for each user."""
    store = KeyStore(database)
    _, secret = store.create(user="ann", team="research", allowance=Allowance((parse_budget("5/day"),)))
    store.set_allowance("team:research", Allowance((parse_budget("50/month"),), (parse_limit("100/minute"),)))
    store.set_allowance("user:*", Allowance((parse_budget("1000 tokens/day"),)))
    store.set_allowance("user:bob", Allowance((parse_budget("1/day"),)))

    async def scenario() -> list[str]:
        cache = KeyCache(database)
        access = KeyAccess(cache, Admission(cache, Ledger(database), Rates(Limits(()))))
        allowances = cache.allowances_for(await access.authenticate({"x-api-key": secret}))
        return [str(part) for each in allowances.values() for part in (*each.budgets, *each.limits)]

    assert run(scenario()) == ["$5/day", "1,000 tokens/day", "$50/month", "100/minute"]
    store.set_allowance("team:research", None)
    assert sorted(store.allowances()) == ["user:*", "user:bob"]


def test_a_misspelt_setting_of_a_key_is_refused(database: Database) -> None:
    """A budget, a scope or an endpoint that would have no effect is an error."""
    store = KeyStore(database)
    for wrong in ({"endpoints": ("chats",)}, {"team": "a b"}, {"models": ("",)}, {"user": ""}):
        with pytest.raises(ConfigurationError):
            store.create(**wrong)  # type: ignore[arg-type]  # the values are of several types
    for scope in ("research", "key:1", "team:", "group:a"):
        with pytest.raises(ConfigurationError):
            store.set_allowance(scope, None)
    with pytest.raises(ConfigurationError):
        store.find("nobody")
    assert store.all() == ()
