"""LeadingDispatcher: the calls of whichever Dispatcher leads, for clients that know of several, or of a leader's node.

One attempt is one call at the Dispatcher that is thought to lead. Where it turns out not to, or does not answer, the
error is raised, and the next attempt goes to another one. How often to try is the caller's business.

Thread: any.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flinkpy.common.errors import FlinkError, NotLeaderError, RpcTimeoutError, RpcUnavailableError
from flinkpy.rpc.services import service_methods
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)


class LeadingDispatcher:
    """As a SyncGateway of `Dispatcher`.

    Args:
        addresses: of those that may lead; the first is tried first.
        find_leader: blocks and returns the address of the one that leads, or raises a FlinkError where none does.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        security: SecurityContext,
        find_leader: Callable[[], str] | None = None,
    ) -> None:
        self._addresses = list(addresses)
        self._security = security
        self._find_leader = find_leader
        self._lock = threading.Lock()
        self._gateways: dict[str, SyncGateway] = {}
        self._address = self._addresses[0]

    @property
    def address(self) -> str:
        """Of the one that is thought to lead."""
        return self._address

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def unary(request: Any, timeout_s: float | None = None) -> Any:
            address, gateway = self._gateway()
            try:
                return getattr(gateway, name)(request, timeout_s=timeout_s)
            except (NotLeaderError, RpcUnavailableError, RpcTimeoutError) as error:
                self.turn_from(address, error)
                raise

        def stream(request: Any, timeout_s: float | None = None) -> Iterator[Any]:
            address, gateway = self._gateway()
            try:
                yield from getattr(gateway, name)(request, timeout_s=timeout_s)
            except (NotLeaderError, RpcUnavailableError, RpcTimeoutError) as error:
                self.turn_from(address, error)
                raise

        method = service_methods("Dispatcher").get(name)
        if method is None:
            raise AttributeError(f"service Dispatcher has no call {name!r}")
        # Not kept, as in SyncGateway.
        return stream if method.server_streaming else unary

    def turn_from(self, address: str, error: FlinkError) -> None:
        """The one at `address` does not lead, or did not answer: the next attempt goes to another, if there is one."""
        leader = error.details.get("leader_address") if isinstance(error, NotLeaderError) else None
        if leader is None and self._find_leader is not None:
            try:
                leader = self._find_leader()
            except FlinkError as unknown:
                logger.debug("nobody is known to lead: %s", unknown)
        with self._lock:
            if self._address != address:
                return  # another thread has turned already
            if leader is not None and leader != address:
                self._address = leader
            elif address not in self._addresses:
                self._address = self._addresses[0]
            elif self._find_leader is None:
                position = self._addresses.index(address)
                self._address = self._addresses[(position + 1) % len(self._addresses)]

    def _gateway(self) -> tuple[str, SyncGateway]:
        with self._lock:
            gateway = self._gateways.get(self._address)
            if gateway is None:
                gateway = SyncGateway("Dispatcher", self._address, security=self._security)
                self._gateways[self._address] = gateway
            return self._address, gateway

    def close(self) -> None:
        with self._lock:
            gateways = list(self._gateways.values())
            self._gateways.clear()
        for gateway in gateways:
            gateway.close()
