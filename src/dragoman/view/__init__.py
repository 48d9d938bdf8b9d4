"""A conversation as one HTML page, with its model swaps and their losses, its cost, and the raw requests."""

from dragoman.view.page import page

__all__ = ["page"]
