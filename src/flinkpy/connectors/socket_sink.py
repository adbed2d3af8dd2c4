"""SocketSink: sends the bytes of every record to a server. At least once where the server has read what was sent.

Source: org.apache.flink.streaming.api.functions.sink.legacy.SocketClientSink.
"""

from __future__ import annotations

import logging
import socket
import threading
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ExternalError
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

RETRY_DELAY_S = 0.5


class SocketSink(SinkBase):
    """One connection per subtask; records follow one another with nothing in between.

    Args:
        schema: a `flinkpy.common.serialization.SerializationSchema`.
        max_retries: how often to connect anew when sending fails; 0: never, -1: for ever.
    """

    def __init__(self, host: str, port: int, schema: Any, max_retries: int = 0) -> None:
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
            raise ValueError(f"port is out of range: {port!r}")
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
        """All of it: nobody knows what the server had read."""
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
