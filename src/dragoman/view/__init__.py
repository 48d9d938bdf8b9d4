"""A conversation to look at: one page of HTML, with its swaps and what they lost, its cost, and the raw requests."""

from dragoman.view.page import page

__all__ = ["page"]
