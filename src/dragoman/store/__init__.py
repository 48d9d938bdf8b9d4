"""A store for sessions in SQLite or PostgreSQL. It needs the extra ``dragoman[store]``."""

from dragoman.adapter.errors import MissingExtraError

try:
    from dragoman.store.async_store import AsyncStore
    from dragoman.store.errors import (
        ConflictError,
        SessionNotFoundError,
        StoreBusyError,
        StoreError,
        StoreVersionError,
        UnreadableError,
    )
    from dragoman.store.records import (
        ExportResult,
        RetentionRecord,
        SearchHit,
        SessionPage,
        SessionRecord,
        StoredCall,
        StoredSession,
        UserDeletion,
    )
    from dragoman.store.schema import citus_statements
    from dragoman.store.store import Store
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "sqlalchemy":
        raise
    raise MissingExtraError('the store needs SQLAlchemy: pip install "dragoman[store]"') from None

__all__ = [
    "AsyncStore",
    "ConflictError",
    "ExportResult",
    "RetentionRecord",
    "SearchHit",
    "SessionNotFoundError",
    "SessionPage",
    "SessionRecord",
    "Store",
    "StoreBusyError",
    "StoreError",
    "StoreVersionError",
    "StoredCall",
    "StoredSession",
    "UnreadableError",
    "UserDeletion",
    "citus_statements",
]
