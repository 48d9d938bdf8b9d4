"""`dragoman prices update`: explicit, checked, and reverted by one option."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.app import app
from dragoman.pricing import price_table, use_update
from tests.unit.pricing.test_updates import UPDATE

DIGEST = hashlib.sha256(UPDATE).hexdigest()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / "configuration" / name)
    yield tmp_path / "configuration" / "dragoman" / "prices"
    use_update(tmp_path / "none")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_file_is_installed_used_and_reverted(tmp_path: Path) -> None:
    """Every command after it uses the new rows, until they are reverted."""
    file, plain = tmp_path / "update.toml", price_table().version
    file.write_bytes(UPDATE)
    assert isinstance(run("prices", "anthropic:claude-opus-7").exception, ConfigurationError)
    done = run("prices", "update", str(file))
    assert done.exit_code == 0, done.output
    assert DIGEST in done.output
    assert "anthropic:claude-opus-5" in done.output.partition("not used")[2]
    assert f"{plain} -> 2027-01-02+" in done.output
    assert "$7" in run("prices", "anthropic:claude-opus-7").output.replace(" 7", "$7")
    assert "2000000" in run("models", "anthropic:claude-opus-7").output
    reverted = run("prices", "update", "--revert")
    assert plain in reverted.output
    assert isinstance(run("prices", "anthropic:claude-opus-7").exception, ConfigurationError)


def test_a_damaged_update_is_named_and_not_used(tmp_path: Path, folder: Path) -> None:
    """Every command works on, with the prices of the release."""
    file = tmp_path / "update.toml"
    file.write_bytes(UPDATE)
    run("prices", "update", str(file))
    (folder / f"{DIGEST}.toml").write_bytes(b"")
    use_update(tmp_path / "none")
    done = run("prices", "anthropic:claude-opus-5-5")
    assert done.exit_code == 0
    assert "warning" in done.stderr
    assert "--revert" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--revert"),
        (["x.toml", "--revert"], "--revert"),
        (["nothing.toml"], "no file"),
        (["http://prices.example/update.toml"], "https"),
        (["ftp://prices.example/update.toml"], "https"),
        (["https://prices.example/update.toml"], "--sha256"),
        (["/dev/zero"], "device"),
    ],
)
def test_what_cannot_be_installed_is_refused(words: list[str], message: str) -> None:
    """Before anything is fetched or written."""
    error = run("prices", "update", *words).exception
    assert isinstance(error, ConfigurationError)
    assert message in str(error)


def test_options_of_update_belong_to_it_alone() -> None:
    error = run("prices", "check", "--revert").exception
    assert isinstance(error, ConfigurationError)
    assert "prices update" in str(error)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_known = self.path == "/update.toml"
        self.send_response(200 if is_known else 404)
        self.end_headers()
        self.wfile.write(UPDATE if is_known else b"no")

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def test_a_url_needs_the_checksum_of_its_publisher() -> None:
    """Whatever answers, only the named file is installed."""
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            base = f"http://127.0.0.1:{server.server_port}"
            wrong = run("prices", "update", f"{base}/update.toml", "--sha256", "0" * 64)
            missing = run("prices", "update", f"{base}/other.toml", "--sha256", DIGEST)
            done = run("prices", "update", f"{base}/update.toml", "--sha256", DIGEST)
        finally:
            server.shutdown()
            thread.join()
    assert "SHA-256" in str(wrong.exception)
    assert "404" in str(missing.exception)
    assert done.exit_code == 0, done.output
