"""PeerConnection: the connection of an endpoint to another process: registration, heartbeats, loss, change of leader.

```
   follow(leaders): another leader          accepted                    silent, broken, not known there
   no leader -------------> REGISTERING -------------> REGISTERED -----------------------------------> lost
                              ^   ^  |                     ^                                             |
                 register() --+   +--+ not reachable,      +-- peer_registered()                         |
                              |        no leader yet, refused                                            |
                              +------------------------------- follows a leader -------------------------+-> CLOSED
```

One side registers at the other (`register` or `follow`). The other side makes its connection when it is registered at
(`peer_registered`). From then on both sides do the same: they send heartbeats, watch a TCP connection, which shows the
death of a process at once, and lose the peer when it has been silent for `heartbeat.timeout`.

`HeartbeatMonitor` and `RegistrationBackoff` make the decisions and are pure.

Source: org.apache.flink.runtime.registration.{RegisteredRpcConnection, RetryingRegistration},
org.apache.flink.runtime.heartbeat.HeartbeatManagerImpl.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from flinkpy.common.errors import (
    FlinkError,
    NotLeaderError,
    NotRegisteredError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
    TlsError,
)
from flinkpy.configuration import cluster_options, read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.highavailability.leader_election import LeaderInformation, LeaderRetrieval
from flinkpy.rpc.endpoint import OnDone, RpcEndpoint, TimerHandle

logger = logging.getLogger(__name__)

#: The value of heartbeat.rpc-failure-threshold that disables the detection by failed calls.
DISABLED = -1

#: The least time-out of a registration call. The first call also connects, so it gets more time than Flink's 100 ms.
MIN_REGISTRATION_TIMEOUT_MS = 1_000


class PeerWatchHandle(Protocol):
    def cancel(self) -> None: ...


class Peers(Protocol):
    """The interface of `RpcClient` that endpoints use; tests use a fake."""

    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Any: ...

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> PeerWatchHandle: ...

    async def drop(self, address: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RegistrationOptions:
    """cluster.registration.{initial-timeout,max-timeout,error-delay,refused-registration-delay}."""

    initial_timeout_ms: int = 100
    max_timeout_ms: int = 30_000
    error_delay_ms: int = 10_000
    refused_delay_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerOptions:
    """The options of a service about its peers."""

    rpc_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 10_000
    heartbeat_timeout_ms: int = 50_000
    heartbeat_rpc_failure_threshold: int = 2
    registration: RegistrationOptions = field(default_factory=RegistrationOptions)

    @property
    def rpc_timeout_s(self) -> float:
        return self.rpc_timeout_ms / 1000


def read_peer_options(configuration: AnyConfiguration) -> dict[str, Any]:
    """Returns the fields of PeerOptions. Raises: ConfigurationError, which names the option."""
    return {
        "rpc_timeout_ms": read_option(configuration, cluster_options.ASK_TIMEOUT),
        "heartbeat_interval_ms": read_option(configuration, cluster_options.HEARTBEAT_INTERVAL),
        "heartbeat_timeout_ms": read_option(configuration, cluster_options.HEARTBEAT_TIMEOUT),
        "heartbeat_rpc_failure_threshold": read_option(configuration, cluster_options.HEARTBEAT_RPC_FAILURE_THRESHOLD),
        "registration": RegistrationOptions(
            initial_timeout_ms=read_option(configuration, cluster_options.INITIAL_REGISTRATION_TIMEOUT),
            max_timeout_ms=read_option(configuration, cluster_options.MAX_REGISTRATION_TIMEOUT),
            error_delay_ms=read_option(configuration, cluster_options.ERROR_REGISTRATION_DELAY),
            refused_delay_ms=read_option(configuration, cluster_options.REFUSED_REGISTRATION_DELAY),
        ),
    }


class HeartbeatMonitor:
    """Decides whether a peer is dead: it was silent for too long, or several calls in a row could not be delivered.

    Pure.
    """

    def __init__(self, timeout_ms: int, rpc_failure_threshold: int, now_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._rpc_failure_threshold = rpc_failure_threshold
        self._last_heard_ms = now_ms
        self._num_failed_calls = 0

    def heard(self, now_ms: int) -> None:
        """Records a sign of life."""
        self._last_heard_ms = max(self._last_heard_ms, now_ms)
        self._num_failed_calls = 0

    def call_failed(self) -> None:
        """Records that a call to the peer could not be delivered."""
        self._num_failed_calls += 1

    def remaining_ms(self, now_ms: int) -> int:
        """Returns after which time the peer is dead if it stays silent."""
        return self._last_heard_ms + self._timeout_ms - now_ms

    def death_of_peer(self, now_ms: int) -> str | None:
        """Returns why the peer is believed to be dead; None if it is alive."""
        if self.remaining_ms(now_ms) <= 0:
            return f"no heartbeat for {self._timeout_ms} ms (heartbeat.timeout)"
        if self._rpc_failure_threshold != DISABLED and self._num_failed_calls >= self._rpc_failure_threshold:
            return f"{self._num_failed_calls} heartbeats could not be delivered (heartbeat.rpc-failure-threshold)"
        return None


class RegistrationBackoff:
    """The time-outs and pauses of the calls of one registration.

    The time-out doubles up to its maximum. The pause is as long as the last time-out, but at most the error delay, so
    that a peer that is just starting is reached soon. Pure.
    """

    def __init__(self, options: RegistrationOptions) -> None:
        self._options = options
        self._timeout_ms = options.initial_timeout_ms

    @property
    def timeout_s(self) -> float:
        """The time-out of the next call."""
        return max(self._timeout_ms, MIN_REGISTRATION_TIMEOUT_MS) / 1000

    def next_pause_ms(self) -> int:
        """Returns the pause after a call that did not reach the leader."""
        pause_ms = min(self._timeout_ms, self._options.error_delay_ms)
        self._timeout_ms = min(self._timeout_ms * 2, self._options.max_timeout_ms)
        return pause_ms


class PeerConnection:
    """Base class of connections. A subclass makes the calls and handles what happens (the methods that begin `_on_`).

    Thread: the endpoint's main thread.
    """

    #: Errors of calls that mean that the peer is dead, or does not work for this process any more.
    lost_by: ClassVar[tuple[type[FlinkError], ...]] = (StaleFencingTokenError, NotRegisteredError)
    #: Errors that mean that a heartbeat was not delivered. Several in a row mean that the peer is dead.
    undelivered_by: ClassVar[tuple[type[FlinkError], ...]] = (RpcUnavailableError,)
    #: False if only the peer sends heartbeats.
    sends_heartbeats: ClassVar[bool] = True
    #: False if the end of the peer's process is noticed in another way.
    is_watched: ClassVar[bool] = True

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        options: PeerOptions,
        *,
        service: str,
        name: str,
        address: str = "",
        fencing_token: str | None = None,
    ) -> None:
        """Creates a connection.

        Args:
            service: the service of the peer.
            name: the name of the peer in log lines.
            address: the address of the peer; with `follow`, it is that of the leader.
            fencing_token: the token of the calls.
        """
        self.address = address
        #: The leader that this connection follows; None if there is none at the moment.
        self.leader: LeaderInformation | None = None
        self.is_registered = False
        self.is_closed = False
        self._endpoint = endpoint
        self._peers = peers
        self._peer_options = options
        self._service = service
        self._name = name
        self._fencing_token = fencing_token
        self._gateway: Any = peers.gateway(service, address, fencing_token) if address else None
        self._leaders: LeaderRetrieval | None = None
        #: Incremented when a registration ends. Answers to calls of an earlier one are ignored.
        self._epoch = 0
        self._registration: asyncio.Task[None] | None = None
        self._monitor: HeartbeatMonitor | None = None
        self._is_heartbeat_in_flight = False
        self._heartbeat_timer: TimerHandle | None = None
        self._expiry_timer: TimerHandle | None = None
        self._watch: PeerWatchHandle | None = None

    # ---- life

    def follow(self, leaders: LeaderRetrieval) -> None:
        """Registers at the leader, again after each loss, and at every later leader. Closes `leaders` with itself."""
        self._leaders = leaders
        leaders.start(self._leader_changed)

    def register(self) -> None:
        """Starts to register, and tries until the peer accepts or refuses."""
        self._gateway = self._peers.gateway(self._service, self.address, self._fencing_token)
        self._registration = self._endpoint.run_async(
            self._registering(), self._registration_ended, f"register at {self._name}"
        )

    def peer_registered(self) -> None:
        """Starts heartbeats and the watch, because the peer has registered here."""
        self.is_registered = True
        options = self._peer_options
        self._monitor = HeartbeatMonitor(
            options.heartbeat_timeout_ms, options.heartbeat_rpc_failure_threshold, self._endpoint.awake_ms()
        )
        if self.is_watched:
            self._watch = self._peers.watch_peer(self.address, lambda: self.lose("its connection broke"))
        self._heartbeat_timer = self._endpoint.schedule(options.heartbeat_interval_ms, self._heartbeat_due)
        self._schedule_expiry(self._monitor)

    def heard(self) -> None:
        """Records a call or an answer of the peer."""
        if self._monitor is not None:
            self._monitor.heard(self._endpoint.awake_ms())

    def lose(self, reason: str) -> None:
        """Ends the registration and reports the loss. A connection that follows a leader registers again."""
        if self.is_closed:
            return
        if self._leaders is None:
            self.close()
        else:
            self._end_registration()
        self._on_lost(reason)
        if not self.is_closed and not self.is_registered and self._registration is None and self.leader is not None:
            self.register()

    def close(self) -> None:
        """Closes the connection. Nothing is reported after it. Idempotent."""
        self.is_closed = True
        if self._leaders is not None:
            self._leaders.close()
        self._end_registration()

    # ---- calls

    def send_heartbeat(self) -> None:
        """Sends a heartbeat, unless the last one has not been answered."""
        if not self.sends_heartbeats or not self.is_registered or self._is_heartbeat_in_flight:
            return
        self._is_heartbeat_in_flight = True
        epoch = self._epoch

        def done(answer: Any, error: BaseException | None) -> None:
            if epoch == self._epoch:
                self._is_heartbeat_in_flight = False
                self._heartbeat_answered(answer, error)

        self._endpoint.run_async(self._send_heartbeat(), done, f"heartbeat to {self._name}")

    def call(self, coroutine: Coroutine[Any, Any, Any], on_done: OnDone, name: str) -> None:
        """Makes a call. `on_done` is not called if the registration ends before the answer, or because of it."""
        epoch = self._epoch

        def done(result: Any, error: BaseException | None) -> None:
            if epoch != self._epoch or self.is_closed:
                return
            if error is None:
                self.heard()
            elif isinstance(error, self.lost_by):
                self.lose(f"it answered {type(error).__name__}: {error}")
                return
            on_done(result, error)

        self._endpoint.run_async(coroutine, done, f"{name} {self._name}")

    def call_until_answered(
        self, method: Callable[..., Coroutine[Any, Any, Any]], request: Any, name: str, *, retry_delay_ms: int
    ) -> None:
        """Makes a call, and repeats it until it succeeds or the registration ends."""
        epoch = self._epoch

        def repeat() -> None:
            if epoch == self._epoch:
                self.call_until_answered(method, request, name, retry_delay_ms=retry_delay_ms)

        def done(_: Any, error: BaseException | None) -> None:
            if error is not None:
                logger.warning("%s %s failed and is repeated: %s", name, self._name, error)
                self._endpoint.schedule(retry_delay_ms, repeat)

        self.call(method(request, timeout_s=self._peer_options.rpc_timeout_s), done, name)

    # ---- implemented by subclasses

    async def _register(self, timeout_s: float) -> Any:
        """Makes the registration call."""
        raise NotImplementedError

    def _on_registered(self, response: Any) -> None:
        """Handles the accepted registration."""

    def _on_refused(self, error: FlinkError) -> bool:
        """Handles a refused registration. Returns True to try again after the refused delay."""
        return True

    async def _send_heartbeat(self) -> Any:
        """Makes the heartbeat call."""
        raise NotImplementedError

    def _on_heartbeat_answer(self, answer: Any) -> None:
        """Handles the answer. It must call `heard` if the peer is the one that is registered, or `lose`."""
        self.heard()

    def _on_lost(self, reason: str) -> None:
        """Handles the loss of the peer."""

    def _on_leader_changed(self, leader: LeaderInformation | None) -> None:
        """Handles another leader. The registration at it follows."""

    # ---- registration

    def _leader_changed(self, leader: LeaderInformation | None) -> None:
        if self.is_closed or leader == self.leader:
            return
        self._end_registration()
        self.leader = leader
        if leader is not None:
            self.address, self._fencing_token = leader.address, leader.fencing_token
        self._on_leader_changed(leader)
        if leader is not None:
            self.register()

    async def _registering(self) -> None:
        backoff = RegistrationBackoff(self._peer_options.registration)
        while True:
            try:
                response = await self._register(backoff.timeout_s)
                break
            except (RpcUnavailableError, RpcTimeoutError, NotLeaderError) as error:
                pause_ms = backoff.next_pause_ms()
                # An unreachable peer is normal during start-up. Certificates that do not match need the user.
                level = logging.WARNING if isinstance(error, TlsError) else logging.DEBUG
                logger.log(level, "%s: %s; trying again in %d ms", self._name, error, pause_ms)
            except FlinkError as error:
                logger.warning("%s refused the registration: %s", self._name, error)
                if not self._on_refused(error):
                    return
                pause_ms = self._peer_options.registration.refused_delay_ms
            await asyncio.sleep(pause_ms / 1000)
        self._registration = None
        self.peer_registered()
        self._on_registered(response)

    def _registration_ended(self, _: None, error: BaseException | None) -> None:
        if error is not None:
            self._endpoint.on_fatal_error(error)

    def _use_fencing_token(self, fencing_token: str) -> None:
        """Sets the token of all further calls: the one that the peer sent in its answer to the registration."""
        self._gateway = self._peers.gateway(self._service, self.address, fencing_token)

    def _end_registration(self) -> None:
        self.is_registered = False
        self._epoch += 1
        self._monitor = None
        self._is_heartbeat_in_flight = False
        if self._registration is not None:
            self._registration.cancel()
            self._registration = None
        for running in (self._watch, self._heartbeat_timer, self._expiry_timer):
            if running is not None:
                running.cancel()
        self._watch = self._heartbeat_timer = self._expiry_timer = None

    # ---- heartbeats

    def _heartbeat_due(self) -> None:
        self._heartbeat_timer = self._endpoint.schedule(self._peer_options.heartbeat_interval_ms, self._heartbeat_due)
        self.send_heartbeat()
        self._check_alive()

    def _heartbeat_answered(self, answer: Any, error: BaseException | None) -> None:
        if error is None:
            self._on_heartbeat_answer(answer)
        elif isinstance(error, self.lost_by):
            self.lose(f"it answered {type(error).__name__}: {error}")
        elif isinstance(error, self.undelivered_by):
            logger.debug("heartbeat to %s was not delivered: %s", self._name, error)
            if self._monitor is not None:
                self._monitor.call_failed()
            self._check_alive()
        elif not isinstance(error, RpcTimeoutError):
            logger.warning("heartbeat to %s failed: %s", self._name, error)

    def _schedule_expiry(self, monitor: HeartbeatMonitor) -> None:
        delay_ms = max(1, monitor.remaining_ms(self._endpoint.awake_ms()))
        self._expiry_timer = self._endpoint.schedule(delay_ms, self._expiry_due)

    def _expiry_due(self) -> None:
        self._check_alive()
        if self._monitor is not None:
            self._schedule_expiry(self._monitor)

    def _check_alive(self) -> None:
        death = None if self._monitor is None else self._monitor.death_of_peer(self._endpoint.awake_ms())
        if death is not None:
            self.lose(death)


def check_leader(answered_id: str, expected_id: str | None, address: str) -> None:
    """Checks that the process that accepted the registration is the expected leader, if its id is known.

    Raises: NotLeaderError.
    """
    if expected_id is not None and answered_id != expected_id:
        raise NotLeaderError(
            f"{address} answers as {answered_id}, the leader is {expected_id}",
            details={"expected": expected_id, "got": answered_id},
        )
