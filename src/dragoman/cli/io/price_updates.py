"""`dragoman prices update`: installs newer prices and limits from a file or a URL, and reverts that."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import one_line
from dragoman.cli.io.console import console, show_line
from dragoman.cli.io.regular_files import check_regular
from dragoman.pricing import install_update, price_table, revert_update, use_update
from dragoman.pricing.updates import MAX_BYTES, outdated_rows

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TIMEOUT = 30.0
_MAX_NAMED = 5


def run(source: str | None, sha256: str | None, *, revert: bool) -> None:
    """Raises ConfigurationError if anything is wrong; then nothing changes."""
    if revert == (source is not None):
        raise ConfigurationError("name a file or a URL, or --revert: dragoman prices update FILE|URL [--sha256 HEX]")
    out, before = console(), price_table().version
    if source is None:
        restored = revert_update()
        use_update()
        what = (
            f"the update of {restored.date} is used again" if restored else "the prices are those of this release again"
        )
        out.print(show_line(f"{what}: price table {price_table().version}"), soft_wrap=True)
        return
    content = _fetch(source, sha256)
    update = install_update(content, source, sha256=sha256)
    use_update()
    out.print(show_line(f"installed the update of {update.date} from {source}"), soft_wrap=True)
    out.print(f"SHA-256 {update.sha256}", soft_wrap=True)
    if outdated := outdated_rows(content):
        named = ", ".join(outdated[:_MAX_NAMED]) + (" …" if len(outdated) > _MAX_NAMED else "")
        out.print(show_line(f"not used, because this release has newer ones: {named}"), soft_wrap=True)
    out.print(f"price table {before} -> {price_table().version}", soft_wrap=True)


def use_installed_update() -> None:
    """Make the command use the installed update. A damaged one is named, and not used."""
    try:
        use_update()
    except ConfigurationError as error:
        print(f"warning: {one_line(str(error))}", file=sys.stderr)


def _fetch(source: str, sha256: str | None) -> bytes:
    if "://" not in source:
        check_regular(Path(source))
        with Path(source).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    url = urlsplit(source)
    if url.scheme != "https" and not (url.scheme == "http" and url.hostname in _LOOPBACK):
        raise ConfigurationError(f"{source}: prices are taken from a file or an https URL")
    if sha256 is None:
        raise ConfigurationError("a file from the network needs --sha256, the SHA-256 that its publisher names")
    import httpx  # imported late: a file needs none

    content = bytearray()
    try:
        with httpx.stream("GET", source, timeout=_TIMEOUT, follow_redirects=False) as reply:
            if reply.status_code != httpx.codes.OK:
                raise ConfigurationError(f"{source} answers {reply.status_code}: name the address of the file itself")
            for chunk in reply.iter_bytes():
                content += chunk
                if len(content) > MAX_BYTES:
                    raise ConfigurationError(
                        f"{source} has more than {MAX_BYTES} bytes: it is not an update of the prices"
                    )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigurationError(f"{source} cannot be read: {type(error).__name__}: {error!s:.200}") from None
    return bytes(content)
