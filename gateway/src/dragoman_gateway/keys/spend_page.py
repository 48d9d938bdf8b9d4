"""`GET /gateway/spend`: what a key, its user and its team have spent, and what they may. An admin key sees all."""

from decimal import Decimal
from typing import Any

from dragoman_gateway.access import Caller
from dragoman_gateway.keys.admission import scopes_of
from dragoman_gateway.keys.amounts import PeriodBudget
from dragoman_gateway.keys.bookings import Amount
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
        "spent": _amount(statement.total),
        "reserved": _amount(statement.reserved),
        "budgets": [
            {
                "budget": str(budget),
                "spent": _amount(spent),
                "left": _left(budget, spent + statement.reserved),
                "reset_at": None if reset_at is None else reset_at.isoformat(),
            }
            for budget, spent, reset_at in statement.periods
        ],
        "limits": allowance.describe_limits(),
    }


def _left(budget: PeriodBudget, used: Amount) -> dict[str, Any]:
    """Return what a request may still reserve; None of what the budget does not limit."""
    usd = None if budget.usd is None else format(max(budget.usd - used.usd, Decimal(0)), "f")
    return {"usd": usd, "tokens": None if budget.tokens is None else max(budget.tokens - used.tokens, 0)}


def _amount(amount: Amount) -> dict[str, Any]:
    """Return dollars as text: JSON numbers are floats to most readers."""
    return {"usd": format(amount.usd, "f"), "tokens": amount.tokens}
