"""SocketTextStreamFunction and SocketSink: text from a TCP server, and records to one.

Source: org.apache.flink.streaming.api.functions.source.legacy.SocketTextStreamFunction,
org.apache.flink.streaming.api.functions.sink.legacy.SocketClientSink.
"""

from __future__ import annotations

import codecs
import logging
import socket
import threading
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ExternalError
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connector_api.source import SourceBase
from flinkpy.connectors.source_function import SourceFunction, SourceFunctionSource

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

RETRY_DELAY_S = 0.5
_READ_BYTES = 1 << 16


class SocketTextStreamFunction(SourceFunction):
    """Connects to a server and emits the texts between delimiters. Runs in one subtask.

    A socket cannot be read again: text that was read but not processed is lost in a failure. Invalid UTF-8 becomes
    U+FFFD. If the delimiter is a line feed, a carriage return before it is removed. The text after the last delimiter
    is emitted when the stream ends.

    Args:
        max_retries: the number of connections after which the function ends when the server closes the connection. 0
            and 1 both mean one connection; -1 means no limit. A server that cannot be reached fails the job.
    """

    def __init__(self, host: str, port: int, delimiter: str = "\n", max_retries: int = 0) -> None:
        super().__init__()
        _check_port(port)
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
        assert self._wake_up is not None, "open is called first"
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
        """Reads until the server closes the connection. Returns the text after the last delimiter."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        delimiter = self._delimiter
        # The parts of an incomplete record. They are joined once, when the record is complete.
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
                # The socket is closed already.
                return

    def __repr__(self) -> str:
        return f"SocketTextStreamFunction({self._host!r}, {self._port})"


class SocketSink(SinkBase):
    """Sends the bytes of every record to a server, over one connection per subtask, without separators.

    Delivers at least once if the server reads everything that was sent.

    Args:
        schema: a `flinkpy.common.serialization.SerializationSchema`.
        max_retries: how often to reconnect when sending fails. 0 means never, -1 means no limit.
    """

    def __init__(self, host: str, port: int, schema: Any, max_retries: int = 0) -> None:
        _check_port(port)
        if not isinstance(max_retries, int) or max_retries < -1:
            raise ValueError(f"max_retries must be zero or larger, or -1 for infinite retries, not {max_retries!r}")
        if not callable(getattr(schema, "serialize", None)):
            raise TypeError(f"a SerializationSchema is needed, not {schema!r}")
        self.host = host
        self.port = port
        self.schema = schema
        self.max_retries = max_retries

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _SocketWriter(self, context.input_type)


class _SocketWriter(SinkWriter):
    """Thread: task thread."""

    def __init__(self, sink: SocketSink, input_type: Any) -> None:
        self._sink = sink
        self._input_type = input_type
        self._pause = threading.Event()
        try:
            self._socket = self._connect()
        except OSError as error:
            raise ExternalError(f"cannot connect to the socket server at {sink.host}:{sink.port}: {error}") from error

    def write(self, batch: Batch) -> None:
        from flinkpy.formats.schema import encode_batch

        encoded = encode_batch(self._sink.schema, batch, self._input_type)
        data = b"".join(message for message in encoded if message is not None)
        try:
            self._socket.sendall(data)
        except OSError as error:
            self._send_again(data, error)

    def _send_again(self, data: bytes, error: OSError) -> None:
        """Reconnects and sends all data again, because the part that the server has read is not known."""
        sink = self._sink
        place = f"{sink.host}:{sink.port}"
        if sink.max_retries == 0:
            raise ExternalError(
                f"failed to send to the socket server at {place}, and reconnecting is not enabled: {error}"
            ) from error
        attempt = 0
        while sink.max_retries == -1 or attempt < sink.max_retries:
            attempt += 1
            _LOG.warning("lost the connection to %s, connecting again (attempt %d): %s", place, attempt, error)
            self._socket.close()
            try:
                self._socket = self._connect()
                self._socket.sendall(data)
            except OSError as again:
                error = again
                self._pause.wait(RETRY_DELAY_S)
            else:
                return
        raise ExternalError(
            f"failed to send to the socket server at {place} after {attempt} attempts: {error}"
        ) from error

    def close(self) -> None:
        self._socket.close()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection((self._sink.host, self._sink.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _check_port(port: int) -> None:
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise ValueError(f"port is out of range: {port!r}")
