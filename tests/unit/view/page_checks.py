"""What holds for every page, whatever its content."""

import base64
import hashlib

from tests.unit.view.document import Element, read

_TAGS = set(
    """document html head meta title style body a header div p h1 h2 h3 ul ol li span small bdi dl dt dd figure
    figcaption svg desc text line rect table thead tbody tr th td input button output nav main article aside details
    summary section code pre time i footer dialog kbd form img audio video strong script
    blockquote em s br hr h4 h5 h6""".split()  # noqa: SIM905
)


def check_page(page: str) -> Element:
    """The page's document, after checking every promise about it."""
    assert page.startswith("<!doctype html>")
    document = read(page)
    for element in document.walk():
        assert element.tag in _TAGS
        _check_attributes(element)
    ids = [element.attributes["id"] for element in document.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [link.attributes["href"] for link in document.all("a")]
    assert [link for link in links if link.startswith("#") and link[1:] not in ids] == []
    _check_policy(document)
    return document


def _check_attributes(element: Element) -> None:
    """No attribute runs anything, sets a style or refers to another host."""
    for name, value in element.attributes.items():
        assert not name.startswith("on")
        assert name not in ("style", "srcset", "action", "formaction", "background", "xlink:href")
        if name == "href" and not value.startswith("#"):
            assert value.startswith(("https://", "http://", "mailto:"))
            assert element.attributes["rel"] == "noopener noreferrer nofollow"
        if name == "src":
            assert element.tag in ("img", "audio", "video")
            assert value.startswith(("data:image/", "data:audio/", "data:video/"))
            assert not value.startswith("data:image/svg")


def _check_policy(document: Element) -> None:
    """One style and one script, whose hashes the policy names; nothing else is allowed except media inside the page."""
    style, script = document.one("style"), document.one("script")
    (policy,) = [
        meta.attributes["content"]
        for meta in document.all("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == (
        f"default-src 'none'; style-src '{_digest(style.text)}'; script-src '{_digest(script.text)}'; "
        "img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
    )
    head = document.one("head")
    assert head.inner.index(style) > next(
        index for index, part in enumerate(head.inner) if isinstance(part, Element) and "http-equiv" in part.attributes
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
