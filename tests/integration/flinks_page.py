"""Flink's own web page in front of a REST server of flinkpy, in a real Chromium."""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from requirements import require

if TYPE_CHECKING:
    from playwright.sync_api import Page

_TYPES = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
}
#: Headers that concern one connection only, or that the proxy sets itself.
_OWN_HEADERS = frozenset(("connection", "content-encoding", "content-length", "date", "server", "transfer-encoding"))
#: How long a page may take to show a text. It asks for new values every three seconds.
SHOWN_MS = 30_000
CHROMIUM = "/usr/bin/chromium"
#: Defects of the page if a user leaves a view while it is drawn: its editor is laid out 50 ms after a change of size,
#: and the animation of its graph goes on.
_LEFT_EARLY = (
    "TypeError: Cannot read properties of null (reading 'layout')",
    "Failed to read the 'value' property from 'SVGLength': Could not resolve relative length.",
)


def require_chromium() -> None:
    """Skips the calling test if there is no Chromium or no Playwright."""
    is_there = Path(CHROMIUM).exists() and importlib.util.find_spec("playwright") is not None
    require("chromium", is_there, f"{CHROMIUM} and the package playwright")


@contextmanager
def flinks_page(jars: Path, rest_url: str, token: str | None) -> Iterator[str]:
    """Serves the page as it is in the jar, passes other paths on to a REST server, and yields the URL.

    Args:
        rest_url: the REST server.
        token: added to the requests that are passed on, because the page knows of no tokens.
    """
    (jar,) = jars.glob("flink-runtime-web-*.jar")
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    with zipfile.ZipFile(jar) as archive:
        files = {
            name.removeprefix("web"): archive.read(name)
            for name in archive.namelist()
            if name.startswith("web/") and not name.endswith("/")
        }
    with httpx.Client(base_url=rest_url, headers=headers, timeout=60) as client:

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("content-length", 0))
                body = self.rfile.read(length)
                path = "/index.html" if self.path == "/" else self.path.partition("?")[0]
                if path in files:
                    sent: tuple[int, dict[str, str], bytes] = (
                        200,
                        {"content-type": _TYPES.get(Path(path).suffix, "application/octet-stream")},
                        files[path],
                    )
                else:
                    kind = self.headers.get("content-type")
                    answer = client.request(
                        self.command, self.path, content=body, headers={"content-type": kind} if kind else None
                    )
                    kept = {name: value for name, value in answer.headers.items() if name not in _OWN_HEADERS}
                    sent = (answer.status_code, kept, answer.content)
                with suppress(ConnectionError):  # the browser has gone to another view
                    self.send_response(sent[0])
                    for name, value in {**sent[1], "content-length": str(len(sent[2]))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(sent[2])

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer

            def log_message(self, format: str, *args: Any) -> None:
                """Prints nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class Browser:
    """A tab of a browser that shows the page, and what went wrong in it.

    Attributes:
        problems: messages of the console above the level of a warning, exceptions, and answers with an error.
    """

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._url = url
        self.problems: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        page.on("response", self._response)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(text in message.text for text in _LEFT_EARLY):
            self.problems.append(f"{self._page.url}: {message.type}: {message.text}")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.problems.append(f"{self._page.url}: {response.request.method} {response.url}: {response.status}")

    def show(self, route: str, *texts: str) -> str:
        """Opens a route of the page, waits until it shows all texts, and returns what it shows."""
        self._page.goto(f"{self._url}/#{route}")
        for text in texts:
            # The editor that shows logs and tracebacks has other spaces.
            pattern = re.compile(re.escape(text).replace(r"\ ", r"\s"))
            self._page.get_by_text(pattern).filter(visible=True).first.wait_for(state="visible", timeout=SHOWN_MS)
        return self._page.inner_text("body")

    def options_of_metrics(self, job_path: str, vertex_id: str) -> str:
        """Returns the metrics that a vertex of a job offers."""
        self.show(f"{job_path}/overview/{vertex_id}/metrics", "Add Metric")
        chooser = self._page.get_by_text("Add Metric").filter(visible=True).first
        chooser.click()
        # The list shows only a part of the metrics at a time; typing narrows it down.
        self._page.keyboard.type("numRecordsOut")
        self._page.get_by_text(re.compile("numRecordsOut")).filter(visible=True).first.wait_for(timeout=SHOWN_MS)
        return self._page.inner_text("body")


@contextmanager
def _temporary_files_in(directory: str) -> Iterator[None]:
    former = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = directory
    try:
        yield
    finally:
        if former is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = former


@contextmanager
def browser(url: str) -> Iterator[Browser]:
    """Opens a tab of a headless Chromium."""
    from playwright.sync_api import sync_playwright

    # Chromium makes a socket in the directory of temporary files, and the names of sockets are short.
    with (
        tempfile.TemporaryDirectory(prefix="chromium-", dir="/tmp") as temporary,
        _temporary_files_in(temporary),
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = chromium.new_page(viewport={"width": 1600, "height": 1200})
            yield Browser(page, url)
        finally:
            chromium.close()
