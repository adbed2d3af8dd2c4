"""The asynchronous requests of ZooKeeperClient, with answers and events in each order that kazoo's threads allow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from flinkpy.highavailability.zookeeper.client import ZooKeeperClient
from flinkpy.highavailability.zookeeper.requests import RequestError
from flinkpy.highavailability.zookeeper.settings import ZooKeeperSettings
from flinkpy.security import ClusterSecret, SecurityContext

SECURITY = SecurityContext.of_secret(ClusterSecret(bytes(range(32))))
CONFIGURATION = {"high-availability.type": "zookeeper", "high-availability.zookeeper.quorum": "unused:2181"}
PATH = "/latch/node"
DELETED = WatchedEvent(EventType.DELETED, KeeperState.CONNECTED, PATH)
DISCONNECTED = WatchedEvent(EventType.NONE, KeeperState.CONNECTING, PATH)


class WatchedNode:
    """An `exists` request that was sent through a client without a connection. The test gives its answer and events."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[object] = []
        client = ZooKeeperClient(ZooKeeperSettings.of(CONFIGURATION, SECURITY), asyncio.get_running_loop())
        self._result = client._kazoo.handler.async_result()
        monkeypatch.setattr(client._kazoo, "exists_async", self._send)
        client.exists(
            PATH, lambda: self.told.append("changed"), lambda exists, error: self.told.append(error or exists)
        )

    def _send(self, path: str, watch: Callable[[WatchedEvent], None]) -> Any:
        assert path == PATH
        self._watch = watch
        return self._result

    async def answer(self) -> None:
        self._result.set(object())
        await asyncio.sleep(0)

    async def fail(self) -> None:
        self._result.set_exception(ConnectionLoss())
        await asyncio.sleep(0)

    async def event(self, event: WatchedEvent) -> None:
        self._watch(event)
        await asyncio.sleep(0)


def test_a_change_that_overtakes_the_answer_is_reported_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        node = WatchedNode(monkeypatch)
        await node.event(DELETED)
        assert node.told == []
        await node.answer()
        assert node.told == [True, "changed"]

    asyncio.run(test())


def test_a_change_after_the_answer_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        node = WatchedNode(monkeypatch)
        await node.answer()
        assert node.told == [True]
        await node.event(DELETED)
        assert node.told == [True, "changed"]

    asyncio.run(test())


def test_the_end_of_a_connection_is_not_a_change_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        node = WatchedNode(monkeypatch)
        await node.event(DISCONNECTED)
        await node.fail()
        [error] = node.told
        assert isinstance(error, RequestError) and "ConnectionLoss" in str(error)

    asyncio.run(test())
