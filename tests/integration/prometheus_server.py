"""Runs Debian's Prometheus for tests, with its own data and a free port of the loopback address, and asks it."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from job_support import wait_until
from ports import own_port
from requirements import require

#: A scrape of all processes of a test takes some milliseconds.
_SCRAPE_INTERVAL = "250ms"
_START_S = 60


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def query(self, expression: str) -> dict[str, float]:
        """Returns the values of a PromQL expression, by the values of their labels, joined by commas."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self._url}/api/v1/query?{query}", timeout=_START_S) as answer:
            found = json.load(answer)["data"]["result"]
        return {",".join(one["metric"].values()): float(one["value"][1]) for one in found}

    def names(self) -> set[str]:
        """Returns the names of all metrics that it has scraped."""
        with urllib.request.urlopen(f"{self._url}/api/v1/label/__name__/values", timeout=_START_S) as answer:
            return set(json.load(answer)["data"])

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=_START_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def require_prometheus() -> None:
    """Skips the calling test if Prometheus or promtool are not installed."""
    is_there = shutil.which("prometheus") is not None and shutil.which("promtool") is not None
    require("Prometheus", is_there, "prometheus and promtool are not there (Debian: apt-get install prometheus)")


@contextmanager
def prometheus(directory: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    """Runs a server that scrapes the targets, each `host:port`."""
    require_prometheus()
    port = own_port()
    config = directory / "prometheus.yml"
    scrape = {"job_name": "flinkpy", "static_configs": [{"targets": list(targets)}]}
    # JSON is YAML.
    config.write_text(json.dumps({"global": {"scrape_interval": _SCRAPE_INTERVAL}, "scrape_configs": [scrape]}))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        running = Prometheus(port)

        def is_ready() -> bool:
            assert server.poll() is None, (directory / "log").read_text(errors="replace")[-3000:]
            return running.is_ready()

        wait_until(is_ready, "Prometheus is ready", _START_S)
        yield running
    finally:
        server.terminate()
        server.wait(_START_S)
