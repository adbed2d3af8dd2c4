"""A client that sends slowly does not keep its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from flinkpy.rest.http_protocol import BODY_PAUSE_TIMEOUT_S, HEAD_TIMEOUT_S, RestProtocol


class ManualTimer:
    def __init__(self, at_s: float, action: Callable[[], None]) -> None:
        self.at_s = at_s
        self.action = action
        self.is_canceled = False

    def cancel(self) -> None:
        self.is_canceled = True


class ManualLoop:
    """The part of an event loop that connections use, with a clock that a test sets."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now_s = 0.0
        self.timers: list[ManualTimer] = []

    def call_later(self, delay_s: float, action: Callable[[], None]) -> ManualTimer:
        self.timers.append(ManualTimer(self.now_s + delay_s, action))
        return self.timers[-1]

    def call_soon(self, action: Callable[[], None]) -> asyncio.Handle:
        return self._loop.call_soon(action)

    def create_task(self, work: Any, **options: Any) -> asyncio.Task[Any]:
        return self._loop.create_task(work, **options)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        for timer in self.timers:
            if timer.at_s <= self.now_s and not timer.is_canceled:
                timer.cancel()
                timer.action()


class TestingTransport:
    __test__ = False

    def __init__(self) -> None:
        self.is_open = True
        self.sent = b""
        self.num_writes = 0

    def get_extra_info(self, name: str) -> Any:
        return None

    def write(self, data: bytes) -> None:
        self.sent += data
        self.num_writes += 1

    def abort(self) -> None:
        self.is_open = False

    close = abort

    def is_closing(self) -> bool:
        return not self.is_open

    def pause_reading(self) -> None:
        """Does nothing."""

    resume_reading = pause_reading


async def application(scope: Any, receive: Any, send: Any) -> None:
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Connection:
    def __init__(self) -> None:
        self.loop = ManualLoop(asyncio.get_running_loop())
        self.transport = TestingTransport()
        config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off")
        config.load()
        loop: Any = self.loop
        self.protocol = RestProtocol(config, ServerState(), {}, _loop=loop)
        self.protocol.connection_made(self.transport)

    async def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        for _ in range(20):
            await asyncio.sleep(0)


def test_a_head_in_many_pieces_gets_no_more_time_than_one() -> None:
    async def run() -> None:
        connection = Connection()
        await connection.send(b"GET / HTTP/1.1\r\n")
        for number in range(int(HEAD_TIMEOUT_S) - 1):
            connection.loop.advance(1)
            await connection.send(f"x-{number}: y\r\n".encode())
        assert connection.transport.is_open
        connection.loop.advance(1)
        assert not connection.transport.is_open

    asyncio.run(run())


def test_a_connection_without_a_request_is_closed() -> None:
    async def run() -> None:
        connection = Connection()
        connection.loop.advance(HEAD_TIMEOUT_S)
        assert not connection.transport.is_open

    asyncio.run(run())


def test_the_second_request_of_a_connection_has_the_same_limit() -> None:
    async def run() -> None:
        connection = Connection()
        await connection.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert connection.transport.sent.endswith(b"ok")
        connection.loop.advance(3)
        await connection.send(b"GET / HT")
        connection.loop.advance(HEAD_TIMEOUT_S - 0.1)
        assert connection.transport.is_open
        connection.loop.advance(0.1)
        assert not connection.transport.is_open

    asyncio.run(run())


def test_a_body_may_take_long_but_must_not_pause() -> None:
    async def run() -> None:
        connection = Connection()
        await connection.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n")
        for _ in range(8):
            connection.loop.advance(BODY_PAUSE_TIMEOUT_S - 1)
            await connection.send(b"x")
        assert connection.transport.is_open
        connection.loop.advance(BODY_PAUSE_TIMEOUT_S)
        assert not connection.transport.is_open

    asyncio.run(run())


def test_a_slow_answer_is_not_the_clients_fault() -> None:
    async def run() -> None:
        connection = Connection()
        connection.protocol.data_received(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        connection.loop.advance(10 * BODY_PAUSE_TIMEOUT_S)
        assert connection.transport.is_open
        for _ in range(20):
            await asyncio.sleep(0)
        assert connection.transport.sent.endswith(b"ok")

    asyncio.run(run())


def test_the_head_of_an_answer_and_its_body_are_sent_as_one() -> None:
    async def run() -> None:
        connection = Connection()
        await connection.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert connection.transport.sent.endswith(b"ok") and connection.transport.num_writes == 1
        await connection.send(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert connection.transport.num_writes == 2
        assert not connection.transport.is_open  # and the answer was sent before

    asyncio.run(run())
