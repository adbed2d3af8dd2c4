"""FakePeers: the RpcClient of an endpoint under test."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from flinkpy._proto import common_pb2
from flinkpy.rpc.services import service_methods


class Call(NamedTuple):
    """A call of the endpoint to a peer."""

    service: str
    address: str
    token: str | None
    method: str
    request: Any


class FakePeers:
    """An RpcClient that records all calls and answers them as the test configures.

    A call is answered by `answers[method]`: a value, an exception, or a function that gets the request and returns
    either of them or an awaitable. A method without an entry is answered with its empty response,
    and an unknown method with an `Acknowledge`.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answers: dict[str, Any] = {}
        self.on_lost: dict[str, list[Callable[[], None]]] = defaultdict(list)
        #: Addresses whose channels were closed.
        self.dropped: list[str] = []

    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Any:
        return _FakeGateway(self, service, address, fencing_token)

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> Any:
        self.on_lost[address].append(on_lost)
        return SimpleNamespace(cancel=lambda: self._stop_watching(address, on_lost))

    def _stop_watching(self, address: str, on_lost: Callable[[], None]) -> None:
        if on_lost in self.on_lost[address]:
            self.on_lost[address].remove(on_lost)

    async def drop(self, address: str) -> None:
        self.dropped.append(address)

    def break_connection(self, address: str) -> None:
        """Tells all watchers of the address that the peer is lost."""
        for on_lost in list(self.on_lost[address]):
            on_lost()

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def requests(self, method: str) -> list[Any]:
        return [call.request for call in self.calls_of(method)]

    def tokens(self, method: str) -> list[str | None]:
        return [call.token for call in self.calls_of(method)]


class _FakeGateway:
    def __init__(self, peers: FakePeers, service: str, address: str, token: str | None) -> None:
        self._peers, self._service, self._address, self._token = peers, service, address, token

    def __getattr__(self, name: str) -> Any:
        method = service_methods(self._service).get(name)
        empty_response = common_pb2.Acknowledge if method is None else method.response_class

        async def call(request: Any, timeout_s: float | None = None) -> Any:
            self._peers.calls.append(Call(self._service, self._address, self._token, name, request))
            if (answer := self._peers.answers.get(name)) is None:
                return empty_response()
            result = answer(request) if callable(answer) else answer
            if inspect.isawaitable(result):
                result = await result
            if isinstance(result, Exception):
                raise result
            return result

        return call
