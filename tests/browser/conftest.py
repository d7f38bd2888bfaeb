"""A headless Chromium, with pages that may ask for nothing.

With ``BROWSER_TESTS=required`` these tests fail where there is none; else they are skipped.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1] / "analysis"))  # for its planted cells

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = f"no Chromium ({', '.join(NAMES)}) on the path: apt-get install chromium"
RESET = """() => {
  Atlas.panel.close();
  Atlas.controls.reset();
  Atlas.controls.build();
  Atlas.lab.reset();
  Atlas.changed("family");
  document.activeElement.blur();
  return Promise.all(Object.values(Atlas.views).map((entry) => entry.ready)).then(() => 0);
}"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        required = os.environ.get("BROWSER_TESTS") == "required"
        (pytest.fail if required else pytest.skip)(HOW)
    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()


class Opener:
    """Opens files, and keeps every request but theirs and every error as a fault."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.contexts: list[Any] = []
        self.faults: list[str] = []

    def __call__(self, file: Path, width: int = 1400, *, dark: bool = False) -> Any:
        scheme = "dark" if dark else "light"
        size = {"width": width, "height": 900}
        context = self.browser.new_context(viewport=size, color_scheme=scheme)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        own = file.resolve().as_uri()

        def route(asked: Any) -> None:
            if asked.request.url == own:
                asked.continue_()
            else:
                self.faults.append(f"request {asked.request.url}")
                asked.abort()

        page.route("**/*", route)
        page.on("pageerror", lambda error: self.faults.append(f"error {error}"))
        page.on("console", self._said)
        page.goto(own)
        page.wait_for_selector("body[data-ready=yes]")
        page.wait_for_function("Atlas.views.update && Atlas.views.update.view")
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type} {message.text}")


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a file in a window of its own."""
    opener = Opener(browser)
    yield opener
    opener.close()
    assert opener.faults == []


@pytest.fixture(scope="module")
def _kept_open(browser: Any, usual: Path) -> Iterator[tuple[Opener, Any]]:
    opener = Opener(browser)
    page = opener(usual)
    assert opener.faults == []
    yield opener, page
    opener.close()


@pytest.fixture
def page(_kept_open: tuple[Opener, Any]) -> Iterator[Any]:
    """Return the page of ``usual``, set back to its beginning, in a window that is kept open."""
    opener, found = _kept_open
    found.evaluate(RESET)
    opener.faults.clear()
    yield found
    assert opener.faults == []
