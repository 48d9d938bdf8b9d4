"""The betas of Anthropic's SDK reach Anthropic; where something counts or judges, those that are unknown do not."""

import tomllib
from importlib import import_module
from importlib.resources import files
from typing import Any, get_args

import anthropic
import httpx
import pytest
from anthropic.types import AnthropicBetaParam

from dragoman.policy import PluginResult, Step, hook
from dragoman_gateway.wires import WIRES, matches
from tests.gateway.keyed import Start
from tests.gateway.upstream import gateway_before, question, whole_reply

BETAS = [each for part in get_args(AnthropicBetaParam) for each in get_args(part)]
RULES = next(wire.headers for wire in WIRES if wire.name == "messages")
KNOWN = [each for each in BETAS if matches(each, tuple(RULES.known_betas))]
UNKNOWN = [each for each in BETAS if each not in KNOWN]


def test_each_beta_of_the_sdk_stands_in_one_list() -> None:
    assert len(BETAS) > 50
    for beta in BETAS:
        listed = [*RULES.known_betas, *RULES.unknown_betas]
        assert sum(matches(beta, (glob,)) for glob in listed) >= 1, beta
        assert matches(beta, tuple(RULES.known_betas)) != matches(beta, tuple(RULES.unknown_betas)), beta


def test_what_is_said_of_a_beta_can_be_read_where_it_says() -> None:
    table = tomllib.loads(files("dragoman_gateway.wires").joinpath("headers.toml").read_text("utf-8"))["messages"]
    for beta, known in table["known_betas"].items():
        assert known["changes"], beta
        module, _, name = known["source"].rpartition(".")
        if module.startswith("anthropic"):
            assert hasattr(import_module(module), name), beta
        else:
            assert known["source"].startswith(
                ("https://platform.claude.com/docs/en/", "https://github.com/anthropics/")
            )
    assert all(each["unknown"] and each["why"] for each in table["unknown_betas"].values())


SKILLS = [{"type": "custom", "skill_id": "skill_01", "version": "latest"}]
OWN_SKILLS = [{"type": "anthropic", "skill_id": "pptx", "version": "latest"}]


def test_a_skill_of_another_key_is_an_unknown_one(start: Start) -> None:
    gateway = start(whole_reply("messages"), "messages", keys={"shared_ids": ("skill_of_all",)})
    shared = [{**SKILLS[0], "skill_id": "skill_of_all"}]
    for skills, status in ((SKILLS, 400), (OWN_SKILLS, 200), (shared, 200), ([*OWN_SKILLS, *SKILLS], 400)):
        sent = len(gateway.server.requests)
        body = {**question("messages", "house"), "container": {"skills": skills}}
        headers = {"x-api-key": gateway.secrets[0], "anthropic-beta": "skills-2025-10-02"}
        assert gateway.bare.post("/v1/messages", json=body, headers=headers).status_code == status
        assert len(gateway.server.requests) - sent == (status == 200)


def test_every_beta_reaches_anthropic() -> None:
    with (
        gateway_before(whole_reply("messages"), models={"house": "anthropic:m"}) as (url, server),
        anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client,
    ):
        for beta in (*BETAS, "made-up-2030-01-01"):
            client.beta.messages.create(
                model="house", max_tokens=9, messages=[{"role": "user", "content": "Hi"}], betas=[beta]
            )
            assert server.requests[-1].headers["anthropic-beta"] == beta


def test_a_key_with_a_budget_is_refused_an_unknown_beta_by_its_name(start: Start) -> None:
    gateway = start(whole_reply("messages"), "messages")
    bounded, free = gateway.create_key("100/month")[1], gateway.create_key()[1]
    for beta in KNOWN:
        assert _ask(gateway.bare, bounded, f"claude-code-20250219,{beta}").status_code == 200, beta
    sent = len(gateway.server.requests)
    for beta in (*UNKNOWN, "made-up-2030-01-01"):
        reply = _ask(gateway.bare, bounded, f"claude-code-20250219,{beta}")
        assert reply.status_code == 400
        assert beta in reply.json()["error"]["message"]
    assert len(gateway.server.requests) == sent
    assert _ask(gateway.bare, free, UNKNOWN[0]).status_code == 200


@hook("cmf.llm_input")
def look(step: Step) -> PluginResult:
    return PluginResult()


@pytest.mark.parametrize("model", ["anthropic:m", "openai-chat:m"])
def test_under_a_policy_an_unknown_beta_is_refused_if_it_would_be_sent(model: str) -> None:
    settings: dict[str, Any] = {"models": {"house": model}, "client": {"policy": [look]}}
    wire = "messages" if model.startswith("anthropic") else "chat"
    with gateway_before(whole_reply(wire), **settings) as (url, server):
        with httpx.Client(base_url=url) as client:
            status = _ask(client, "any", UNKNOWN[0]).status_code
        assert (status, len(server.requests)) == ((400, 0) if wire == "messages" else (200, 1))


def _ask(client: httpx.Client, secret: str, betas: str) -> httpx.Response:
    headers = {"x-api-key": secret, "anthropic-beta": betas}
    return client.post("/v1/messages", json=question("messages", "house"), headers=headers)
