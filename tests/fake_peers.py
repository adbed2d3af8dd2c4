"""FakePeers: what an endpoint under test has for an RpcClient."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from flinkpy._proto import common_pb2


class FakePeers:
    """An RpcClient: records every call; answers from `answers[method]`, a function of the request."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str | None, Any]] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.on_lost: dict[str, list[Callable[[], None]]] = defaultdict(list)
        self.dropped: list[str] = []

    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Any:
        return _FakeGateway(self, address, fencing_token)

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> Any:
        self.on_lost[address].append(on_lost)
        return SimpleNamespace(cancel=lambda: self.on_lost[address].remove(on_lost))

    async def drop(self, address: str) -> None:
        self.dropped.append(address)

    def break_connection(self, address: str) -> None:
        for on_lost in list(self.on_lost[address]):
            on_lost()

    def requests(self, method: str) -> list[Any]:
        return [request for name, _, _, request in self.calls if name == method]


class _FakeGateway:
    def __init__(self, peers: FakePeers, address: str, token: str | None) -> None:
        self._peers, self._address, self._token = peers, address, token

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any, timeout_s: float | None = None) -> Any:
            self._peers.calls.append((name, self._address, self._token, request))
            answer = self._peers.answers.get(name)
            result = common_pb2.Acknowledge() if answer is None else answer(request)
            if isinstance(result, asyncio.Future):
                result = await result
            if isinstance(result, Exception):
                raise result
            return result

        return call
