"""The settings of a bulk run, as it uses them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any

from dragoman.adapter.contract import AdapterOptions, Prices
from dragoman.bulk.concurrency import ConcurrencyController
from dragoman.bulk.progress import ProgressCallback
from dragoman.bulk.rows import Labels, Source
from dragoman.configuration import ClientConfig
from dragoman.limits import Limits
from dragoman.limits.budget import Budget
from dragoman.session.identity import Pseudonyms, resolve_identity

_RUNTIME_OPTIONS = ("context", "stream", "headers")
"""Options that do not change the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The settings of a run. ``options``, ``limits`` and ``prices`` are those of the client, if the run has none of its
    own."""

    source: Source
    models: Sequence[str]
    template: str | None = None
    """The prompt, with {column} for a column of the row; by default that of the column ``prompt``."""
    system: str | None = None
    """The system prompt, a template too."""
    output: Any = None
    """The type of each answer, as in `Session.ask`. Its fields are columns."""
    output_retries: int = 1
    to: Path | None = field(default=None, metadata={"accepts": "str | Path | None"})
    """The file for the rows with their answers: .jsonl, .csv or .parquet."""
    prefix: str = ""
    """Precedes the names of the columns that the run adds, such as ``answer`` and ``cost``."""
    progress: ProgressCallback | None = None
    """Is called with a `Progress` at intervals."""

    manifest: str | Path = field(default="sqlite://", metadata={"accepts": "str | Path | None"})
    """The SQLite file or database URL that a run is resumed from; by default a file next to that of ``to``."""
    name: str = "bulk"
    """The name of the run in its manifest."""
    retry_errors: bool = False
    """Whether a resumed run sends rows again that were errors."""

    options: AdapterOptions = field(default_factory=AdapterOptions, metadata={"accepts": "AdapterOptions | None"})
    """The options of each request, as one object."""
    client: ClientConfig = field(default_factory=ClientConfig, metadata={"accepts": "ClientConfig | HasConfig | None"})
    """The client, whose settings hold here too; by default the one of `set_default_client`, if any."""
    providers: Mapping[str, Mapping[str, Any]] | None = field(default=None, metadata={"accepts": "Providers | None"})
    """The settings of each provider, such as its key; see `ProviderSettings`."""
    concurrency: int = 64
    """The maximum of requests in flight for each model. The actual number adapts to what the provider accepts."""
    limits: "Limits | None" = None
    """Delay each request until it may start."""
    budget: "Budget | Decimal | str | int | None" = None
    """What the whole run may spend, US dollars or a `Budget`. It stops the run."""
    prices: Prices | None = None
    """The price table; None is the bundled one."""

    labels: Labels | None = None
    """The security labels of a row: the name of a column, or a function of the row."""
    user_id: str | None = None
    """The user whose budgets pay for the run. It is stored with its rows."""
    team_id: str | None = None
    """The team whose budgets pay for the run. It is stored with its rows."""
    pseudonyms: Pseudonyms | None = None
    """Turns the ids of users and teams into pseudonyms, with a key of the program."""

    batch: bool = False
    """Whether the rows are submitted to the provider's batch API."""
    wait: bool = True
    """Whether the call waits for its batches. If not, a later call with the same arguments fetches the answers."""
    poll_every: float = 60.0
    """The seconds between two looks at a batch."""
    ray: str | None = None
    """Sends the requests from a Ray cluster: an address that `ray.init` takes, or ``local`` for one on this machine."""
    workers: int | None = None
    """The number of workers of the Ray cluster, by default one for each node."""

    controller: Callable[[int], ConcurrencyController] = ConcurrencyController
    identity: tuple[str | None, str | None] = field(init=False)
    """The ids of the user and the team, as they are stored."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", resolve_identity(self.user_id, self.team_id, self.pseudonyms))

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings that must stay the same for a run to be resumed.

        Options that are not set do not count, so that a version with more options resumes the run as well.
        """
        options, unset = asdict(self.options), asdict(type(self.options)())
        relevant = {
            name: value for name, value in options.items() if name not in _RUNTIME_OPTIONS and value != unset[name]
        }
        digest = blake2b(repr(sorted(relevant.items())).encode(), digest_size=16).hexdigest()
        return {"prompt": self.template, "system": self.system, "options": digest}
