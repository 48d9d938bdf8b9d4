"""No member of an SDK's unions is lost on its way to the canonical form and back."""

import pytest

from tests.conformance.unions.construct import objects
from tests.conformance.unions.return_trip import EXCEPTIONS, outcomes
from tests.conformance.unions.wires import UNIONS

FEWEST = {"anthropic": 40, "openai": 60, "openai-chat": 10, "google": 25, "google-interactions": 40, "ollama": 1}
"""Members that each SDK has at least: a constructor that finds none would prove nothing."""


@pytest.mark.parametrize("provider", UNIONS)
def test_every_member_comes_back(provider: str) -> None:
    """What does not come back has a reason, and each reason is still needed."""
    assert UNIONS[provider].is_installed
    found = list(outcomes(provider))
    assert len({each.member.key for each in found}) >= FEWEST[provider]
    failed = {each.member.key: each.problem for each in found if each.problem}
    assert failed.keys() == EXCEPTIONS.get(provider, {}).keys(), failed


def test_all_alternatives_are_constructed() -> None:
    """A member of an inner union occurs in some value."""
    from openai.types.responses import ResponseComputerToolCall

    kinds = {str(value.get("actions") or value.get("action")) for value in objects(ResponseComputerToolCall)}
    assert all(any(f"'type': '{kind}'" in each for each in kinds) for kind in ("click", "drag", "wait", "scroll"))
