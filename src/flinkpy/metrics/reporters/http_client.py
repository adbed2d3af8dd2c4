"""HttpClient: sends the requests of reporters, with time-outs and bounded answers.

Only the standard library: the reporters send one kind of request each.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from flinkpy.common.error_text import bounded_text
from flinkpy.common.errors import ConfigurationError, ExternalError
from flinkpy.configuration.redaction import HIDDEN

__all__ = ["TIMEOUT_S", "HttpClient", "ReportError", "split_url"]

#: Time for a connection, and for each step of a request, unless an option says otherwise.
#: Source: okhttp3.OkHttpClient, which Flink's reporters use.
TIMEOUT_S = 10.0
#: Maximum number of bytes that are read of an answer. Errors are a line or two.
MAX_ANSWER_BYTES = 16 * 1024
#: Maximum length of the text of an answer in an error.
MAX_ERROR_CHARS = 300
#: Maximum number of bytes per call of the socket, so that the time-out applies to a part of a large report.
_CHUNK_BYTES = 64 * 1024


class ReportError(ExternalError):
    """A system for metrics has refused a report."""


def split_url(url: str) -> SplitResult:
    """Returns the parts of the URL of a server. Raises: ConfigurationError if it is not one of http or https."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        # The URL may contain a password.
        shown = HIDDEN if "@" in url else url
        raise ConfigurationError(f"`{shown}` is not a URL such as http://host:8080")
    return parts


class HttpClient:
    """Sends requests to one server, each over a new connection. Thread: one.

    Args:
        url: scheme, host and port of the server. A path is put before those of requests.
        connect_timeout_s: time for a connection.
        timeout_s: time for each step of a request.
        proxy: host and port of a proxy, if connections need one.

    Raises:
        ConfigurationError: the URL is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float = TIMEOUT_S,
        timeout_s: float = TIMEOUT_S,
        proxy: tuple[str, int] | None = None,
    ) -> None:
        parts = split_url(url)
        port = parts.port
        assert parts.hostname is not None
        self._is_secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = port or (443 if self._is_secure else 80)
        self._base = parts.path.rstrip("/")
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._proxy = proxy

    def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Sends a request and waits for its success.

        Raises:
            ReportError: the status is not 2xx.
            OSError, http.client.HTTPException: the server cannot be reached, or does not answer in time.
        """
        connection = self._connection()
        try:
            connection.connect()
            assert connection.sock is not None
            connection.sock.settimeout(self._timeout_s)
            connection.putrequest(method, self._base + path)
            for name, value in {**(headers or {}), "Content-Length": str(len(body)), "Connection": "close"}.items():
                connection.putheader(name, value)
            connection.endheaders()
            for start in range(0, len(body), _CHUNK_BYTES):
                connection.send(body[start : start + _CHUNK_BYTES])
            response = connection.getresponse()
            answer = response.read(MAX_ANSWER_BYTES)
        finally:
            connection.close()
        if not 200 <= response.status < 300:
            text = bounded_text(answer.decode(errors="replace").strip(), MAX_ERROR_CHARS)
            raise ReportError(f"{self._host}:{self._port} answered {response.status} {response.reason}: {text}")

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._proxy or (self._host, self._port)
        connection: http.client.HTTPConnection
        if self._is_secure:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, port, timeout=self._connect_timeout_s, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._connect_timeout_s)
        if self._proxy is not None:
            connection.set_tunnel(self._host, self._port)
        return connection
