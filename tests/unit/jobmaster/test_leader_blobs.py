"""Files of a job are fetched completely while the leading Dispatcher changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from virtual_time import LoopClock, VirtualTimeLoop

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import ExternalError, NotLeaderError, RpcUnavailableError
from flinkpy.jobmaster.leader_blobs import LeaderBlobs

CONTENT = bytes(range(200))
GONE = RpcUnavailableError("its connection broke")


class Servers:
    """Dispatchers that lead one after the other. Each serves some bytes in chunks of a certain size, then breaks."""

    def __init__(self, *servers: tuple[int, int, Exception | None]) -> None:
        self._servers = list(servers)
        self.asked: list[str] = []
        self.changes = 0

    @property
    def address(self) -> str:
        return f"d:{len(self.asked)}"

    async def changed(self, timeout_s: float) -> None:
        self.changes += 1
        await asyncio.sleep(timeout_s)

    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Any:
        self.asked.append(address)
        num_bytes, chunk_bytes, error = self._servers[min(len(self.asked), len(self._servers)) - 1]

        class Gateway:
            async def get_blob(self, key: Any) -> AsyncIterator[Any]:
                for start in range(0, num_bytes, chunk_bytes):
                    yield dispatcher_pb2.BlobChunk(data=CONTENT[start : min(start + chunk_bytes, num_bytes)])
                if error is not None:
                    raise error

        return Gateway()

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> Any:
        raise AssertionError

    async def drop(self, address: str) -> None:
        raise AssertionError


def fetched(servers: Servers, *, others_may_lead: bool = True) -> bytes:
    async def fetch() -> bytes:
        clock = LoopClock(asyncio.get_running_loop())
        blobs = LeaderBlobs(servers, clock, lambda: servers.address, servers.changed, others_may_lead=others_may_lead)
        return b"".join([chunk async for chunk in blobs.fetch("key")])

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(fetch())


def test_a_file_is_fetched_from_the_leader() -> None:
    servers = Servers((200, 7, None))
    assert fetched(servers) == CONTENT
    assert servers.changes == 0


def test_the_rest_of_a_file_is_fetched_from_the_next_leader() -> None:
    servers = Servers((90, 30, GONE), (0, 1, NotLeaderError("not yet")), (125, 50, GONE), (200, 33, None))
    assert fetched(servers) == CONTENT
    assert servers.asked == ["d:0", "d:1", "d:2", "d:3"]


def test_the_wait_for_a_leader_is_bounded() -> None:
    servers = Servers((0, 1, GONE))
    with pytest.raises(RpcUnavailableError):
        fetched(servers)
    assert 30 < servers.changes < 90


def test_without_high_availability_a_lost_dispatcher_fails_the_fetch_at_once() -> None:
    servers = Servers((90, 30, GONE), (200, 30, None))
    with pytest.raises(RpcUnavailableError):
        fetched(servers, others_may_lead=False)


def test_a_missing_file_fails_the_fetch_at_once() -> None:
    servers = Servers((0, 1, ExternalError("there is no such blob")))
    with pytest.raises(ExternalError, match="no such blob"):
        fetched(servers)
    assert servers.changes == 0
