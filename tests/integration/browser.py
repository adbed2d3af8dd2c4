"""A headless Chromium for tests of the dashboard, by Playwright.

The browser and its driver are started once per module: as long as the driver runs, the thread of the tests has an event
loop, so that other tests could not start one. Each test gets a page of a fresh context, without cookies of
other tests. A test fails if a page wrote an error to its console, threw one, or got an answer that it did not expect.
Screenshots lie in `.data/screenshots`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clusters import ROOT, RunningCluster
from requirements import require

from flinkpy.rest.page_files import PAGE_DIRECTORY

SCREENSHOTS = ROOT / ".data" / "screenshots"
#: Milliseconds. Everything that a test waits for is slow on a loaded machine.
PATIENCE_MS = 60_000
VIEWPORT = {"width": 1360, "height": 850}
#: The message of Chromium for each answer that is not a success. The answers themselves are checked.
_OF_ANSWER = re.compile(r"Failed to load resource: ")


class Complaints:
    """The complaints of a page: errors and warnings of its console, exceptions, and answers that are no success."""

    def __init__(self, page: Any) -> None:
        self.found: list[str] = []
        self._tolerated: re.Pattern[str] | None = None
        page.on("console", lambda message: self._note(f"console: {message.text}", message.type in ("error", "warning")))
        page.on("pageerror", lambda error: self._note(f"error: {error}"))
        page.on("response", lambda answer: self._note(f"{answer.status} {answer.url}", answer.status >= 400))
        page.on("requestfailed", lambda request: self._note(f"{request.failure} {request.url}"))

    def _note(self, text: str, is_error: bool = True) -> None:
        if not is_error or (text.startswith("console: ") and _OF_ANSWER.search(text)):
            return
        # Requests that were on their way when the page went elsewhere.
        if text.startswith("net::ERR_ABORTED") or (self._tolerated is not None and self._tolerated.search(text)):
            return
        self.found.append(text)

    @contextmanager
    def tolerating(self, pattern: str) -> Iterator[None]:
        """Ignores complaints that match, while the cluster does what makes them."""
        self._tolerated = re.compile(pattern)
        try:
            yield
        finally:
            self._tolerated = None


class Dashboard:
    """The dashboard of a cluster in a browser.

    Attributes:
        page: the page of Playwright.
        url: the URL of the REST server.
    """

    def __init__(self, page: Any, complaints: Complaints, cluster: RunningCluster) -> None:
        self.page = page
        self.cluster = cluster
        self.url = cluster.client.request_cluster_overview().rest_url
        self.tolerating = complaints.tolerating

    def log_in(self, *options: str) -> None:
        """Opens the link that `flinkpy dashboard` prints."""
        printed = self.cluster.flinkpy("dashboard", "--no-browser", *options)
        assert printed.returncode == 0, printed.stderr
        self.page.goto(printed.stdout.strip())
        self.heading("Overview").wait_for()

    def open(self, path: str) -> None:
        """Goes to a page, e.g. `/jobs`, without loading the document again."""
        self.page.evaluate("path => { location.hash = path }", path)

    def heading(self, text: str) -> Any:
        """Returns the title of a page."""
        return self.page.get_by_role("heading", level=1, name=text)

    def see(self, text: str | re.Pattern[str]) -> Any:
        """Waits until the text is shown, and returns its first place."""
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found

    def screenshot(self, name: str) -> Path:
        return screenshot(self.page, name)


def screenshot(page: Any, name: str) -> Path:
    """Keeps a picture of what the browser shows, and returns its file."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    # Playwright writes files on a thread that stays, which tests would take for a leak.
    path.write_bytes(page.screenshot())
    return path


def chromium_program() -> str | None:
    """Returns the path of Chromium: that of Debian, or FLINKPY_CHROMIUM."""
    return os.environ.get("FLINKPY_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def _chromium() -> Iterator[Any]:
    require("dashboard", (PAGE_DIRECTORY / "index.html").exists(), "the page, which `make dashboard` builds")
    executable = chromium_program()
    require("chromium", executable is not None, "Debian's package chromium, or FLINKPY_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Tests run as root, and in containers with a small /dev/shm.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def dashboard(_chromium: Any, shared_cluster: RunningCluster) -> Iterator[Dashboard]:
    """The dashboard of the shared cluster, not logged in yet."""
    with open_dashboard(_chromium, shared_cluster) as dashboard:
        yield dashboard


@contextmanager
def open_dashboard(chromium: Any, cluster: RunningCluster, **options: Any) -> Iterator[Dashboard]:
    """Provides the dashboard of a cluster; afterwards raises AssertionError if the page complained."""
    with open_page(chromium, **options) as (page, complaints):
        yield Dashboard(page, complaints, cluster)


@contextmanager
def open_page(chromium: Any, **options: Any) -> Iterator[tuple[Any, Complaints]]:
    """Provides an empty page; afterwards raises AssertionError if it complained."""
    context = chromium.new_context(viewport=VIEWPORT, reduced_motion="reduce", **options)
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        complaints = Complaints(page)
        try:
            yield page, complaints
        except BaseException:
            screenshot(page, "failed")
            raise
        assert complaints.found == []
    finally:
        context.close()
