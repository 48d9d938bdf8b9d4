"""`GET /gateway/spend`: what a key, its user and its team have spent, and what they may. An admin key sees all."""

from typing import Any

from dragoman_gateway.access import Caller
from dragoman_gateway.keys.admission import scopes_of
from dragoman_gateway.keys.key_cache import KeyCache
from dragoman_gateway.keys.ledger import Ledger, Statement
from dragoman_gateway.keys.records import NO_ALLOWANCE, Allowance


async def spend_page(ledger: Ledger, cache: KeyCache, caller: Caller) -> dict[str, Any]:
    """Return the same numbers that refusals name. Raises DatabaseUnavailableError."""
    allowances = cache.all_allowances() if caller.admin else _own(cache, caller)
    statements = await ledger.statements({scope: each.budgets for scope, each in allowances.items()})
    return {"object": "list", "data": [_entry(scope, statements[scope], allowances[scope]) for scope in allowances]}


def _own(cache: KeyCache, caller: Caller) -> dict[str, Allowance]:
    return {**dict.fromkeys(scopes_of(caller), NO_ALLOWANCE), **cache.allowances_for(caller)}


def _entry(scope: str, statement: Statement, allowance: Allowance) -> dict[str, Any]:
    return {
        "scope": scope,
        "spent": statement.total.to_json(),
        "reserved": statement.reserved.to_json(),
        "budgets": [
            {
                "budget": str(budget),
                "spent": spent.to_json(),
                "left": budget.left(spent + statement.reserved).to_json(),
                "reset_at": None if reset_at is None else reset_at.isoformat(),
            }
            for budget, spent, reset_at in statement.periods
        ],
        "limits": allowance.describe_limits(),
    }
