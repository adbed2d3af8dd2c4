"""A server of the bulk API of Elasticsearch and OpenSearch that stores documents, or refuses them one by one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class BulkServer(ThreadingHTTPServer):
    """Attributes:
    documents: by index and id. requests: (path, authorization, number of actions).
    answers: statuses to answer whole requests with, first come first served; 200 is the normal answer.
    refusals: by document id, statuses to answer the action with.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.documents: dict[tuple[str, str], dict[str, Any]] = {}
        self.requests: list[tuple[str, str | None, int]] = []
        self.answers: list[int] = []
        self.refusals: dict[str, list[int]] = {}
        self.types: set[str | None] = set()
        self._may_answer = threading.Event()
        self._may_answer.set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def hold(self) -> threading.Event:
        """Lets requests wait until the returned event is set."""
        self._may_answer.clear()
        return self._may_answer

    def wait_until_released(self) -> None:
        """Waits while requests are held. Thread: that of a request."""
        self._may_answer.wait()

    def act(self, kind: str, meta: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        """Executes one action. Returns its outcome."""
        self.types.add(meta.get("_type"))
        document_id = meta.get("_id") or f"made-{len(self.documents)}"
        refusals = self.refusals.get(document_id)
        if refusals:
            return _refusal(refusals.pop(0), "refused")
        key = meta["_index"], document_id
        if kind == "delete":
            found = self.documents.pop(key, None)
            # Not an error: the document is not there afterwards.
            return {"status": 404, "result": "not_found"} if found is None else {"status": 200, "result": "deleted"}
        if kind == "update":
            if key not in self.documents and not body.get("doc_as_upsert"):
                return _refusal(404, "document_missing_exception")
            self.documents[key] = {**self.documents.get(key, {}), **body["doc"]}
            return {"status": 200, "result": "updated"}
        self.documents[key] = body
        return {"status": 201, "result": "created"}


def _refusal(status: int, kind: str) -> dict[str, Any]:
    return {"status": status, "error": {"type": kind, "reason": f"because {status}"}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BulkServer

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert text.endswith("\n"), "the last line of a bulk request ends with a newline"
        lines = iter(text.splitlines())
        cluster = self.server
        cluster.wait_until_released()
        status = cluster.answers.pop(0) if cluster.answers else 200
        items = []
        for line in lines:
            ((kind, meta),) = json.loads(line).items()
            body = {} if kind == "delete" else json.loads(next(lines))
            items.append({kind: cluster.act(kind, meta, body) if status == 200 else {}})
        cluster.requests.append((self.path, self.headers.get("Authorization"), len(items)))
        errors = any("error" in outcome for item in items for outcome in item.values())
        answer = {"errors": errors, "items": items} if status == 200 else {"error": "busy"}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def running_bulk_server() -> Iterator[BulkServer]:
    with BulkServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
