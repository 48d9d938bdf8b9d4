"""Headless Chromium, controlled through its own pipe: a fresh profile, and each of its requests is reported."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_END = b"\0"
_CHUNK = 1 << 16
_PATIENCE = 120.0
"""Seconds of silence; a loaded machine may take long to start it."""


def find_chromium() -> str | None:
    """Its path, if it is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab. ``requests`` are the addresses that it requested, ``faults`` the errors on its console."""

    def __init__(self, commands: int, replies: int) -> None:
        self._commands, self._replies = commands, replies
        self._numbers, self._rest = count(1), b""
        self._loaded: set[str] = set()
        """The loads that have ended, by the id of the loader: a blank page, too, may end after the next one began."""
        self._session: str | None = None
        self.requests: list[str] = []
        self.faults: list[str] = []
        self._frame: str = self.send_command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send_command("Target.attachToTarget", targetId=self._frame, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.send_command(f"{domain}.enable")
        self.send_command("Page.setLifecycleEventsEnabled", enabled=True)

    def open(self, page: Path | str) -> None:
        """Opens a page and waits until all of it is there."""
        self.requests.clear()
        self.faults.clear()
        loader = self.send_command("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)["loaderId"]
        while loader not in self._loaded:
            self._handle_event(self._read_message())

    def submit(self, script: str) -> None:
        """Runs a script that leads to another page, and waits until all of that is there."""
        before = set(self._loaded)
        self.run(script)
        while self._loaded == before:
            self._handle_event(self._read_message())

    def run(self, script: str) -> Any:
        """The value of an expression in the page; the page's policy does not apply to it."""
        result = self.send_command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The value of an expression in the page, as soon as it is true."""
        value = self.run(f"""new Promise(done => {{
            const end = Date.now() + {_PATIENCE / 2 * 1000};
            const look = () => {{
                const found = {script};
                found || Date.now() > end ? done(found || null) : setTimeout(look, 50);
            }};
            look();
        }})""")
        assert value, f"in the page this did not become true: {script}"
        return value

    def wait_for_frame(self) -> None:
        """Waits until the page has been drawn: only then has a field with ``autofocus`` the focus."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, key: str) -> None:
        """Presses a key as a person does."""
        text = {"text": key} if len(key) == 1 else {}
        self.send_command("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send_command("Input.dispatchKeyEvent", type="keyUp", key=key)

    def set_viewport(self, width: int, height: int, *, dark: bool = False, media: str = "") -> None:
        """Sets the size of the window in pixels, and the preferred colour scheme."""
        self.send_command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        calm = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send_command("Emulation.setEmulatedMedia", media=media, features=[feature, calm])

    def screenshot(self) -> bytes:
        """The visible part, as a PNG."""
        return base64.b64decode(self.send_command("Page.captureScreenshot", format="png")["data"])

    def send_command(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        os.write(self._commands, json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode())
        os.write(self._commands, _END)
        while True:
            reply = self._read_message()
            if reply.get("id") == number:
                if "error" in reply:
                    raise AssertionError(reply["error"])
                result: dict[str, Any] = reply["result"]
                return result
            self._handle_event(reply)

    def _handle_event(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Page.lifecycleEvent" if params["name"] == "load" and params["frameId"] == self._frame:
                self._loaded.add(params["loaderId"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.faults.append(params["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.faults.append(str(params["exceptionDetails"]))

    def _read_message(self) -> dict[str, Any]:
        while _END not in self._rest:
            if not select.select([self._replies], [], [], _PATIENCE)[0]:
                raise AssertionError("the browser says nothing")
            read = os.read(self._replies, _CHUNK)
            if not read:
                raise AssertionError("the browser is gone")
            self._rest += read
        line, _, self._rest = self._rest.partition(_END)
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def browser(path: str) -> Iterator[Browser]:
    """The browser, until the block ends."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The pipe's ends have to be 3 and 4 there; a shell arranges that without threads in this process.
        command = f'exec "$@" 3</dev/fd/{theirs_in} 4>/dev/fd/{theirs_out}'
        process = subprocess.Popen(
            ["/bin/sh", "-c", command, "sh", path, *_OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Browser(ours_out, ours_in)
        finally:
            os.close(ours_out)
            os.close(ours_in)
            process.kill()
            process.wait()
