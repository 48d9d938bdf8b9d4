"""The commands of `dragoman gateway`: what they create works, and what they show is what holds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman_gateway.keys.command import app

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    config = tmp_path / "dragoman.toml"
    config.write_text(f'[gateway]\ndatabase = "sqlite:///{(tmp_path / "gateway.db").as_posix()}"\n', encoding="utf-8")

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, [*arguments, "--config", str(config)])
        if code == 0 and result.exception is not None:
            raise result.exception
        return result.stdout

    return run


def rows(run: Run, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "--json"))
    return found


def test_a_key_is_created_listed_rotated_and_revoked(run: Run) -> None:
    """What a key may do is shown as it was written, and its secret is printed once."""
    created = json.loads(
        run(
            "keys", "create", "--name", "laptop", "--team", "research", "--budget", "50/month", "--models",
            "anthropic:*", "--limit", "100/minute", "--concurrency", "8",
            "--endpoints", "messages", "--expires", "30d", "--json",
        )
    )  # fmt: skip
    secret = created["key"]
    (row,) = rows(run, "keys", "list")
    assert (row["id"], row["name"], row["team"], row["state"]) == (created["id"], "laptop", "research", "active")
    assert (row["models"], row["endpoints"]) == (["anthropic:*"], ["messages"])
    assert (row["budgets"], row["limits"]) == (["$50/month"], ["100/minute", "8 at once"])
    rotated = json.loads(run("keys", "rotate", "laptop", "--grace", "1h", "--json"))
    assert (rotated["id"], rotated["key"] != secret) == (created["id"], True)
    assert created["id"] in run("keys", "revoke", "laptop")
    assert [row["state"] for row in rows(run, "keys", "list")] == ["revoked"]
    table = run("keys", "list")
    assert "research" in table
    assert secret[-43:] not in table


def test_limits_of_teams_and_users(run: Run) -> None:
    """Budgets of a team replace each other, are listed, and can be removed; a typing mistake is an error."""
    run("limits", "set", "team:research", "--budget", "500/month")
    run("limits", "set", "team:research", "--budget", "900/month", "--budget", "1000000 tokens/day")
    assert rows(run, "limits", "list") == [
        {"scope": "team:research", "budgets": ["$900/month", "1,000,000 tokens/day"], "limits": []}
    ]
    run("limits", "set", "user:*", "--concurrency", "2 closed")
    assert rows(run, "limits", "list")[1] == {"scope": "user:*", "budgets": [], "limits": ["2 at once"]}
    run("limits", "remove", "user:*")
    run("limits", "remove", "team:research")
    assert rows(run, "limits", "list") == []
    for wrong in (
        ("limits", "set", "research", "--budget", "5"),
        ("limits", "set", "team:research"),
        ("limits", "set", "team:research", "--budget", "5/fortnight"),
        ("limits", "set", "team:research", "--concurrency", "0"),
        ("keys", "revoke", "nobody"),
        ("keys", "create", "--endpoints", "mesages"),
        ("keys", "create", "--user", "ann@example.com"),
        ("limits", "set", "user:ann@example.com", "--budget", "5"),
    ):
        assert run(*wrong, code=2) == ""
    assert rows(run, "keys", "list") == []


def test_spend_is_empty_before_the_first_request(run: Run) -> None:
    """Without a request nothing was spent, by anyone."""
    assert rows(run, "keys", "spend") == []
    assert rows(run, "keys", "spend", "team:research", "--period", "total") == []
