"""BulkClient: sends bulk requests to an Elasticsearch cluster and returns the actions that the cluster refused.

It does not use elasticsearch-py, whose releases work with one major version of the server each: 9.5 sends the header
`compatible-with=9`, which versions 6 and 7 refuse, and raises UnsupportedProductError for OpenSearch and other servers
with the same API. The sink has to write to all of them. The library would also add 13 MB and nine packages for a single
kind of request.

Source: https://www.elastic.co/guide/en/elasticsearch/reference/7.17/docs-bulk.html.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from flinkpy.common.errors import ConfigurationError, ElasticsearchError

#: HTTP statuses after which a retry may succeed: too many requests, and an overloaded node or proxy.
RETRYABLE = frozenset({429, 502, 503, 504})
_CHARACTERS = 300  # errors quote at most this much of an answer


@dataclass(frozen=True)
class ConnectionSettings:
    """The addresses, credentials and timeouts of a cluster. Timeouts are in milliseconds; None means no timeout.

    Attributes:
        checks_certificates: False to accept any certificate of the hosts.
    """

    hosts: tuple[str, ...]
    username: str | None = None
    password: str | None = None
    path_prefix: str | None = None
    connection_timeout_ms: int | None = None
    socket_timeout_ms: int | None = None
    checks_certificates: bool = True

    def __post_init__(self) -> None:
        for host in self.hosts:
            self.parsed(host)

    @staticmethod
    def parsed(host: str) -> SplitResult:
        """Parses `host:port` or a URL with http or https. Raises: ConfigurationError."""
        url = urlsplit(host if "://" in host else f"http://{host}")
        try:
            is_valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 9200) > 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise ConfigurationError(f"{host!r} is not the address of an Elasticsearch host, such as localhost:9200")
        return url


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a bulk request: a line with the command, and a line with the document unless it is a deletion."""

    lines: bytes
    #: Index and document id are for errors.
    index: str
    document_id: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that the cluster refused, with the HTTP status and the reason."""

    action: Action
    status: int
    reason: str


class BulkClient:
    """Sends bulk requests over one connection. Thread: one at a time."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._host = 0
        self._connection: http.client.HTTPConnection | None = None
        self._headers = {"Content-Type": "application/x-ndjson"}
        if settings.username is not None:
            token = base64.b64encode(f"{settings.username}:{settings.password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        prefix = (settings.path_prefix or "").strip("/")
        self._path = f"/{prefix}/_bulk" if prefix else "/_bulk"

    @property
    def host(self) -> str:
        return self._settings.hosts[self._host]

    def send(self, actions: list[Action]) -> list[Refusal]:
        """Sends all actions in one request. Returns the refused actions; the documents of the others are stored.

        Raises:
            OSError, http.client.HTTPException: the host did not answer. The next call uses the next host.
            ElasticsearchError: the cluster refused the whole request, and a retry cannot help.
        """
        try:
            status, text = self._post(b"".join(action.lines for action in actions))
        except (OSError, http.client.HTTPException):
            self.close()
            self._host = (self._host + 1) % len(self._settings.hosts)
            raise
        if status in RETRYABLE:
            return [Refusal(action, status, _shown(text)) for action in actions]
        if status != 200:
            raise ElasticsearchError(f"Elasticsearch at {self.host} answered {status}: {_shown(text)}")
        answer = json.loads(text)
        if not answer.get("errors"):
            return []
        outcomes = [next(iter(item.values())) for item in answer["items"]]
        return [
            Refusal(action, outcome["status"], _reason(outcome["error"]))
            for action, outcome in zip(actions, outcomes, strict=True)
            if outcome.get("error")
        ]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.close()

    def _post(self, body: bytes) -> tuple[int, bytes]:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect()
        connection.request("POST", self._path, body, self._headers)
        response = connection.getresponse()
        return response.status, response.read()

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if not self._settings.checks_certificates:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _connect(self) -> http.client.HTTPConnection:
        url = ConnectionSettings.parsed(self.host)
        assert url.hostname is not None
        timeout_ms = self._settings.connection_timeout_ms
        timeout_s, port = None if not timeout_ms else timeout_ms / 1000, url.port or 9200
        connection = http.client.HTTPConnection(url.hostname, port, timeout=timeout_s)
        if url.scheme == "https":
            connection = http.client.HTTPSConnection(url.hostname, port, timeout=timeout_s, context=self._tls())
        connection.connect()
        socket_timeout_ms = self._settings.socket_timeout_ms
        connection.sock.settimeout(None if not socket_timeout_ms else socket_timeout_ms / 1000)
        return connection


def _reason(error: Any) -> str:
    return f"{error.get('type')}: {error.get('reason')}" if isinstance(error, dict) else str(error)


def _shown(text: bytes) -> str:
    shown = text.decode(errors="replace")
    return shown if len(shown) <= _CHARACTERS else shown[:_CHARACTERS] + "..."
