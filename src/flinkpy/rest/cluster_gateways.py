"""ClusterGateways: how handlers reach the services of the cluster.

Handlers call the Dispatcher as any client does, with the messages of dispatcher.proto. In the process that leads, that
is a plain method call. A standby passes it on to the leader, so that every REST server gives the same answers.

Source: org.apache.flink.runtime.webmonitor.retriever.LeaderGatewayRetriever.
Thread: the process's asyncio loop.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from flinkpy.common.errors import NotLeaderError, RpcUnavailableError
from flinkpy.rpc.leader_endpoint import LeaderEndpoint
from flinkpy.rpc.peer_connection import Peers
from flinkpy.rpc.server import CallContext

logger = logging.getLogger(__name__)

#: How long calls that a standby passes on may take, where the handler sets no limit.
_FORWARDED_TIMEOUT_S = 60.0
#: Flink's words, which its client and its page look for.
_NO_LEADER = "Service temporarily unavailable due to an ongoing leader election. Please refresh."


class ClusterGateways(Protocol):
    """The services of a cluster. A gateway has a coroutine method per call, e.g. `gateway.list_jobs(request)`."""

    def dispatcher(self) -> Any:
        """Returns the gateway of the leading Dispatcher. Raises: NotLeaderError if none is known."""
        ...

    def dispatcher_address(self) -> str:
        """Returns the address of the leading Dispatcher. Raises: NotLeaderError if none is known."""
        ...

    async def resource_manager(self) -> Any:
        """Returns the gateway of the leading ResourceManager. Raises: RpcUnavailableError if none is known."""
        ...

    def task_executor(self, address: str) -> Any:
        """Returns the gateway of the TaskExecutor at `address`."""
        ...


class LeaderGateways:
    """The gateways of a process that serves `served`, the Dispatcher of the present term.

    Args:
        find_resource_manager: returns the address of the leading ResourceManager, or None.
        own_address: the address at which this process serves its Dispatcher.
    """

    def __init__(
        self, served: LeaderEndpoint, peers: Peers, find_resource_manager: Callable[[], str | None], own_address: str
    ) -> None:
        self._served = served
        self._peers = peers
        self._find_resource_manager = find_resource_manager
        self._own_address = own_address

    def dispatcher(self) -> Any:
        if self._served.is_serving:
            return _LocalGateway(self._served)
        address = self.dispatcher_address()
        return _Forwarding(self._peers.gateway("Dispatcher", address), address)

    def dispatcher_address(self) -> str:
        address = self._own_address if self._served.is_serving else self._served.leader_address
        if address is None:
            raise NotLeaderError(_NO_LEADER)
        return address

    async def resource_manager(self) -> Any:
        address = self._find_resource_manager()
        if not address:
            raise RpcUnavailableError("no ResourceManager leads at the moment")
        return self._peers.gateway("ResourceManager", address)

    def task_executor(self, address: str) -> Any:
        return self._peers.gateway("TaskExecutor", address)


class _LocalGateway:
    """Calls the endpoint that this process serves as a gateway would, without RPC."""

    def __init__(self, served: LeaderEndpoint) -> None:
        self._served = served

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._served, name)

        async def call(request: Any, timeout_s: float | None = None) -> Any:
            result = method(request, CallContext(None, None, "REST"))
            return await result if inspect.isawaitable(result) else result

        return call


class _Forwarding:
    """Passes calls on to the leader, with a time limit that suits those that take a savepoint.

    A call is passed on once: a process that does not lead answers NotLeaderError to calls of others.
    """

    def __init__(self, gateway: Any, address: str) -> None:
        self._gateway = gateway
        self._address = address

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._gateway, name)

        async def call(request: Any, timeout_s: float | None = _FORWARDED_TIMEOUT_S) -> Any:
            try:
                return await method(request, timeout_s=timeout_s)
            except NotLeaderError:
                raise NotLeaderError(f"{_NO_LEADER} The last leader, at {self._address}, leads no more.") from None
            except RpcUnavailableError as error:
                logger.debug("%s was not passed on: %s", name, error)
                raise NotLeaderError(f"{_NO_LEADER} The last leader, at {self._address}, does not answer.") from None

        return call
