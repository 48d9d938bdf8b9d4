"""What both clients share: their configuration and their lifetime. One client may be the default of a program."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.usage import TokenUsage
from dragoman.configuration import ClientConfig, ClientSettings, HasConfig, client_config, set_default_config
from dragoman.configuration.session_store import SessionStore
from dragoman.session.cost import Cost, Meter
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.embeddings import Embeddings


class ClientBase:
    """Holds a `ClientConfig`."""

    def __init__(self, **settings: Unpack[ClientSettings]) -> None:
        """Raises ConfigurationError.

        Args:
            providers: The settings of each provider, such as its key; see `ProviderSettings`.
            options: The options of every session that has none of its own.
            router: Chooses the models of sessions that have no router of their own.

            policy: Judges everything that goes to a model or comes from one.
            extensions: The program's facts for the plugins, such as the user.
            limits: Delay each request until it may start.
            budgets: What may be spent, by default by the client in all.
            events: Receives the events of each turn.

            store: Saves each session.
            prices: The price table; None is the bundled one.
            on_exchange: Receives each attempt of a request to any provider as it went over the wire, without secrets,
                for debugging.
        """
        settings = seal_keys(settings)  # type: ignore[assignment]  # the same settings, before anything can fail
        self._set_config(ClientConfig.from_settings(settings))

    @classmethod
    def from_config(cls, path: str | Path | None = None, **settings: Unpack[ClientSettings]) -> Self:
        """Return the client that a configuration file describes; ``settings`` replace or extend those of the file.

        Without a path, the file is the one that DRAGOMAN_CONFIG names, else ``dragoman.toml`` in the working folder or
        in one above, else the one in the user's configuration folder; without any, nothing is set. Raises
        ConfigurationError with every mistake in the file, and for a project's file that has to be trusted first.
        """
        from dragoman.configuration.file import load_configuration

        settings = seal_keys(settings)  # type: ignore[assignment]  # as in __init__
        found = load_configuration(None if path is None else Path(path))
        client = cls(**(found or {}))
        return client.with_(**settings) if settings else client

    @property
    def config(self) -> ClientConfig:
        """The settings, which never change."""
        return self._config

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed. It then opens no session."""
        return self._config.lifetime.closed

    def with_(self, **changes: Unpack[ClientSettings]) -> Self:
        """Return a client with some settings replaced, which shares the connections: for a tenant, a job or a test.

        The settings of a provider are merged into those that it has. Closing one of the two does not close the other.
        """
        changes = seal_keys(changes)  # type: ignore[assignment]  # as in __init__
        self._config.lifetime.check()
        derived = type(self).__new__(type(self))
        derived._set_config(self._config.with_(**changes))
        return derived

    @property
    def cost(self) -> Cost:
        """What this object's sessions, questions and embeddings cost so far, in all threads: the replies, and what
        broke or was refused and is billed all the same.

        What stored sessions cost before they were resumed is not part of it. Bulk runs and batches have reports of
        their own. A client that is derived with `with_` counts for itself.
        """
        return self._meter.cost

    @property
    def usage(self) -> TokenUsage:
        """The tokens and tool calls of what `cost` counts."""
        return self._meter.usage

    def _set_config(self, config: ClientConfig) -> None:
        self._config, self._meter = config, Meter()
        config.lifetime.on_billed = self._meter.add

    @contextmanager
    def _count_embeddings(self, resumed: Any) -> "Iterator[Callable[[Embeddings], Embeddings]]":
        """Yield what counts the requests of one call; those of a call that fails are counted too. What it resumed is
        counted already."""

        def count(embedded: Any) -> Any:
            for receipt in embedded.receipts[0 if resumed is None else len(resumed.receipts) :]:
                self._meter.add(receipt)
            return embedded

        try:
            yield count
        except Exception as error:
            if (embedded := getattr(error, "embedded", None)) is not None:
                count(embedded)
            raise

    def _own(self, settings: Any) -> Any:
        """Return the settings of a session, a bulk run or batches of this client."""
        return {**seal_keys(settings), "client": self._config}

    def _store(self, store: SessionStore | None) -> SessionStore:
        found = store if store is not None else self._config.store
        if found is None:
            raise ConfigurationError("the client has no store: pass the one that holds the session")
        return found

    def __repr__(self) -> str:
        config: ClientConfig | None = getattr(self, "_config", None)
        if config is None:  # a debugger shows a client whose settings were refused
            return f"{type(self).__name__}()"
        names = (
            "providers",
            "options",
            "router",
            "policy",
            "extensions",
            "limits",
            "budgets",
            "events",
            "store",
            "prices",
        )
        shown = [name for name in names if getattr(config, name)]
        return f"{type(self).__name__}({', '.join(shown)}{', closed' if self.is_closed else ''})"


def set_default_client(client: HasConfig | None) -> None:
    """Let this client govern each `Session`, `ask`, `bulk` and `Batches` of the process that names no client. None
    removes it.

    Sessions that exist keep their settings. Raises ConfigurationError if the client is closed.
    """
    set_default_config(None if client is None else client_config(client))
