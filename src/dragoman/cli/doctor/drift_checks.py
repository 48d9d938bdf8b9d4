"""`dragoman doctor --drift`: names in the kept replies that this version does not know."""

from collections import Counter
from importlib.metadata import version
from pathlib import Path

from dragoman.adapter.replies.drift import drift_of
from dragoman.cli.doctor.findings import Finding, Findings, State

_REPORT = "report the line at https://github.com/dragoman-sdk/dragoman/issues"


def count_drift(url: str | None) -> Findings:
    """Count the unknown names of each provider in the store. It is opened for reading."""
    from sqlalchemy import make_url

    from dragoman.store import Store
    from dragoman.store.database import default_url

    place = default_url(create_folder=False) if url is None else make_url(url)
    if place.drivername.startswith("sqlite") and not Path(place.database or "").is_file():
        yield Finding(State.OK, "drift", "no conversation is kept yet")
        return
    replies = 0
    found: Counter[tuple[str, str, str]] = Counter()
    with Store(place, read_only=True) as store:
        for reply in store.billed_replies():
            replies += 1
            found.update(drift_of(reply))
    for (provider, kind, name), count in sorted(found.items()):
        line = (
            f"{provider} {kind.replace('_', ' ')} {name}: {count} of {replies} replies, dragoman {version('dragoman')}"
        )
        yield Finding(State.NOTE, "drift", line, _REPORT)
    if not found:
        yield Finding(State.OK, "drift", f"{replies} kept replies hold nothing that this version does not know")
