"""How a page is put together: template, style and script in one file, numbers as people read them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


def render(template: str, *, scripts: Sequence[str], **values: Any) -> str:
    """A page with its style and scripts inside it, and a policy that allows these and no others.

    Args:
        template: its file in this folder; it writes `style`, `script` and `policy`.
        scripts: files in this folder, joined in this order.
        values: what the template needs beside them.
    """
    folder = Path(__file__).parent
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts)
    style = "".join((folder / name).read_text(encoding="utf-8") for name in ("page.css", "viewer.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template(template)
        .render(
            script=Markup(script),  # noqa: S704  our own
            style=Markup(style),  # noqa: S704  our own
            policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
            **values,
        )
    )


def share(value: float) -> str:
    """A share in per cent with one decimal."""
    return f"{100 * value:.1f}"


def number(value: float) -> str:
    """A mean, with as many decimals as its size deserves."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


def signed(value: float, percent: bool) -> str:
    """A difference with its sign, in percentage points or as it is."""
    return f"{100 * value:+.1f}" if percent else f"{'+' * (value >= 0)}{number(value)}"


def p_value(p: float) -> str:
    """A p value, not below what anybody reads."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"share": share, "number": number, "signed": signed, "p_value": p_value}
    return environment
