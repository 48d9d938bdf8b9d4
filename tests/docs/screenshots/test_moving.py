"""The README's moving picture: small, harmless, and of this version's demo."""

import re
from xml.etree import ElementTree

from tests.docs.screenshots.moving import draw
from tests.docs.snippets import ROOT

PICTURE = ROOT / "docs" / "images" / "demo.svg"
MOST_BYTES = 40_000


def test_the_picture_is_small_and_loads_nothing() -> None:
    """Sites show an SVG as an image only if it has no script and no reference to another file."""
    picture = PICTURE.read_text(encoding="utf-8")
    root = ElementTree.fromstring(picture)
    assert len(picture.encode()) < MOST_BYTES
    assert {each.tag.rpartition("}")[2] for each in root.iter()} == {"svg", "style", "rect", "circle", "g", "text"}
    assert "url(" not in picture
    assert "@import" not in picture
    assert not any("href" in name or name.startswith("on") for each in root.iter() for name in each.attrib)


def test_the_picture_shows_the_demo() -> None:
    """The recorded part of the demo is the same in each run."""
    words = " ".join(ElementTree.fromstring(PICTURE.read_text(encoding="utf-8")).itertext())
    for shown in ("The port is 8080.", "The sum is 42.", "nothing is lost", "embedded model, live", "cost there"):
        assert shown in words


def test_lines_appear_one_after_the_other() -> None:
    """With their colours; the screen scrolls when it is full, and text stays text."""
    picture = draw([f"\x1b[36mline {number}\x1b[0m <b>" for number in range(40)])
    words = list(ElementTree.fromstring(picture).itertext())
    assert "line 0" in words
    assert " <b>" in words or "<b>" in words
    shares = [float(each) for each in re.findall(r"@keyframes l\d+\{0%\{opacity:0\}([\d.]+)%", picture)]
    assert shares == sorted(set(shares))
    assert "translateY(-304px)" in picture
