"""`python -m tests.docs.screenshots FOLDER`: the pages of the docs, light and dark, on a phone and on a desktop."""

import logging
import sys
import tempfile
from pathlib import Path

from dragoman.view import page
from dragoman_gateway.endpoints.dashboard.render import render_report
from tests.docs.screenshots.chromium import Browser, browser, find_chromium
from tests.gateway.page.sample import sample_report
from tests.unit.view.handwritten_conversation import conversation

SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
PLACES = {"phone": "m10", "desktop": ""}
"""The visible part: on a phone, the first answer after a swap."""
MOST_BYTES = 150_000


def main(folder: Path) -> int:
    path = find_chromium()
    if path is None:
        print("no Chromium is installed: apt-get install chromium")
        return 2
    logging.getLogger("dragoman").setLevel(logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, browser(path) as tab:
        shown = Path(work, "page.html")
        shown.write_text(page(conversation(), title="The gauge at the lock"), encoding="utf-8")
        sizes = [
            _take(tab, shown, folder, f"view-{size}", dark=dark, place=PLACES[size], size=SIZES[size])
            for size in SIZES
            for dark in (False, True)
        ]
        shown.write_text(render_report(sample_report(), signed_in=True), encoding="utf-8")
        sizes += [
            _take(tab, shown, folder, f"gateway-{size}", dark=dark, size=SIZES[size])
            for size, dark in (("desktop", False), ("phone", True))
        ]
    return int(max(sizes) > MOST_BYTES)


def _take(
    tab: Browser, shown: Path, folder: Path, name: str, *, dark: bool, size: tuple[int, int], place: str = ""
) -> int:
    """Write one picture, and return its size in bytes."""
    tab.set_viewport(*size, dark=dark)
    tab.open(shown)
    tab.run(f"document.getElementById({place!r})?.previousElementSibling.scrollIntoView()")
    picture = tab.screenshot()
    to = folder / f"{name}-{'dark' if dark else 'light'}.png"
    to.write_bytes(picture)
    print(f"{to}: {len(picture):,} bytes")
    return len(picture)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
