"""The HTML of the page. Everything that a client can write is escaped, and the content security policy allows only the
page's own style."""

import base64
import hashlib
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dragoman_gateway.endpoints.dashboard.report import Report

_FOLDER = "templates"
_CONTROL_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}
_LEAST_SHOWN = Decimal("0.000001")
SPANS = (1, 7, 30)
"""The numbers of days that the page offers."""


def render_report(report: Report, *, signed_in: bool) -> str:
    """Return the page. ``signed_in``: whether there is a key to forget."""
    return _render("report.html.jinja", report=report, signed_in=signed_in, spans=SPANS)


def render_sign_in(*, refused: str = "") -> str:
    """Return the form for a key; ``refused`` is the reason why the last one was refused."""
    return _render("sign_in.html.jinja", refused=refused)


def render_message(text: str) -> str:
    """Return a page with one sentence."""
    return _render("message.html.jinja", text=text)


@cache
def content_security_policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def _render(name: str, **values: Any) -> str:
    return _environment().get_template(name).render(style=_style(), **values)


@cache
def _style() -> str:
    return files(__package__).joinpath(_FOLDER, "page.css").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    templates = Environment(
        loader=PackageLoader(__package__, _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show_control_characters,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"money": _money, "dollars": _dollars, "seconds": _seconds, "most": _most}
    templates.filters["moment"] = "{:%Y-%m-%d %H:%M} UTC".format
    return templates


def _show_control_characters(value: Any) -> Any:
    """Replace control characters with visible symbols: HTML may not contain them, and readers would not see them."""
    return value.translate(_CONTROL_PICTURES) if type(value) is str else value


def _money(spent: Any) -> str:
    """Return a sum of costs as text: unknown is spelled out, never shown as 0."""
    if spent.usd is None:
        return "unknown" if spent.unpriced else "-"
    least = "at least " if spent.unpriced else ""
    return least + _dollars(spent.usd)


def _dollars(usd: Decimal) -> str:
    if 0 < usd < _LEAST_SHOWN:
        return f"under ${_LEAST_SHOWN:f}"
    whole, _, part = f"{usd:,.6f}".rstrip("0").partition(".")
    return f"${whole}.{part.ljust(2, '0')}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _most(spends: Iterable[Any]) -> Decimal:
    """Return the largest known cost."""
    return max((each.usd for each in spends if each.usd is not None), default=Decimal(0))
