"""The loggers of the library. What providers and files say cannot begin a line of a log, or control a terminal."""

import logging
import traceback


def one_line(text: str) -> str:
    """Escape line ends and unprintable characters, as in a repr, so that the text fits one log line."""
    return text if text.isprintable() else repr(text)[1:-1]


def get_logger(name: str) -> logging.Logger:
    """Return the logger of that name, whose records are single lines of printable characters; a traceback below one is
    indented.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_escape)  # a filter that is there already is not added again
    return logger


def _escape(record: logging.LogRecord) -> bool:
    """Escape the texts of a record. Every handler gets the record after the filters of its logger."""
    if not (message := record.getMessage()).isprintable():
        record.msg, record.args = one_line(message), None
    if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
        lines = "".join(traceback.format_exception(record.exc_info[1])).splitlines()
        record.exc_text = "\n".join(f"  {one_line(line)}" for line in lines)  # formatters use it instead of their own
    return True
