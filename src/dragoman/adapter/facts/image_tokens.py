"""The tokens of an image, by the rules that providers publish."""

from math import ceil, sqrt
from typing import Literal

from dragoman.adapter.facts.media_size import Size
from dragoman.canonical.blocks import FrozenModel

_DEFAULT_SIZE = Size(1024, 768)
"""The assumed size of an image whose size is unknown, such as one by URL."""


class ImageRule(FrozenModel):
    """One of four ways to count, after scaling the image down (never up) to ``longest`` and ``shortest`` pixels a side.

    ``flat``: ``fixed`` tokens whatever the size. ``area``: one for each ``pixels``. ``tiles``: ``fixed`` and ``each``
    for each square of ``side`` pixels. ``patches``: the same, where an image of over ``most`` squares is scaled to that
    many. No image counts more than ``most`` tokens or squares; ``low`` is the count of an image in low detail, if it
    differs.
    """

    rule: Literal["flat", "area", "tiles", "patches"] = "tiles"
    fixed: float = 85
    each: float = 170
    side: int = 512
    pixels: float = 750
    longest: int = 2048
    shortest: int = 768
    most: int = 6000
    low: float | None = None

    def tokens(self, size: Size | None, detail: str | None) -> float:
        if detail == "low" and self.low is not None:
            return self.low
        if self.rule == "flat":
            return self.fixed
        width, height = self._scale(size or _DEFAULT_SIZE)
        if self.rule == "area":
            return min(self.fixed + width * height / self.pixels, self.most)
        squares = ceil(width / self.side) * ceil(height / self.side)
        return self.fixed + self.each * min(squares, self.most)

    def _scale(self, size: Size) -> tuple[float, float]:
        long, short = max(*size, 1), max(min(size), 1)
        factor = min(1.0, self.longest / long, self.shortest / short)
        if self.rule == "patches":
            factor = min(factor, sqrt(self.most * self.side**2 / (long * short)))
        return long * factor, short * factor
