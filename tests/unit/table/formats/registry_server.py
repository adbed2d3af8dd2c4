"""A schema registry over HTTP, with the requests that flinkpy sends, and the ids and errors of the real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class RegistryServer(ThreadingHTTPServer):
    """Attributes:
    schemas: the schemas in the order of their ids, which begin with 1. subjects: the ids of each subject.
    requests: (method, path, authorization).
    failures: statuses to answer the next requests with.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        self.failures: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, schema: Any, subject: str = "other") -> int:
        """Adds a schema and returns its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        if text not in self.schemas:
            self.schemas.append(text)
        schema_id = self.schemas.index(text) + 1
        self.subjects.setdefault(subject, []).append(schema_id)
        return schema_id


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RegistryServer

    def do_GET(self) -> None:
        number = int(self.path.rpartition("/")[2])
        if 1 <= number <= len(self.server.schemas):
            self._answer(200, {"schema": self.server.schemas[number - 1]})
        else:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        _, _, subject, *versions = self.path.split("/")
        if versions:
            self._answer(200, {"id": self.server.add(schema, subject)})
            return
        for schema_id in self.server.subjects.get(subject, ()):
            if self.server.schemas[schema_id - 1] == schema:
                self._answer(200, {"id": schema_id, "subject": subject, "version": 1, "schema": schema})
                return
        self._answer(404, {"error_code": 40401, "message": f"Subject '{subject}' not found."})

    def _answer(self, status: int, content: Any) -> None:
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization")))
        if self.server.failures:
            status = self.server.failures.pop(0)
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def running_registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
