"""Text from a socket, record by record. It cannot be read twice: what was read and not processed is lost in a failure.

Source: org.apache.flink.streaming.api.functions.source.legacy.SocketTextStreamFunction.
"""

from __future__ import annotations

import codecs
import logging
import socket
import threading
from typing import Any

from flinkpy.common.errors import ExternalError
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.source import SourceBase
from flinkpy.connectors.source_function import SourceFunction, SourceFunctionSource

_LOG = logging.getLogger(__name__)

RETRY_DELAY_S = 0.5
_READ_BYTES = 1 << 16


class SocketTextStreamFunction(SourceFunction):
    """Connects as a client and emits what stands between delimiters; in one subtask.

    Bytes that are no UTF-8 become U+FFFD. Before a delimiter of a line feed, a carriage return is cut off. What follows
    the last delimiter is emitted when the stream ends.

    Args:
        max_retries: how often to connect before it is over, when the server has closed the connection; 0 and 1: the
            first connection is the only one; -1: for ever. A server that cannot be reached fails the job.
    """

    def __init__(self, host: str, port: int, delimiter: str = "\n", max_retries: int = 0) -> None:
        super().__init__()
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
            raise ValueError(f"port is out of range: {port!r}")
        if not isinstance(max_retries, int) or max_retries < -1:
            raise ValueError(
                f"max_retry must be zero or larger (num retries), or -1 (infinite retries), not {max_retries}"
            )
        if not isinstance(delimiter, str) or not delimiter:
            raise ValueError(f"the delimiter must not be empty, got {delimiter!r}")
        self._host = host
        self._port = port
        self._delimiter = delimiter
        self._max_retries = max_retries
        self._cancelled = False
        self._socket: socket.socket | None = None
        self._wake_up: threading.Event | None = None

    def to_source(self) -> SourceBase:
        return SourceFunctionSource(self, Types.STRING())

    def open(self, runtime_context: Any) -> None:
        self._wake_up = threading.Event()

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        assert self._wake_up is not None, "open comes first"
        rest = ""
        attempt = 0
        while not self._cancelled:
            with self._connect() as connection:
                self._socket = connection
                rest = self._read(connection, ctx, rest)
            if self._cancelled:
                break
            attempt += 1
            if self._max_retries != -1 and attempt >= self._max_retries:
                break
            _LOG.warning(
                "lost the connection to %s:%d; connecting again in %s s", self._host, self._port, RETRY_DELAY_S
            )
            self._wake_up.wait(RETRY_DELAY_S)
        if rest and not self._cancelled:
            ctx.collect(rest)

    def _connect(self) -> socket.socket:
        try:
            return socket.create_connection((self._host, self._port))
        except OSError as error:
            raise ExternalError(f"cannot connect to the socket server at {self._host}:{self._port}: {error}") from error

    def _read(self, connection: socket.socket, ctx: SourceFunction.SourceContext, rest: str) -> str:
        """Until the server closes; returns what follows the last delimiter."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        delimiter = self._delimiter
        # A record that is not complete, in parts: joined once, when its end has come.
        parts = [rest]
        overlap = len(delimiter) - 1
        tail = rest[max(len(rest) - overlap, 0) :]
        cuts_carriage_return = delimiter == "\n"
        while not self._cancelled:
            try:
                data = connection.recv(_READ_BYTES)
            except OSError as error:
                if self._cancelled:
                    break
                raise ExternalError(
                    f"cannot read from the socket server at {self._host}:{self._port}: {error}"
                ) from error
            text = decoder.decode(data, final=not data)
            parts.append(text)
            seen = tail + text
            if delimiter in seen:
                *records, last = "".join(parts).split(delimiter)
                parts, seen = [last], last
                for record in records:
                    ctx.collect(record.removesuffix("\r") if cuts_carriage_return else record)
            # A delimiter may begin in one part and end in the next.
            tail = seen[max(len(seen) - overlap, 0) :]
            if not data:
                break
        return "".join(parts)

    def cancel(self) -> None:
        self._cancelled = True
        if self._wake_up is not None:
            self._wake_up.set()
        connection = self._socket
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                # Closed already, which is what this is for.
                return

    def __repr__(self) -> str:
        return f"SocketTextStreamFunction({self._host!r}, {self._port})"
