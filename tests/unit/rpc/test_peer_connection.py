"""Tests of connections to peers: registration, heartbeats, loss and changes of the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fake_leaders import FakeRetrieval
from fake_peers import FakePeers
from virtual_time import LoopClock, VirtualTimeLoop

from flinkpy._proto import common_pb2
from flinkpy.common.errors import (
    FlinkError,
    NotLeaderError,
    RegistrationRefusedError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
)
from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.peer_connection import (
    DISABLED,
    HeartbeatMonitor,
    PeerConnection,
    PeerOptions,
    RegistrationBackoff,
    RegistrationOptions,
)

# ---- the pure parts


def test_a_peer_is_dead_when_it_has_been_silent_for_the_timeout() -> None:
    monitor = HeartbeatMonitor(50, 2, now_ms=0)
    monitor.heard(40)
    assert monitor.death_of_peer(89) is None
    assert monitor.remaining_ms(89) == 1
    assert monitor.death_of_peer(90) == "no heartbeat for 50 ms (heartbeat.timeout)"


def test_a_peer_that_cannot_be_called_is_dead_at_the_threshold() -> None:
    monitor = HeartbeatMonitor(10_000, 2, now_ms=0)
    monitor.call_failed()
    monitor.heard(1)
    monitor.call_failed()
    assert monitor.death_of_peer(2) is None
    monitor.call_failed()
    assert monitor.death_of_peer(3) == "2 heartbeats could not be delivered (heartbeat.rpc-failure-threshold)"


def test_failed_calls_do_not_count_if_their_threshold_is_disabled() -> None:
    monitor = HeartbeatMonitor(10_000, DISABLED, now_ms=0)
    for _ in range(100):
        monitor.call_failed()
    assert monitor.death_of_peer(1) is None


def test_a_late_heartbeat_does_not_turn_time_back() -> None:
    monitor = HeartbeatMonitor(50, 2, now_ms=0)
    monitor.heard(40)
    monitor.heard(10)
    assert monitor.death_of_peer(80) is None


def test_time_outs_and_pauses_of_a_registration_double_up_to_their_limits() -> None:
    backoff = RegistrationBackoff(
        RegistrationOptions(initial_timeout_ms=400, max_timeout_ms=3_000, error_delay_ms=1_500)
    )
    timeouts, pauses = [], []
    for _ in range(5):
        timeouts.append(backoff.timeout_s)
        pauses.append(backoff.next_pause_ms())
    assert timeouts == [1.0, 1.0, 1.6, 3.0, 3.0], "the first call also connects, so it has a second"
    assert pauses == [400, 800, 1_500, 1_500, 1_500]


# ---- the connection

OPTIONS = PeerOptions(heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000)
ADDRESS = "rm:1"


class Connection(PeerConnection):
    """Records what happens."""

    def __init__(self, endpoint: RpcEndpoint, peers: FakePeers, **peer: Any) -> None:
        super().__init__(endpoint, peers, OPTIONS, service="ResourceManager", name="the ResourceManager", **peer)
        self.events: list[str] = []
        self.retries_when_refused = True

    async def _register(self, timeout_s: float) -> Any:
        return await self._gateway.register("", timeout_s=timeout_s)

    def _on_registered(self, response: Any) -> None:
        self.events.append(f"registered at {self.address}")

    def _on_refused(self, error: FlinkError) -> bool:
        self.events.append("refused")
        return self.retries_when_refused

    async def _send_heartbeat(self) -> Any:
        return await self._gateway.heartbeat("", timeout_s=1.0)

    def _on_lost(self, reason: str) -> None:
        self.events.append(f"lost: {reason}")

    def _on_leader_changed(self, leader: LeaderInformation | None) -> None:
        self.events.append("no leader" if leader is None else f"leader {leader.fencing_token}")


Test = Callable[[RpcEndpoint, FakePeers], Awaitable[None]]


def on_virtual_time(test: Test) -> Callable[[], None]:
    def run() -> None:
        async def body() -> None:
            loop = asyncio.get_running_loop()
            endpoint = RpcEndpoint(loop, LoopClock(loop))
            errors: list[BaseException] = []
            endpoint.on_fatal_error = errors.append
            await test(endpoint, FakePeers())
            await endpoint.close()
            assert errors == []

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(body())

    run.__name__ = test.__name__
    return run


def times(peers: FakePeers, method: str) -> int:
    return len(peers.requests(method))


def answers(*results: Any) -> Callable[[Any], Any]:
    """Answers with each result in turn, and then with acknowledgements."""
    remaining = list(results)
    return lambda _: remaining.pop(0) if remaining else common_pb2.Acknowledge()


@on_virtual_time
async def test_registration_is_repeated_until_the_peer_is_there_and_leads(
    endpoint: RpcEndpoint, peers: FakePeers
) -> None:
    peers.answers["register"] = answers(RpcUnavailableError("down"), RpcTimeoutError("slow"), NotLeaderError("not yet"))
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.register()
    await asyncio.sleep(0.65)
    assert times(peers, "register") == 3 and not connection.is_registered
    await asyncio.sleep(0.1)
    assert connection.events == ["registered at rm:1"]


@on_virtual_time
async def test_a_refused_registration_is_repeated_if_the_connection_wants_it(
    endpoint: RpcEndpoint, peers: FakePeers
) -> None:
    peers.answers["register"] = answers(RegistrationRefusedError("full"), RegistrationRefusedError("full"))
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.register()
    await asyncio.sleep(29)
    assert times(peers, "register") == 1
    connection.retries_when_refused = False
    await asyncio.sleep(60)
    assert connection.events == ["refused", "refused"]
    assert not connection.is_registered


@on_virtual_time
async def test_a_silent_peer_is_lost_after_the_timeout_and_only_once(endpoint: RpcEndpoint, peers: FakePeers) -> None:
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.peer_registered()
    await asyncio.sleep(20)
    assert connection.events == []
    peers.answers["heartbeat"] = lambda _: asyncio.get_running_loop().create_future()
    before = times(peers, "heartbeat")
    await asyncio.sleep(20)
    assert times(peers, "heartbeat") == before + 1, "one heartbeat is in flight at a time"
    assert connection.events == ["lost: no heartbeat for 5000 ms (heartbeat.timeout)"]
    assert connection.is_closed


@on_virtual_time
async def test_calls_of_the_peer_keep_it_alive(endpoint: RpcEndpoint, peers: FakePeers) -> None:
    peers.answers["heartbeat"] = lambda _: RpcTimeoutError("the answers are lost")
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.peer_registered()
    for _ in range(10):
        await asyncio.sleep(4)
        connection.heard()
    assert connection.events == []


@on_virtual_time
async def test_heartbeats_that_are_not_delivered_lose_the_peer_before_the_timeout(
    endpoint: RpcEndpoint, peers: FakePeers
) -> None:
    peers.answers["heartbeat"] = lambda _: RpcUnavailableError("refused")
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.peer_registered()
    await asyncio.sleep(2.5)
    assert connection.events == ["lost: 2 heartbeats could not be delivered (heartbeat.rpc-failure-threshold)"]


@on_virtual_time
async def test_a_broken_connection_loses_the_peer_at_once(endpoint: RpcEndpoint, peers: FakePeers) -> None:
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.peer_registered()
    peers.break_connection(ADDRESS)
    assert connection.events == ["lost: its connection broke"]


@on_virtual_time
async def test_an_error_that_ends_the_registration_is_not_passed_to_the_caller(
    endpoint: RpcEndpoint, peers: FakePeers
) -> None:
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.peer_registered()
    peers.answers["report"] = answers(RpcTimeoutError("slow"), StaleFencingTokenError("another leads"))
    results: list[BaseException | None] = []
    for _ in range(2):
        connection.call(connection._gateway.report(""), lambda _, error: results.append(error), "report to")
    await asyncio.sleep(0.1)
    assert [type(error) for error in results] == [RpcTimeoutError]
    assert connection.events == ["lost: it answered StaleFencingTokenError: another leads"]


@on_virtual_time
async def test_nothing_is_reported_after_close(endpoint: RpcEndpoint, peers: FakePeers) -> None:
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.peer_registered()
    results: list[object] = []
    connection.call(connection._gateway.report(""), lambda *result: results.append(result), "report to")
    connection.close()
    peers.break_connection(ADDRESS)
    await asyncio.sleep(20)
    assert (connection.events, results) == ([], [])
    assert peers.on_lost[ADDRESS] == []


@on_virtual_time
async def test_a_connection_registers_again_after_a_loss_and_at_the_next_leader(
    endpoint: RpcEndpoint, peers: FakePeers
) -> None:
    leaders = FakeRetrieval(LeaderInformation("rm:1", "one"))
    connection = Connection(endpoint, peers)
    connection.follow(leaders)
    await asyncio.sleep(0.1)
    peers.break_connection("rm:1")
    await asyncio.sleep(0.1)
    leaders.lead("rm:2", "two")
    await asyncio.sleep(0.1)
    leaders.nobody_leads()
    peers.break_connection("rm:2")
    await asyncio.sleep(20)
    assert connection.events == [
        "leader one",
        "registered at rm:1",
        "lost: its connection broke",
        "registered at rm:1",
        "leader two",
        "registered at rm:2",
        "no leader",
    ]
    assert [(call.address, call.token) for call in peers.calls_of("register")] == [
        ("rm:1", "one"),
        ("rm:1", "one"),
        ("rm:2", "two"),
    ]
    connection.close()
    assert leaders.is_closed


@on_virtual_time
async def test_answers_of_a_former_leader_are_ignored(endpoint: RpcEndpoint, peers: FakePeers) -> None:
    leaders = FakeRetrieval(LeaderInformation("rm:1", "one"))
    late: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    peers.answers["register"] = answers(late)
    connection = Connection(endpoint, peers)
    connection.follow(leaders)
    await asyncio.sleep(0.1)
    late.set_result(common_pb2.Acknowledge())
    leaders.lead("rm:2", "two")
    await asyncio.sleep(0.1)
    assert connection.events == ["leader one", "leader two", "registered at rm:2"]
    stale: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    peers.answers["report"] = answers(stale)
    results: list[object] = []
    connection.call(connection._gateway.report(""), lambda *result: results.append(result), "report to")
    await asyncio.sleep(0.1)
    leaders.lead("rm:3", "three")
    stale.set_result(StaleFencingTokenError("it does not lead any more"))
    await asyncio.sleep(0.1)
    assert connection.events[3:] == ["leader three", "registered at rm:3"]
    assert results == []


@on_virtual_time
async def test_a_call_that_must_be_answered_is_repeated_until_the_registration_ends(
    endpoint: RpcEndpoint, peers: FakePeers
) -> None:
    connection = Connection(endpoint, peers, address=ADDRESS)
    connection.peer_registered()
    peers.answers["cancel"] = answers(RpcTimeoutError("slow"), RpcUnavailableError("away"))
    connection.call_until_answered(connection._gateway.cancel, "", "cancel at", retry_delay_ms=500)
    await asyncio.sleep(10)
    assert times(peers, "cancel") == 3
    peers.answers["cancel"] = lambda _: RpcTimeoutError("slow")
    connection.call_until_answered(connection._gateway.cancel, "", "cancel at", retry_delay_ms=500)
    await asyncio.sleep(1.1)
    connection.close()
    await asyncio.sleep(10)
    assert times(peers, "cancel") == 3 + 3
