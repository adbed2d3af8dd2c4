"""Peers: what an endpoint uses of RpcClient; tests hand in their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class PeerWatchHandle(Protocol):
    def cancel(self) -> None: ...


class Peers(Protocol):
    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Any: ...

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> PeerWatchHandle: ...

    async def drop(self, address: str) -> None: ...
