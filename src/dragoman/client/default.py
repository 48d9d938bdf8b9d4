"""The default client, which governs sessions, questions, bulk runs and batches that name none."""

from dragoman.runtime import HasConfig, client_config, set_default_config


def set_default_client(client: HasConfig | None) -> None:
    """Let this client govern each `Session`, `ask`, `bulk` and `Batches` of the process that names no client. None
    removes it.

    Sessions that exist keep their settings. Raises ConfigurationError if the client is closed.
    """
    set_default_config(None if client is None else client_config(client))
