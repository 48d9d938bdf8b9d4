"""The gateway's own tables, which its replicas share: keys, spend, stored responses, owners of ids."""

from dragoman_gateway.database.database import (
    END_SECONDS,
    LANES,
    Database,
    DatabaseBusyError,
    DatabaseRejectedError,
    DatabaseUnavailableError,
    Lane,
    retry_for,
)

__all__ = [
    "END_SECONDS",
    "LANES",
    "Database",
    "DatabaseBusyError",
    "DatabaseRejectedError",
    "DatabaseUnavailableError",
    "Lane",
    "retry_for",
]
