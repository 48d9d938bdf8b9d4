"""The clients that are installed, each through a whole task with another wire behind."""

import pytest

from tests.gateway.agents import strict
from tests.gateway.agents.clients import CLIENTS, NODE_LIBRARIES, VARIABLE, folder, missing
from tests.gateway.agents.quickstart import run_quickstart
from tests.gateway.agents.recorded import record_and_replay
from tests.gateway.agents.report import OTHER_WIRES, run
from tests.gateway.agents.two_vendors import CLIENT, compare


@pytest.mark.exhaustive
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_ends_its_task(client: str) -> None:
    """It calls its tool, sends the result back, and shows the answer, without asking again and again."""
    installed = folder()
    if installed is None:
        pytest.skip(f"no clients are installed: python -m tests.gateway.agents --install FOLDER, and set {VARIABLE}")
    if reason := missing(client, installed):
        pytest.skip(reason)
    for model in OTHER_WIRES[CLIENTS[client]]:
        assert run(client, model, installed).problem == "", model


@pytest.mark.exhaustive
@pytest.mark.parametrize("behind", [*strict.WIRES, strict.MOCK])
@pytest.mark.parametrize("agent", strict.AGENTS)
def test_an_agent_ends_its_task_at_a_strict_provider(agent: str, behind: str) -> None:
    """With reasoning, parallel calls and an edit: nothing is refused, and the provider gets its state back."""
    installed = folder()
    if installed is None or not (installed / "npm" / "node_modules" / "@copilotkit").exists():
        pytest.skip(f"no agents are installed: python -m tests.gateway.agents.strict --install FOLDER ({VARIABLE})")
    if not (strict.tools() / "agent.py").exists():
        pytest.skip("the strict providers are not here: DRAGOMAN_CLIENTS names their folder")
    assert strict.run(agent, behind, installed).problem == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_an_agent_replays_its_recorded_task_twice_in_a_row(agent: str) -> None:
    """Other sessions, turns and processes, and the same task: the labels of a client do not count."""
    installed = folder()
    if installed is None or not (installed / "npm" / "node_modules" / ".bin" / agent).exists():
        pytest.skip(f"no agents are installed: python -m tests.gateway.agents.strict --install FOLDER ({VARIABLE})")
    if not (strict.tools() / "agent.py").exists():
        pytest.skip("the strict providers are not here: DRAGOMAN_CLIENTS names their folder")
    assert [printed[-700:] for printed in strict.record_and_replay(agent, installed) if " OK " not in printed] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("client", NODE_LIBRARIES)
def test_a_library_gets_its_recorded_conversation_without_a_provider(client: str) -> None:
    """A program of JavaScript records with `dragoman serve --record`, and replays with `--replay`."""
    installed = folder()
    if installed is None:
        pytest.skip(f"no clients are installed: python -m tests.gateway.agents.recorded --install FOLDER ({VARIABLE})")
    if reason := missing(client, installed):
        pytest.skip(reason)
    assert record_and_replay(client, installed).problem == ""


@pytest.mark.exhaustive
@pytest.mark.live_local
def test_the_command_of_the_quickstart_gets_an_answer() -> None:
    """Claude Code before the embedded model, with the options that docs/gateway.md names."""
    installed = folder()
    if installed is None or missing(CLIENT, installed):
        pytest.skip("Claude Code is not installed")
    problem, _ = run_quickstart(installed)
    assert problem == ""


@pytest.mark.parametrize(
    ("client", "stores"),
    [("anthropic", True), ("anthropic", False), pytest.param(CLIENT, True, marks=pytest.mark.exhaustive)],
)
def test_a_conversation_on_two_vendors_costs_the_same_everywhere(client: str, *, stores: bool) -> None:
    """The cost is the same in the page, in the metrics, in the ledger of the keys, in the store, and by the providers'
    own counts.
    """
    installed = folder()
    if client == CLIENT and (installed is None or missing(client, installed)):
        pytest.skip(
            f"Claude Code is not installed: python -m tests.gateway.agents --install FOLDER, and set {VARIABLE}"
        )
    costs = compare(client, stores=stores)
    assert costs.agree, costs
    assert costs.carried
    assert len(costs.requests) == 2
