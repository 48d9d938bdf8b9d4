"""The log of the gateway."""

from dragoman.logs import get_logger

logger = get_logger("dragoman.gateway")
