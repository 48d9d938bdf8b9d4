"""`python -m tests.docs.screenshots FOLDER`: the page of the docs, light and dark, on a phone and on a desktop."""

import logging
import sys
import tempfile
from pathlib import Path

from dragoman.view import page
from tests.docs.screenshots.chromium import browser, find_chromium
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
    failed = False
    with tempfile.TemporaryDirectory() as work, browser(path) as tab:
        shown = Path(work, "page.html")
        shown.write_text(page(conversation(), title="The gauge at the lock"), encoding="utf-8")
        for size, (width, height) in SIZES.items():
            for dark in (False, True):
                tab.set_viewport(width, height, dark=dark)
                tab.open(shown)
                tab.run(f"document.getElementById({PLACES[size]!r})?.previousElementSibling.scrollIntoView()")
                picture = tab.screenshot()
                to = folder / f"view-{size}-{'dark' if dark else 'light'}.png"
                to.write_bytes(picture)
                failed = failed or len(picture) > MOST_BYTES
                print(f"{to}: {len(picture):,} bytes")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
