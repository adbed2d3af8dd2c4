"""PeerConnection: the base class of the connections to a JobMaster and to the ResourceManager.

A connection registers with back-off and then exchanges heartbeats. It is lost when the peer is silent for
`heartbeat.timeout`, when calls cannot be delivered, or when the watched connection breaks, which shows the death of a
process at once.

Source: org.apache.flink.runtime.registration.RegisteredRpcConnection and the heartbeat listeners of TaskExecutor.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from flinkpy.common.errors import (
    FlinkError,
    NotRegisteredError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
)
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle
from flinkpy.rpc.heartbeat import HeartbeatMonitor
from flinkpy.rpc.registration import RetryingRegistration
from flinkpy.taskexecutor.options import TaskExecutorOptions

logger = logging.getLogger(__name__)

_PEER = "peer"


class RpcClientLike(Protocol):
    """The interface of `flinkpy.rpc.client.RpcClient`; tests use a fake."""

    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Any: ...

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> Any: ...

    async def drop(self, address: str) -> None: ...


class PeerConnection(ABC):
    """One connection, which is registered and lost at most once. Thread: main thread."""

    def __init__(
        self, endpoint: RpcEndpoint, rpc_client: RpcClientLike, address: str, options: TaskExecutorOptions, name: str
    ) -> None:
        self.address = address
        self.is_registered = False
        self.is_closed = False
        self._endpoint = endpoint
        self._rpc_client = rpc_client
        self._options = options
        self._name = name
        self._registration: RetryingRegistration[Any] | None = None
        self._monitor: HeartbeatMonitor[str] = HeartbeatMonitor(
            options.heartbeat_timeout_ms, options.heartbeat_rpc_failure_threshold
        )
        self._heartbeat_timer: TimerHandle | None = None
        self._expiry_timer: TimerHandle | None = None
        self._watch: Any = None

    def start(self) -> None:
        """Starts to register."""
        self._registration = RetryingRegistration(
            self._endpoint,
            self._name,
            self._register,
            self._registered,
            options=self._options.registration,
            on_refused=self._refused,
        )
        self._registration.start()

    def heard(self) -> None:
        """Records a call or an answer of the peer."""
        self._monitor.received(_PEER, self._endpoint.awake_ms())

    def close(self) -> None:
        """Closes the connection. `_on_lost` is not called any more. Idempotent."""
        self.is_closed = True
        self.is_registered = False
        if self._registration is not None:
            self._registration.cancel()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        for timer in (self._heartbeat_timer, self._expiry_timer):
            if timer is not None:
                timer.cancel()

    # ---- implemented by the two kinds of connection

    @abstractmethod
    async def _register(self, timeout_s: float) -> Any:
        """Makes the registration call."""

    @abstractmethod
    def _on_registered(self, response: Any) -> None: ...

    @abstractmethod
    def _on_refused(self, error: FlinkError) -> bool:
        """Handles a refused registration. Returns True to try again later."""

    @abstractmethod
    async def _send_heartbeat(self) -> Any:
        """Makes the heartbeat call."""

    @abstractmethod
    def _on_heartbeat_answer(self, answer: Any) -> None:
        """Handles the answer; calls `_lose` if the peer does not know this process."""

    @abstractmethod
    def _on_lost(self, cause: FlinkError) -> None:
        """Handles the loss of the peer. Called once, after `close`."""

    @abstractmethod
    def _lost_error(self, reason: str) -> FlinkError: ...

    def _call(self, coroutine: Any, on_done: Callable[[Any, BaseException | None], None], name: str) -> None:
        """Makes a call. Its answer is dropped when the connection has been closed."""

        def done(result: Any, error: BaseException | None) -> None:
            if self.is_closed:
                return
            if error is None:
                self.heard()
            elif isinstance(error, StaleFencingTokenError | NotRegisteredError):
                self._lose(f"it answered {type(error).__name__}: {error}")
                return
            on_done(result, error)

        self._endpoint.run_async(coroutine, done, f"{name} {self._name}")

    def _lose(self, reason: str) -> None:
        if self.is_closed:
            return
        self.close()
        self._on_lost(self._lost_error(reason))

    # ---- registration and heartbeats

    def _registered(self, response: Any) -> None:
        if self.is_closed:
            return
        self.is_registered = True
        self._monitor.add_target(_PEER, self._endpoint.awake_ms())
        self._watch = self._rpc_client.watch_peer(self.address, lambda: self._lose("its connection broke"))
        self._heartbeat_timer = self._endpoint.schedule(self._options.heartbeat_interval_ms, self._heartbeat)
        self._schedule_expiry()
        self._on_registered(response)

    def _refused(self, error: FlinkError) -> bool:
        return not self.is_closed and self._on_refused(error)

    def _heartbeat(self) -> None:
        self._heartbeat_timer = self._endpoint.schedule(self._options.heartbeat_interval_ms, self._heartbeat)
        self._call(self._send_heartbeat(), self._heartbeat_done, "heartbeat")

    def _heartbeat_done(self, answer: Any, error: BaseException | None) -> None:
        if error is None:
            self._on_heartbeat_answer(answer)
        elif isinstance(error, RpcUnavailableError):
            self._monitor.rpc_failed(_PEER)
            self._check_expired()
        elif not isinstance(error, RpcTimeoutError):
            logger.warning("heartbeat to %s failed: %s", self._name, error)

    def _schedule_expiry(self) -> None:
        last_heard_ms = self._monitor.last_heard_ms(_PEER) or 0
        due_ms = last_heard_ms + self._options.heartbeat_timeout_ms - self._endpoint.awake_ms()
        self._expiry_timer = self._endpoint.schedule(max(1, due_ms), self._expiry_due)

    def _expiry_due(self) -> None:
        if not self._check_expired():
            self._schedule_expiry()

    def _check_expired(self) -> bool:
        if not self._monitor.expired(self._endpoint.awake_ms()):
            return False
        self._lose(f"no heartbeat for {self._options.heartbeat_timeout_ms} ms, or calls to it failed")
        return True
