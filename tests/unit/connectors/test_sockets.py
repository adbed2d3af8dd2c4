"""Text from a server and records to one, over real connections on this host."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from connector_fakes import TestingWriterContext
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import ExternalError
from flinkpy.common.serialization import SimpleStringSchema
from flinkpy.common.typeinfo import Types
from flinkpy.connectors import sockets
from flinkpy.connectors.sockets import SocketSink, SocketTextStreamFunction
from flinkpy.datastream.functions import SourceFunction
from flinkpy.records.batch import Batch

WAIT_S = 20


class Server:
    """Serves one connection after the other in a thread: sends the given data, or stores the data it reads."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT_S)
        self.port = self.listener.getsockname()[1]
        self.received: list[bytes] = []
        self.threads: list[threading.Thread] = []
        #: Released whenever `read` has closed a connection.
        self.closed = threading.Semaphore(0)

    def send(self, *connections: list[bytes]) -> None:
        """Sends these pieces on each connection, and then closes it."""

        def serve() -> None:
            for pieces in connections:
                connection, _ = self.listener.accept()
                with connection:
                    for piece in pieces:
                        connection.sendall(piece)

        self._start(serve)

    def read(self, *sizes: int | None) -> None:
        """Reads this number of bytes from each connection, or all bytes."""

        def serve() -> None:
            for size in sizes:
                connection, _ = self.listener.accept()
                with connection:
                    data = b""
                    while (size is None or len(data) < size) and (piece := connection.recv(size or 4096)):
                        data += piece
                    self.received.append(data)
                self.closed.release()

        self._start(serve)

    def _start(self, serve: Any) -> None:
        thread = threading.Thread(target=serve)
        thread.start()
        self.threads.append(thread)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(WAIT_S)
        self.listener.close()


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    yield served
    served.join()


class Collects(SourceFunction.SourceContext):
    def __init__(self, on_collect: Any = None) -> None:
        self.records: list[str] = []
        self.on_collect = on_collect

    def collect(self, value):
        self.records.append(value)
        if self.on_collect is not None:
            self.on_collect()

    def collect_with_timestamp(self, value, timestamp):
        raise AssertionError

    emit_watermark = mark_as_temporarily_idle = get_checkpoint_lock = close = None


def read(server: Server, *connections: list[bytes], delimiter: str = "\n", max_retries: int = 0) -> list[str]:
    server.send(*connections)
    function = SocketTextStreamFunction("127.0.0.1", server.port, delimiter, max_retries)
    function.open(None)
    context = Collects()
    function.run(context)
    return context.records


def test_lines_do_not_depend_on_the_parts_in_which_bytes_arrive(server):
    pieces = [b"one\r\ntw", b"o\n\nna\xc3", b"\xafve\nlast"]

    assert read(server, pieces) == ["one", "two", "", "naïve", "last"]


def test_a_delimiter_may_be_longer_and_keeps_carriage_returns(server):
    assert read(server, [b"a\r|", b"|b|c|", b"|"], delimiter="||") == ["a\r", "b|c"]


@given(st.text("ab\n", max_size=40), st.sampled_from(["\n", "ab", "aab", "abab"]), st.integers(1, 5))
def test_records_do_not_depend_on_the_parts_in_which_text_arrives(text, delimiter, step):
    received = iter([*(text[i : i + step].encode() for i in range(0, len(text), step)), b""])
    context = Collects()

    rest = SocketTextStreamFunction("host", 1, delimiter)._read(
        SimpleNamespace(recv=lambda size: next(received)), context, ""
    )

    assert [*context.records, rest] == text.split(delimiter)


def test_line_that_comes_in_many_parts_is_one_record():
    received = iter([b"x" * 8192] * 256 + [b"\n", b""])
    context = Collects()
    SocketTextStreamFunction("host", 1)._read(SimpleNamespace(recv=lambda size: next(received)), context, "")
    assert context.records == ["x" * (2 << 20)]


def test_invalid_utf_8_is_replaced(server):
    assert read(server, [b"a\xffb\n"]) == ["a\ufffdb"]


def test_source_reconnects_and_a_line_may_span_two_connections(server, monkeypatch):
    monkeypatch.setattr(sockets, "RETRY_DELAY_S", 0.01)

    assert read(server, [b"a\nb"], [b"c\n"], [b"d"], max_retries=3) == ["a", "bc", "d"]


def test_unreachable_server_is_an_error():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    function = SocketTextStreamFunction("127.0.0.1", port, max_retries=-1)
    function.open(None)
    with pytest.raises(ExternalError, match=r"cannot connect to the socket server at 127\.0\.0\.1:\d+: .*refused"):
        function.run(Collects())


def test_cancel_ends_a_read_that_waits():
    listener = socket.create_server(("127.0.0.1", 0))
    function = SocketTextStreamFunction("127.0.0.1", listener.getsockname()[1], max_retries=-1)
    function.open(None)
    has_line = threading.Event()
    thread = threading.Thread(target=function.run, args=(Collects(has_line.set),))
    thread.start()
    connection, _ = listener.accept()
    connection.sendall(b"a\n")
    assert has_line.wait(WAIT_S)
    function.cancel()
    function.cancel()
    thread.join(WAIT_S)
    connection.close()
    listener.close()

    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("h", 0), "port is out of range: 0"),
        (("h", "80"), "port is out of range"),
        (("h", 80, "\n", -2), "max_retry must be zero or larger"),
        (("h", 80, ""), "the delimiter must not be empty"),
    ],
)
def test_source_refuses_invalid_arguments(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        SocketTextStreamFunction(*arguments)


def written(server: Server, **settings: Any) -> Any:
    sink = SocketSink("127.0.0.1", server.port, SimpleStringSchema(), **settings)
    return sink.create_writer(TestingWriterContext(input_type=Types.STRING()))


def test_records_are_sent_one_after_the_other(server):
    server.read(None)
    writer = written(server)
    writer.write(Batch(["a", "b"]))
    writer.write(Batch(["ü\n"]))
    writer.close()
    server.join()

    assert server.received == ["abü\n".encode()]


def test_broken_connection_is_reopened_up_to_the_limit(server, monkeypatch):
    monkeypatch.setattr(sockets, "RETRY_DELAY_S", 0.01)
    server.read(1, None)
    writer = written(server, max_retries=2)
    writer.write(Batch(["a"]))
    assert server.closed.acquire(timeout=WAIT_S)
    # The first send after the server has closed may succeed. A later one fails.
    for _ in range(50):
        writer.write(Batch(["b" * 1_000]))
    writer.close()
    server.join()

    assert server.received[0] == b"a"
    assert set(server.received[1]) == {ord("b")}


def test_broken_or_refused_connection_is_an_error_without_retries(server):
    server.read(1)
    writer = written(server)
    writer.write(Batch(["a"]))
    server.join()
    with pytest.raises(ExternalError, match="reconnecting is not enabled"):
        for _ in range(1_000):
            writer.write(Batch(["b" * 1_000]))
    writer.close()
    with pytest.raises(ExternalError, match="cannot connect to the socket server at 127"):
        written(server)


def test_sink_refuses_invalid_arguments():
    with pytest.raises(ValueError, match="port is out of range"):
        SocketSink("h", 70_000, SimpleStringSchema())
    with pytest.raises(TypeError, match="a SerializationSchema is needed"):
        SocketSink("h", 80, None)
    with pytest.raises(ValueError, match="max_retries must be zero or larger"):
        SocketSink("h", 80, SimpleStringSchema(), -2)
