"""The gateway's log of its requests. No line contains a prompt, a reply or a key."""

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any

from dragoman_gateway.running.metrics import PRESENT_REQUEST, RequestRecord

logger = logging.getLogger("dragoman.gateway.requests")

_FIELDS = "request_fields"
"""The attribute of a record with what is known of a request that has ended."""


class JsonLines(logging.Formatter):
    """Writes each record as one JSON object: time, level, logger, message, the id of the request, and the known fields
    of a request that has ended."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if request := PRESENT_REQUEST.get():
            line["request"] = request
        fields = getattr(record, _FIELDS, None)
        line |= {"message": record.getMessage()} if fields is None else fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def configure_logs(level: str, form: str = "text") -> None:
    """Write the records of the library and of the gateway to the standard error; as JSON lines, those of the server
    too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLines() if form == "json" else logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    for name in ("dragoman", "uvicorn") if form == "json" else ("dragoman",):
        source = logging.getLogger(name)
        source.handlers[:] = [handler]
        source.setLevel(level.upper() if name == "dragoman" else logging.WARNING)
        source.propagate = False


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
        "input_tokens": sum(each.prompt_tokens for each in record.usages),
        "output_tokens": sum(each.output_tokens for each in record.usages),
        "losses": len(record.losses),
    }
    fields = {name: value for name, value in known.items() if value}
    logger.log(level, "%s", json.dumps(fields, ensure_ascii=True), extra={_FIELDS: fields})
