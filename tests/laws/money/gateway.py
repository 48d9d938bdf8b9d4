"""A gateway before the provider of the law, in a thread of this process or in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

from dragoman import AsyncClient
from dragoman.messages import CostStatus, TokenUsage, Usage
from dragoman.transport import RetryPolicy
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.serving import serving
from tests.gateway.upstream import KEY
from tests.laws.money.provider import PROVIDERS, RENAMED

PRICE = Decimal("0.00001")


class PerToken:
    """Each token costs the same, but a tier or a model that was not asked has no known price."""

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        counts = {name: getattr(usage, name) for name in ("input_tokens", "output_tokens")}
        if model_id.endswith(RENAMED) or usage.service_tier == "priority":
            return Usage(**counts, cost_usd=None, cost_status=CostStatus.UNPRICED)
        return Usage(**counts, cost_usd=sum(counts.values()) * PRICE, cost_status=CostStatus.PRICED)


def client_settings(provider: str) -> dict[str, Any]:
    """Return the settings of a client of the provider at that address."""
    base = {"api_key": KEY, "retry": RetryPolicy(max_retries=0)}
    versions = dict.fromkeys(PROVIDERS.values(), "") | {"openai": "/v1", "openai-chat": "/v1"}
    providers = {name: {**base, "base_url": provider + version} for name, version in versions.items()}
    return {"prices": PerToken(), "providers": providers}


@contextmanager
def gateway(provider: str, database: str) -> Iterator[str]:
    """Yield the address of a gateway in a thread of this process."""
    models = {f"house-{wire}": f"{name}:m" for wire, name in PROVIDERS.items()}
    settings = GatewaySettings(models=models, database=database)
    with serving(create_app(settings, client=AsyncClient(**client_settings(provider)))) as url:
        yield url


@contextmanager
def gateway_process(provider: str, database: str) -> Iterator[str]:
    """Yield the address of a gateway in a process of its own."""
    command = (sys.executable, "-m", __spec__.name, provider, database)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def main(provider: str, database: str) -> None:
    with gateway(provider, database) as url:
        print(url, flush=True)
        sys.stdin.read()  # until the other process ends


if __name__ == "__main__":
    main(*sys.argv[1:])
