"""The settings of a bulk run, for editors and type checkers.

`python -m tests.upkeep.settings` writes this file from the declarations.
"""

from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

from dragoman.adapter.contract import AdapterOptions, Prices
from dragoman.bulk.progress import ProgressCallback
from dragoman.bulk.rows import Labels
from dragoman.configuration import ClientConfig, HasConfig
from dragoman.limits import Limits
from dragoman.limits.budget import Budget
from dragoman.session.identity import Pseudonyms
from dragoman.transport.settings import Providers


class RunSettings(TypedDict, total=False):
    """The settings that `RunConfig` declares."""

    template: str | None
    """The prompt, with {column} for a column of the row; by default that of the column ``prompt``."""
    system: str | None
    """The system prompt, a template too."""
    output: Any
    """The type of each answer, as in `Session.ask`. Its fields are columns."""
    to: str | Path | None
    """The file for the rows with their answers: .jsonl, .csv or .parquet."""
    prefix: str
    """Precedes the names of the columns that the run adds, such as ``answer`` and ``cost``."""
    progress: ProgressCallback | None
    """Is called with a `Progress` at intervals."""

    manifest: str | Path | None
    """The SQLite file or database URL that a run is resumed from; by default a file next to that of ``to``."""
    name: str
    """The name of the run in its manifest."""
    retry_errors: bool
    """Whether a resumed run sends rows again that were errors."""

    options: AdapterOptions | None
    """The options of each request, as one object."""
    client: ClientConfig | HasConfig | None
    """The client, whose settings hold here too; by default the one of `set_default_client`, if any."""
    providers: Providers | None
    """The settings of each provider, such as its key; see `ProviderSettings`."""
    concurrency: int
    """The maximum of requests in flight for each model. The actual number adapts to what the provider accepts."""
    limits: "Limits | None"
    """Delay each request until it may start."""
    budget: "Budget | Decimal | str | int | None"
    """What the whole run may spend, US dollars or a `Budget`. It stops the run."""
    prices: Prices | None
    """The price table; None is the bundled one."""

    labels: Labels | None
    """The security labels of a row: the name of a column, or a function of the row."""
    user_id: str | None
    """The user whose budgets pay for the run. It is stored with its rows."""
    team_id: str | None
    """The team whose budgets pay for the run. It is stored with its rows."""
    pseudonyms: Pseudonyms | None
    """Turns the ids of users and teams into pseudonyms, with a key of the program."""

    batch: bool
    """Whether the rows are submitted to the provider's batch API."""
    wait: bool
    """Whether the call waits for its batches. If not, a later call with the same arguments fetches the answers."""
    poll_every: float
    """The seconds between two looks at a batch."""
    ray: str | None
    """Sends the requests from a Ray cluster: an address that `ray.init` takes, or ``local`` for one on this machine."""
    workers: int | None
    """The number of workers of the Ray cluster, by default one for each node."""
