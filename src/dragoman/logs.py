"""The loggers of the library, for other distributions that write log records."""

from dragoman.canonical.log import get_logger

__all__ = ["get_logger"]
