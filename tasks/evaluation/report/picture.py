"""A picture of the report's viewer, as a browser shows it.

    python -m tasks.evaluation.report.picture [--out docs/images/report.png] [--question ID]

It needs Chromium on the PATH, or FORAGER_BROWSER, and the package playwright, which drives it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tasks.errors import InputError, exit_on_input_error

REPORT = Path("data/evaluate/report.html")
PICTURE = Path("docs/images/report.png")
SIZE = {"width": 1160, "height": 780}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def open_browser() -> Iterator[Any]:
    """A real browser without a window: playwright's `Browser`.

    Raises:
        InputError: there is none, or nothing to drive it with.
    """
    found = os.environ.get("FORAGER_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise InputError("no browser", mend="apt-get install chromium, or name one in FORAGER_BROWSER")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise InputError("nothing to drive the browser with", mend="pip install playwright") from None
    # Chromium's sandbox refuses to work for root, as which containers run.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options)
        try:
            yield browser
        finally:
            browser.close()


def draw(report: Path, out: Path, question: str | None) -> None:
    """Write the picture; the old one is replaced when the new one is whole.

    Args:
        report: a report.html.
        out: the PNG file.
        question: id of the question that is shown; None: the first that has the most hops and was answered right by the
            last model after the most searches.

    Raises:
        InputError: there is no report or no browser.
    """
    if not report.is_file():
        raise InputError("no report to show", where=str(report), mend="run `dvc repro evaluate`")
    with open_browser() as browser:
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5, color_scheme="light")
        address = report.resolve().as_uri()
        page.goto(address if question is None else f"{address}#{quote(question, safe='')}")
        page.wait_for_selector("#viewer .shown h3")
        if question is None:
            page.locator("#viewer select[name=outcome]").select_option("right")
            for name in ("hops", "searches"):
                choices = page.locator(f"#viewer select[name={name}]")
                if choices.count():
                    choices.select_option(index=choices.locator("option").count() - 1)
        page.locator("#viewer").evaluate("viewer => viewer.scrollIntoView()")
        out.parent.mkdir(parents=True, exist_ok=True)
        aside = out.with_name(f".{out.name}.partial.png")
        page.screenshot(path=aside)
        os.replace(aside, out)


def main(arguments: Sequence[str]) -> int:
    """Picture the viewer of the last evaluation's report."""
    parser = argparse.ArgumentParser(prog="python -m tasks.evaluation.report.picture", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE, help=f"the PNG file (default {PICTURE})")
    parser.add_argument("--question", help="id of the question that is shown")
    options = parser.parse_args(arguments)
    with exit_on_input_error("picture"):
        draw(REPORT, options.out, options.question)
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
