"""RpcClient and RpcServer over a simulated network with faults, in place of gRPC.

Messages may be late, lost or duplicated. Any pair of hosts may be disconnected in one or both directions. A process
that dies breaks its calls and streams. Fencing, the kinds of methods and the errors are those of the real server.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import AsyncIterator, Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from simulated_processes import CURRENT, ProcessLoop, SimulatedProcess, no_process

from flinkpy import __version__
from flinkpy.common.errors import FlinkError, InternalError, RpcTimeoutError, RpcUnavailableError
from flinkpy.rpc.server import CallContext, check_fencing_token
from flinkpy.rpc.services import service_methods

#: A silent connection is closed after about this time.
DEAD_CONNECTION_S = (1.0, 6.0)


class Trace:
    """The events of a run in order. Two runs of one seed have equal traces."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop
        self._hash = hashlib.sha256()
        self.num_events = 0
        self.lines: list[str] = []
        self.keeps_lines = False

    def note(self, *what: object) -> None:
        line = f"{self._loop.time():.6f} {' '.join(map(str, what))}"
        self._hash.update(line.encode())
        self.num_events += 1
        if self.keeps_lines:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class HostNetwork:
    """The network between the hosts. `cut` holds the pairs (from, to) between which all messages are lost."""

    def __init__(self, loop: ProcessLoop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self.trace = Trace(loop)
        self.servers: dict[str, SimulatedRpcServer] = {}
        self.cut: set[tuple[str, str]] = set()
        self.is_faulty = True
        self.num_faults = 0
        #: The time when each task was sent to a TaskExecutor, which may be long before it arrives.
        self.submitted_s: dict[str, float] = {}
        #: Errors that no handler may raise.
        self.errors: list[BaseException] = []
        self._num_ports = 10_000

    def next_port(self) -> int:
        self._num_ports += 1
        return self._num_ports

    def later(self, delay_s: float, action: Callable[..., Any], *args: Any) -> None:
        self.loop.call_later(delay_s, action, *args, context=no_process())

    def reaches(self, source: str, target: str) -> bool:
        return source == target or (source, target) not in self.cut

    def connects(self, one: str, other: str) -> bool:
        return self.reaches(one, other) and self.reaches(other, one)

    @property
    def delay_s(self) -> float:
        if self.is_faulty and self.random.random() < 0.02:
            return self.random.uniform(0.2, 3.0)
        return self.random.uniform(0.0005, 0.01)

    @property
    def dead_connection_s(self) -> float:
        return self.random.uniform(*DEAD_CONNECTION_S)

    def is_lost(self, source: str, target: str) -> bool:
        if not self.reaches(source, target):
            return True
        lost = self.is_faulty and self.random.random() < 0.03
        self.num_faults += lost
        return lost


class _Reply:
    """Settles the caller's future once, if the caller's process still lives."""

    def __init__(self, network: HostNetwork, caller: SimulatedProcess) -> None:
        self.future: asyncio.Future[Any] = network.loop.create_future()
        self._network = network
        self._caller = caller

    def settle(self, answer: Any) -> None:
        if not self.future.done() and not self._caller.is_dead:
            if isinstance(answer, BaseException):
                self.future.set_exception(answer)
            else:
                self.future.set_result(answer)

    def fail_later(self, delay_s: float, error: FlinkError) -> None:
        self._network.later(delay_s, self.settle, error)


class SimulatedRpcClient:
    """The RpcClient of the process that creates it."""

    network: HostNetwork

    def __init__(self, *_: Any, **__: Any) -> None:
        process = CURRENT.get()
        assert process is not None, "an RpcClient outside of every process"
        self._process = process
        self._is_closed = False

    def gateway(self, service: str, address: str, fencing_token: str | None = None, **_: Any) -> Any:
        return SimulatedGateway(self.network, self._process, service, address, fencing_token)

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> Any:
        network, process = self.network, self._process
        task = process.spawn(_watch(network, process.host, address, on_lost), f"watch {address}")
        return SimpleNamespace(cancel=task.cancel)

    async def drop(self, address: str) -> None:
        return

    async def close(self) -> None:
        self._is_closed = True


async def _watch(network: HostNetwork, host: str, address: str, on_lost: Callable[[], None]) -> None:
    """Reports the loss of a peer: its end is noticed at once, a cut connection after a while."""
    await asyncio.sleep(network.delay_s)
    server = network.servers.get(address)
    while server is not None and network.servers.get(address) is server:
        if network.connects(host, server.host):
            gone = asyncio.ensure_future(server.gone.wait())
            await asyncio.wait({gone}, timeout=0.5)
            gone.cancel()
        else:
            await asyncio.sleep(network.dead_connection_s)
            if not network.connects(host, server.host):
                break
    await asyncio.sleep(network.random.uniform(0.001, 0.05))
    on_lost()


class SimulatedGateway:
    def __init__(
        self, network: HostNetwork, process: SimulatedProcess, service: str, address: str, token: str | None
    ) -> None:
        self._network = network
        self._process = process
        self._service = service
        self._methods = service_methods(service)
        self.address = address
        self.fencing_token = token

    def __getattr__(self, name: str) -> Any:
        method = self._methods.get(name)
        if method is None:
            raise AttributeError(f"service {self._service} has no call {name!r}")
        if method.server_streaming:
            return lambda request: self._stream(name, request)
        assert not method.client_streaming, name

        async def unary(request: Any, timeout_s: float | None = 10.0) -> Any:
            return await self._call(name, request, timeout_s)

        return unary

    async def _call(self, method: str, request: Any, timeout_s: float | None) -> Any:
        network, process = self._network, self._process
        reply = _Reply(network, process)
        where = f"{self._service}.{method} at {self.address}"
        request = type(request).FromString(request.SerializeToString())
        host = self.address.rpartition(":")[0]
        if method == "submit_tasks":
            for task in request.tasks:
                network.submitted_s.setdefault(task.execution_attempt_id, network.loop.time())
        if network.is_lost(process.host, host):
            if timeout_s is None or network.random.random() < 0.5:
                reply.fail_later(network.dead_connection_s, RpcUnavailableError(f"{where} cannot be reached"))
        else:
            network.later(network.delay_s, self._deliver, method, request, reply)
            if network.is_faulty and network.random.random() < 0.02:  # it arrives twice
                network.num_faults += 1
                network.later(network.delay_s + 0.1, self._deliver, method, request, _Reply(network, process))
        try:
            async with asyncio.timeout(timeout_s):
                return await reply.future
        except TimeoutError:
            raise RpcTimeoutError(f"{where} gave no answer in time") from None

    def _deliver(self, method: str, request: Any, reply: _Reply) -> None:
        network = self._network
        server = network.servers.get(self.address)
        caller_host = self._process.host

        def answer(result: Any) -> None:
            if server is not None and network.is_lost(server.host, caller_host):
                reply.fail_later(network.dead_connection_s, RpcUnavailableError("the connection broke"))
            else:
                network.later(network.delay_s, reply.settle, result)

        if server is None:
            answer(RpcUnavailableError(f"nobody at {self.address}"))
            return
        server.calls[reply] = None

        async def serve() -> None:
            try:
                result = server.invoke(self._service, method, request, self.fencing_token, self._process)
                if inspect.isawaitable(result):
                    result = await result
            except FlinkError as error:
                result = error
            except Exception as error:  # noqa: BLE001 - the boundary, as in the real server
                network.errors.append(error)
                result = InternalError(f"{method} failed: {error}")
            if server.calls.pop(reply, reply) is None:
                network.trace.note(caller_host, self.address, method, _outcome(result))
                network.later(0.0, answer, result)

        server.process.spawn(serve(), f"{method} of {self.address}")

    async def _stream(self, method: str, request: Any) -> AsyncIterator[Any]:
        network, process = self._network, self._process
        queue: asyncio.Queue[Any] = asyncio.Queue()
        await asyncio.sleep(network.delay_s)
        server = network.servers.get(self.address)
        if server is None or not network.connects(process.host, server.host):
            await asyncio.sleep(network.dead_connection_s if server is not None else 0.0)
            raise RpcUnavailableError(f"nobody at {self.address}")
        reply = _StreamEnd(queue)
        server.calls[reply] = None

        async def serve() -> None:
            try:
                async for item in server.invoke(self._service, method, request, self.fencing_token, process):
                    queue.put_nowait(type(item).FromString(item.SerializeToString()))
                queue.put_nowait(None)
            except FlinkError as error:
                queue.put_nowait(error)
            finally:
                server.calls.pop(reply, None)

        serving = server.process.spawn(serve(), f"{method} of {self.address}")
        on_death = lambda: network.later(0.01, serving.cancel)  # noqa: E731 - removed by its identity
        process.at_exit.append(on_death)
        try:
            while True:
                item = await self._next(queue, server)
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                await asyncio.sleep(network.delay_s)
                yield item
        finally:
            if on_death in process.at_exit:
                process.at_exit.remove(on_death)
            server.process.run(serving.cancel)

    async def _next(self, queue: asyncio.Queue[Any], server: SimulatedRpcServer) -> Any:
        network, host = self._network, self._process.host
        while True:
            try:
                async with asyncio.timeout(1.0):
                    return await queue.get()
            except TimeoutError:
                pass
            if not network.connects(host, server.host):
                await asyncio.sleep(network.dead_connection_s)
                if not network.connects(host, server.host):
                    return RpcUnavailableError(f"the connection to {self.address} broke")


class _StreamEnd:
    """Breaks a stream whose server has ended."""

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        self._queue = queue

    def settle(self, answer: Any) -> None:
        self._queue.put_nowait(answer)

    def fail_later(self, delay_s: float, error: FlinkError) -> None:
        self.settle(error)


def _outcome(result: Any) -> str:
    return type(result).__name__ if isinstance(result, BaseException) else "ok"


class SimulatedRpcServer:
    """The RpcServer of the process that creates it."""

    network: HostNetwork

    def __init__(self, *_: Any, port: int = 0, **__: Any) -> None:
        process = CURRENT.get()
        assert process is not None, "an RpcServer outside of every process"
        self.process = process
        self.host = process.host
        self._port = port or self.network.next_port()
        self.address = f"{self.host}:{self._port}"
        self.endpoints: dict[str, Any] = {}
        #: The calls that are being served.
        self.calls: dict[Any, None] = {}
        self.gone = asyncio.Event()

    def add_endpoint(self, service: str, endpoint: Any) -> None:
        self.endpoints[service] = endpoint

    async def start(self) -> None:
        self.listen()

    def listen(self) -> None:
        assert self.address not in self.network.servers, f"{self.address} is in use"
        self.network.servers[self.address] = self
        self.process.at_exit.append(self._break)

    async def stop(self, grace_s: float = 0.5) -> None:
        self._break()

    async def refresh_health(self, service: str) -> None:
        return

    def _break(self) -> None:
        if self.network.servers.get(self.address) is self:
            del self.network.servers[self.address]
        self.gone.set()
        calls, self.calls = self.calls, {}
        for reply in calls:
            reply.fail_later(self.network.random.uniform(0.001, 0.05), RpcUnavailableError(f"{self.address} is gone"))

    def invoke(self, service: str, method: str, request: Any, token: str | None, caller: SimulatedProcess) -> Any:
        endpoint = self.endpoints.get(service)
        if endpoint is None:
            raise RpcUnavailableError(f"{self.address} does not serve {service}")
        function = getattr(endpoint, method)
        context = CallContext(token, __version__, f"{caller.host}:{caller.pid}")
        check_fencing_token(endpoint, function, context, method)
        return function(request, context)
