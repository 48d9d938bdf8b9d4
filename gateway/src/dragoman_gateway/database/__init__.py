"""The gateway's own tables, which its replicas share: keys, spend, stored responses, owners of ids."""

from dragoman_gateway.database.database import Database, DatabaseUnavailableError

__all__ = ["Database", "DatabaseUnavailableError"]
