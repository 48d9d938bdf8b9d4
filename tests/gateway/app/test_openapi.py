"""The OpenAPI document, held against the gateway by Schemathesis, which makes up requests from it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway import scripted
from tests.gateway.keyed import keyed
from tests.gateway.upstream import whole_reply


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["anthropic:claude-opus-4-8", "google:gemini-3-pro-preview", "openai:gpt-5.4"])
def test_an_open_gateway_answers_as_it_is_described(model: str, tmp_path: Path) -> None:
    with scripted.gateway_before(scripted.Upstream(), models={"*": model}) as address:
        _hold_to_description(address, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("knows_a_key", [True, False])
def test_a_gateway_with_keys_answers_as_it_is_described(knows_a_key: bool, tmp_path: Path) -> None:
    with keyed(tmp_path) as start:
        gateway = start(whole_reply("chat"), models={"*": "openai-chat:m"})
        # A few requests without a key are enough: each has to wait, as those with unknown keys.
        options = (
            [f"--header=Authorization: Bearer {gateway.secrets[0]}"]
            if knows_a_key
            else ["--phases=fuzzing", "--max-examples=1"]
        )
        _hold_to_description(gateway.url, tmp_path, *options)


def _hold_to_description(address: str, folder: Path, *options: str) -> None:
    """Fail if a reply is not one of those that the document describes for its request."""
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json", "--checks=all",
        "--exclude-checks=positive_data_acceptance",  # a provider says what else a body needs
        "--phases=coverage,fuzzing", "--generation-deterministic", "--max-examples=8", "--no-color",
        "--request-timeout=120", "--suppress-health-check=too_slow", *options,  # the machine may be busy
    ]  # fmt: skip
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, "NO_PROXY": "*"}, capture_output=True, text=True, timeout=1800
    )
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert " passed" in ended.stdout
