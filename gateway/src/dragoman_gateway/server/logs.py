"""What the gateway writes about its requests. No line holds a prompt, a reply or a key."""

import json
import logging
import sys
import time

from dragoman import Usage
from dragoman_gateway.running.metrics import RequestRecord

logger = logging.getLogger("dragoman.gateway.requests")


def configure_logs(level: str) -> None:
    """Write the records of the library and of the gateway to the standard error."""
    root = logging.getLogger("dragoman")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def log_request(record: RequestRecord) -> None:
    """Write one line about a request that has ended: a warning if the gateway or a provider failed."""
    level = logging.WARNING if record.status >= 500 or record.broken else logging.INFO
    if not logger.isEnabledFor(level):
        return
    known = {
        "request": record.request_id,
        "wire": record.wire,
        "key": record.key_id,
        "model": record.model,
        "status": record.status,
        "stream": record.stream,
        "broken": record.broken,
        "error": record.error,
        "seconds": round(time.perf_counter() - record.started_at, 3),
        "input_tokens": sum(map(_input_tokens, record.usages)),
        "output_tokens": sum(each.output_tokens for each in record.usages),
        "losses": len(record.losses),
    }
    logger.log(level, "%s", json.dumps({name: value for name, value in known.items() if value}, ensure_ascii=True))


def _input_tokens(usage: Usage) -> int:
    """Return all tokens of the prompt, those of a cache too."""
    return usage.total_tokens - usage.output_tokens
