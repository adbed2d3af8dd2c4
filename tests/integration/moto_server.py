"""moto's server, which implements AWS protocols, as a separate process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from job_support import wait_until
from requirements import require


@pytest.fixture(scope="session")
def aws_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that all tests share, which name their streams and tables differently."""
    with moto_server(tmp_path_factory.mktemp("moto")) as endpoint:
        yield endpoint


@contextmanager
def moto_server(directory: Path) -> Iterator[str]:
    """Runs the server and yields its endpoint. It logs to `directory`, because an unread pipe would block it."""
    is_there = all(importlib.util.find_spec(name) is not None for name in ("moto", "flask"))
    require("moto", is_there, "a local server: install the package moto[server]")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    log = directory / "moto.log"
    with log.open("w") as output:
        server = subprocess.Popen(command, stderr=output, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: "Running on http://" in log.read_text() or server.poll() is not None, "moto's server runs")
        assert server.poll() is None, f"moto's server did not start: {log.read_text()}"
        yield log.read_text().split("Running on ")[1].split()[0]
    finally:
        server.kill()
        server.wait()
