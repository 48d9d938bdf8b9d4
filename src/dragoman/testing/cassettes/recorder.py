"""Records and replays below every HTTP client that vcrpy supports: httpx, httpx2, aiohttp, urllib3, botocore.

vcrpy patches the clients; this module decides what is replayed, recorded and kept. Importing it imports vcrpy.
"""

import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # vcrpy's warnings about clients that it looks for do not concern the caller
    import vcr.cassette  # type: ignore[import-untyped]
    import vcr.filters  # type: ignore[import-untyped]

from dragoman.credentials.cached import FETCHING
from dragoman.private_files import replace_file
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, request_target
from dragoman.testing.cassettes.file import Recording, dumps, loads, new_recording
from dragoman.testing.cassettes.replay import Cassette, CassetteMissError
from dragoman.testing.cassettes.secrets import Scanner, credentials_of, known_values, mask_logs
from dragoman.testing.cassettes.vcrpy import (
    KEY_ARGUMENTS,
    flatten_headers,
    to_recorded_request,
    to_recorded_response,
    to_vcr_response,
    today,
)

MODES = ("none", "once", "new_episodes", "all", "rewrite")
_RECORDING = frozenset({"all", "rewrite", "new_episodes"})
last_played: ContextVar[int | None] = ContextVar("playing", default=None)
"""The number of the exchange that was last replayed to this task or thread."""


@dataclass(slots=True)
class Recorder:
    """One cassette in use. ``cassette`` is the one that is replayed, ``recorded`` has the new exchanges.

    ``misses`` lists requests without a matching exchange, even if the code under test swallowed the error.
    """

    path: Path
    cassette: Cassette
    loaded: Recording
    recording: bool = False
    """Whether requests without a matching exchange go to the network and are recorded."""
    allow_repeats: bool = False
    recorded: list[Exchange] = field(default_factory=list)
    misses: list[CassetteMissError] = field(default_factory=list)
    scanner: Scanner = field(default_factory=lambda: Scanner(known_values()), repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def unplayed(self) -> int:
        return self.cassette.unplayed

    def take(self, request: RecordedRequest) -> int | None:
        """Return the number of the matching exchange, or None to use the network. Raises CassetteMissError."""
        try:
            return self.cassette.take(request, allow_repeats=self.allow_repeats)
        except CassetteMissError as found:
            if self.recording:
                return None
            miss = found
            if not self.path.exists():
                provider = request_target(request).reader or "PROVIDER"
                miss = CassetteMissError(
                    f"there is no recording {self.path.name} in {self.path.parent}: store a key with"
                    f" `dragoman keys set {provider}`, and record it with `pytest --record-mode=once`"
                )
            self.misses.append(miss)
            raise miss from None

    def add(self, exchange: Exchange, uri: str, headers: Mapping[str, str]) -> None:
        """Keep an exchange, and the credentials of its request, so that a reply that contains one is rejected."""
        parts = urlsplit(uri)
        known = credentials_of(headers)
        known.update(value for name, value in parse_qsl(parts.query) if name in KEY_ARGUMENTS)
        known.update(unquote(each) for each in (parts.password,) if each)
        with self._lock:
            self.scanner = self.scanner.with_known(known)
            self.recorded.append(exchange)

    def write(self) -> None:
        """Write the new exchanges atomically: for their owner only, or with the rights of the file that is replaced.

        Raises SecretFoundError.
        """
        if not self.recorded:
            return
        kept = self.cassette.exchanges
        server = self.cassette.server or ", ".join(dict.fromkeys(each.request.host or "" for each in self.recorded))
        text = dumps(new_recording([*kept, *self.recorded], server=server, recorded=today()), self.scanner)
        replace_file(self.path, text, keep_rights=True)


@contextmanager
def cassette(path: Path | str, mode: str = "none", *, allow_repeats: bool = False) -> Iterator[Recorder]:
    """Replay or record the traffic of every HTTP client. With ``allow_repeats`` an exchange may be replayed repeatedly.

    Raises SecretFoundError on exit if the recording contains a secret.
    """
    path = Path(path)
    exists = path.exists()
    loaded = loads(path.read_text(encoding="utf-8")) if exists and mode not in ("all", "rewrite") else Recording("", [])
    replay = Cassette(loaded.server, list(loaded.exchanges), path.name)
    recorder = Recorder(path, replay, loaded, mode in _RECORDING or (mode == "once" and not exists), allow_repeats)
    with mask_logs(lambda: recorder.scanner), _VcrCassette.use(path=str(path), recorder=recorder):
        yield recorder
    recorder.write()


class _VcrCassette(vcr.cassette.Cassette):  # type: ignore[misc] # vcrpy has no types
    """The cassette that vcrpy's patches use. It stores nothing, and vcrpy never writes the file."""

    def __init__(self, recorder: Recorder, **settings: Any) -> None:
        super().__init__(**settings)
        self._recorder = recorder
        self._before_record_request = lambda request: None if self._is_left_out else request

    @property
    def _is_left_out(self) -> bool:
        """Whether this is a request for credentials, which goes to its server and is not recorded."""
        return FETCHING.get() and self._recorder.recording

    def _load(self) -> None:
        self.rewound = True

    def _save(self, force: bool = False) -> None:
        pass

    @property
    def write_protected(self) -> bool:
        return not self._recorder.recording

    def can_play_response_for(self, request: Any) -> bool:
        """Some clients look up one request twice: it keeps its exchange."""
        if self._is_left_out:
            return False
        if not hasattr(request, "exchange"):
            request.exchange = self._recorder.take(_to_recorded(request))
        return request.exchange is not None

    def play_response(self, request: Any) -> dict[str, Any]:
        if not self.can_play_response_for(request):
            raise CassetteMissError("this request was not recorded")
        last_played.set(request.exchange)
        return to_vcr_response(self._recorder.cassette.exchanges[request.exchange].response)

    def append(self, request: Any, response: dict[str, Any]) -> None:
        if self._is_left_out:
            return
        answer = to_recorded_response(vcr.filters.decode_response(response))
        self._recorder.add(Exchange(_to_recorded(request), answer), request.uri, flatten_headers(request.headers))


def _to_recorded(request: Any) -> RecordedRequest:
    body = getattr(request, "body_bytes", request.body)
    return to_recorded_request(request.method, request.uri, body, request.headers)
