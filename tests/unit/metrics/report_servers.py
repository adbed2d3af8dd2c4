"""Fakes of the servers that reporters send to. They keep what they receive."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

from flinkpy.metrics.metric_registry import MetricScope, NamedMetricGroup, read_metric
from flinkpy.metrics.reporters import ReportedMetric

#: Time that a test waits for what must come.
WAIT_S = 10.0
SCOPE = MetricScope("job", "vertex", 0, 0)
VARIABLES = {"<host>": "h", "<job_name>": "my job", "<subtask_index>": "0"}


def task_group() -> NamedMetricGroup:
    """Returns the group of a task."""
    scope = ("h", "taskmanager", "tm", "my job", "map", "0")
    return NamedMetricGroup(scope, VARIABLES, logical_scope=("taskmanager", "job", "task"))


def reported(group: NamedMetricGroup) -> list[ReportedMetric]:
    """Returns the metrics of the group as a reporter gets them."""
    return [
        ReportedMetric(
            below.get_metric_identifier(name),
            below.get_all_variables(),
            read_metric(metric, name),
            name,
            below.get_scope_components(),
            ".".join(below.logical_scope),
        )
        for below in group.groups()
        for name, metric in below.own_metrics()
    ]


@dataclass
class HttpServer:
    """An HTTP server. Its requests are method, path, headers and body."""

    url: str
    port: int
    requests: Queue[tuple[str, str, dict[str, str], bytes]] = field(default_factory=Queue)
    #: The status of the next answers.
    status: int = 200

    def request(self) -> tuple[str, str, dict[str, str], bytes]:
        return self.requests.get(timeout=WAIT_S)


@contextmanager
def http_server() -> Iterator[HttpServer]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            keeper.requests.put((self.command, self.path, dict(self.headers), body))
            self.send_response(keeper.status)
            self.end_headers()
            self.wfile.write(b"the answer")

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    keeper = HttpServer(f"http://127.0.0.1:{server.server_port}", server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield keeper
    finally:
        server.shutdown()
        server.server_close()
        thread.join(WAIT_S)


@contextmanager
def udp_server() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(WAIT_S)
        yield sock


@contextmanager
def silent_server() -> Iterator[int]:
    """Accepts connections in the kernel only: a client connects, sends, and waits for ever."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(8)
        yield sock.getsockname()[1]


def free_port() -> int:
    """Returns a port on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
