"""A folder of cassettes with one file for each exchange, for servers that record and replay their traffic."""

import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dragoman.adapter.errors import ConfigurationError
from dragoman.private_files import create_private_folder, open_private
from dragoman.testing.cassettes.exchange import Exchange, RecordedResponse
from dragoman.testing.cassettes.file import dumps, new_recording, read_recording, scrub_recording
from dragoman.testing.cassettes.labels import Labels
from dragoman.testing.cassettes.replay import Cassette
from dragoman.testing.cassettes.secrets import Scanner, credentials_of, known_values
from dragoman.testing.cassettes.vcrpy import to_recorded_request, today

__all__ = ["CassetteReader", "CassetteWriter"]

_DIGITS = 5
_NAMED = "[0-9]" * _DIGITS + "-*.yaml"


class CassetteWriter:
    """Writes exchanges into a folder, whose files are numbered. Several processes may write into one folder."""

    def __init__(self, folder: Path, *, server: str) -> None:
        """``server`` is the name of the server that answers. The folder is made if there is none.
        Only their owner can read the files."""
        create_private_folder(folder)
        self._folder = folder
        self._server = server
        self._lock = threading.Lock()
        self._number = max((int(path.name[:_DIGITS]) for path in folder.glob(_NAMED)), default=0)

    def new_number(self) -> int:
        """Return the number of the next exchange, which may be written later, in any thread."""
        with self._lock:
            self._number += 1
            return self._number

    def write(
        self, number: int, method: str, url: str, headers: Mapping[str, str], body: bytes, response: RecordedResponse
    ) -> None:
        """Write an exchange under its number, or the next free one. The bodies are decompressed.

        Only headers that are allowed in cassettes are kept, and what looks like a secret is masked. Raises
        SecretFoundError, and writes nothing, if one cannot be masked.
        """
        exchange = Exchange(to_recorded_request(method, url, body, headers), response)
        scanner = Scanner(known_values() | credentials_of(headers))
        recording = scrub_recording(new_recording([exchange], server=self._server, recorded=today()), scanner)
        text, end = dumps(recording, scanner), unquote(urlsplit(exchange.request.path).path).rpartition("/")[2]
        operation = re.sub(r"[^A-Za-z0-9]+", "-", end).strip("-")[:60] or "request"
        while True:
            path = self._folder / f"{number:0{_DIGITS}}-{operation}.yaml"
            with self._lock, suppress(FileExistsError):
                if not any(self._folder.glob(f"{number:0{_DIGITS}}-*.yaml")):
                    with open(path, "x", encoding="utf-8", newline="\n", opener=open_private) as file:
                        file.write(text)
                    return
            number += 1  # another process has used this one


class CassetteReader:
    """Answers requests from the cassettes of a folder, in any number of threads.

    Raises ConfigurationError if the folder has no cassette, or one cannot be read.
    """

    def __init__(self, folder: Path, labels: Labels | None = None) -> None:
        """``labels`` do not count in requests; the default are those of known clients."""
        exchanges = [each for path in sorted(folder.glob("*.yaml")) for each in read_recording(path).exchanges]
        if not exchanges:
            raise ConfigurationError(f"{folder} has no cassettes")
        self._cassette = Cassette("", exchanges, folder.name, labels)

    def find(self, method: str, url: str, body: bytes) -> RecordedResponse:
        """Return the reply to a request that means the same as a recorded one. Equal requests get their replies in the
        recorded order, and the last one again and again. Raises CassetteMissError.
        """
        number = self._cassette.take(to_recorded_request(method, url, body, {}), allow_repeats=True)
        return self._cassette.exchanges[number].response
