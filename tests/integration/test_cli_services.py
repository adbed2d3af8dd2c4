"""Each service is started separately with `flinkpy VERB`, as on separate hosts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ROOT, run_flinkpy
from ports import own_port


class Service:
    """A service process that is ready."""

    def __init__(self, verb: str, arguments: list[str], directory: Path) -> None:
        self._ready_file = directory / f"{verb}.ready"
        command = [sys.executable, "-m", "flinkpy.cli.main", verb, *arguments, "--ready-file", str(self._ready_file)]
        environment = {**os.environ, "TMPDIR": str(directory / "tmp")}
        self.popen = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.verb = verb
        self.line = self.address = self.log = ""

    def wait_ready(self) -> Service:
        """Waits for the line on standard output that the service is ready. Its address is then in the file."""
        assert self.popen.stdout is not None
        self.line = self.popen.stdout.readline()
        assert self.line.startswith(f"flinkpy {self.verb} ready "), (self.line, self.popen.communicate())
        self.address = self.line.split()[3]
        assert self._ready_file.read_text().split()[0] == self.address
        return self

    @property
    def port(self) -> str:
        return self.address.rpartition(":")[2]

    def end(self, sig: signal.Signals = signal.SIGTERM) -> int:
        self.popen.send_signal(sig)
        _, self.log = self.popen.communicate(timeout=60)
        return self.popen.returncode


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    (tmp_path / "tmp").mkdir()
    services: list[Service] = []

    def starter(verb: str, *arguments: str) -> Service:
        service = Service(verb, list(arguments), tmp_path)
        services.append(service)
        return service.wait_ready()

    yield starter
    for service in reversed(services):
        if service.popen.poll() is None:
            service.popen.kill()
            service.popen.communicate()


def test_services_that_bind_all_addresses_run_a_job_and_end_in_order(start, tmp_path: Path) -> None:
    manager = start(
        "resourcemanager", "--host=0.0.0.0", "--port=0", "--insecure", "-Dresourcemanager.rpc.address=localhost"
    )
    assert manager.address.startswith("localhost:")
    dispatcher = start(
        "dispatcher",
        "--host=0.0.0.0",
        "--port=0",
        "--insecure",
        f"--resourcemanager=localhost:{manager.port}",
        "-Djobmanager.rpc.address=localhost",
    )
    executor = start(
        "taskexecutor", "--host=0.0.0.0", "--insecure", "--slots=1", f"--resourcemanager=localhost:{manager.port}"
    )
    assert " data " in executor.line
    program = str(ROOT / "examples" / "word_count.py")
    result = run_flinkpy("run", "-m", f"localhost:{dispatcher.port}", program)
    assert result.returncode == 0, result.stderr
    listed = run_flinkpy("list", "-m", f"localhost:{dispatcher.port}")
    assert listed.stderr.startswith("INSECURE: ")
    for service in (executor, dispatcher, manager):
        assert service.end() == 0
        assert "INSECURE: 0.0.0.0 is bound without mutual TLS" in service.log
    assert list((tmp_path / "tmp").rglob("*")) == []


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_asked_to_end_ends_with_status_zero(start, sig: signal.Signals) -> None:
    assert start("resourcemanager", "--port=0").end(sig) == 0


def test_a_service_binds_loopback_unless_told_otherwise(start) -> None:
    manager = start("resourcemanager", "--port=0")
    assert manager.address.startswith("127.0.0.1:")
    own_address = socket.gethostbyname(socket.gethostname())
    if not own_address.startswith("127."):
        with pytest.raises(OSError), socket.create_connection((own_address, int(manager.port)), timeout=2):
            pass


@pytest.mark.parametrize("verb", ["dispatcher", "resourcemanager", "taskexecutor"])
def test_a_port_in_use_is_an_error_in_one_line_and_leaves_no_process(verb: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        elsewhere = [] if verb == "resourcemanager" else [f"--resourcemanager=127.0.0.1:{own_port()}"]
        result = run_flinkpy(verb, f"--port={port}", *elsewhere)
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if line.startswith("flinkpy: ")]
    assert lines == [f"flinkpy: cannot listen on 127.0.0.1:{port}: the port is in use by another process"]
    assert "Traceback" not in result.stderr
