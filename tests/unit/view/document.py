"""Reads pages as a browser's parser does, as far as the standard library allows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = frozenset({"meta", "img", "input", "br", "hr", "link", "line", "rect"})


@dataclass
class Element:
    """``inner`` holds elements and texts, in order."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    inner: "list[Element | str]" = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.inner)

    @property
    def words(self) -> str:
        """The text, each run of white space as one space."""
        return " ".join(self.text.split())

    def walk(self) -> "Iterator[Element]":
        yield self
        for part in self.inner:
            if isinstance(part, Element):
                yield from part.walk()

    def all(self, selector: str) -> "list[Element]":
        """``tag``, ``.class``, ``#id`` or ``tag.class``, among the descendants."""
        return [element for element in self.walk() if element is not self and _fits(selector)(element)]

    def one(self, selector: str) -> "Element":
        (found,) = self.all(selector)
        return found

    @property
    def shape(self) -> object:
        """Tags and the names of their attributes, without any text."""
        inner = [part.shape for part in self.inner if isinstance(part, Element)]
        return (self.tag, tuple(sorted(self.attributes)), tuple(inner))


def _fits(selector: str) -> Callable[[Element], bool]:
    if selector.startswith("#"):
        return lambda element: element.attributes.get("id") == selector[1:]
    tag, _, name = selector.partition(".")
    return lambda element: (not tag or element.tag == tag) and (not name or name in element.classes)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document")]
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        if len(element.attributes) != len(attrs):
            self.faults.append(f"an attribute twice on {tag}")
        self.open[-1].inner.append(element)
        if tag not in _EMPTY:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].inner.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1].tag != tag:
            self.faults.append(f"</{tag}> in <{self.open[-1].tag}>")
            return
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inner.append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append("a comment")


def read(page: str) -> Element:
    """The page's document. Raises AssertionError if elements overlap or stay open."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.faults == []
    assert [element.tag for element in reader.open] == ["document"]
    return reader.open[0]
