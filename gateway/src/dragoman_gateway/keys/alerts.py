"""Alerts: a webhook is called when a share of a budget is spent or a price is unknown, after the reply is sent."""

import asyncio
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx
from pydantic import Field, SecretStr, field_validator

from dragoman_gateway.keys.admission import UnknownPrice
from dragoman_gateway.keys.ledger import CrossedThreshold
from dragoman_gateway.log import logger
from dragoman_gateway.toml import SettingsTable

_MAX_WAITING = 1000
_PAUSES = (1.0, 5.0)
"""Seconds before the second and the third attempt."""


class AlertSettings(SettingsTable):
    """The table ``[gateway.alerts]`` of dragoman.toml."""

    url: SecretStr
    """The address that is called. It may hold a secret, so nothing shows it."""
    at: tuple[Decimal, ...] = Field(default=(Decimal("0.8"), Decimal(1)), min_length=1)
    """The shares of a budget, above 0 and at most 1."""
    seconds: float = Field(default=5.0, gt=0)
    """How long an attempt may take."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr) -> SecretStr:
        if not url.get_secret_value().startswith(("https://", "http://")):
            raise ValueError("an address must begin with https:// or http://")
        return url

    @field_validator("at", mode="after")
    @classmethod
    def _check_shares(cls, shares: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
        if not all(0 < share <= 1 for share in shares):
            raise ValueError("a share of a budget must be above 0 and at most 1")
        return tuple(sorted(set(shares)))


class Alerts:
    """Calls the webhook. An alert that cannot be delivered is tried three times, then dropped and counted."""

    def __init__(self, settings: AlertSettings) -> None:
        self.settings = settings
        self._waiting: set[asyncio.Task[None]] = set()
        self.dropped = 0

    def send(self, cause: CrossedThreshold | UnknownPrice) -> None:
        """Send an alert in the background. This never waits."""
        if len(self._waiting) >= _MAX_WAITING:
            self.dropped += 1
            return
        task = asyncio.create_task(self._deliver(_describe(cause)))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def close(self) -> None:
        """Give waiting alerts the time of one attempt, and drop the others."""
        if not self._waiting:
            return
        _, late = await asyncio.wait(set(self._waiting), timeout=self.settings.seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        self.dropped += len(late)

    async def _deliver(self, alert: dict[str, Any]) -> None:
        for pause in (0.0, *_PAUSES):
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(self.settings.seconds), httpx.AsyncClient(timeout=None) as client:
                    reply = await client.post(self.settings.url.get_secret_value(), json=alert)
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
                logger.warning("the webhook of alerts failed: %s", type(error).__name__)
                continue
            if reply.is_success:
                return
            logger.warning("the webhook of alerts answered %d", reply.status_code)
        self.dropped += 1
        logger.error("an alert of %s could not be delivered", alert["scope"])


def _describe(cause: CrossedThreshold | UnknownPrice) -> dict[str, Any]:
    alert = {"id": f"alert_{uuid4().hex}", "scope": cause.scope}
    if isinstance(cause, UnknownPrice):
        return {"object": "price.alert", **alert, "model": cause.model, "estimated": cause.amount.to_json()}
    return {
        "object": "budget.alert",
        **alert,
        "budget": str(cause.budget),
        "share": format(cause.share, "f"),
        "spent": cause.spent.to_json(),
        "reserved": cause.reserved.to_json(),
        "left": cause.budget.left(cause.spent + cause.reserved).to_json(),
        "reset_at": None if cause.reset_at is None else cause.reset_at.isoformat(),
    }
