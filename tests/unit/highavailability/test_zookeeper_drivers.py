"""Elections and retrievals on virtual time, with a tree of nodes whose requests tests let fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest
from fake_async_zookeeper import FakeClient, FakeZooKeeper
from virtual_time import VirtualTimeLoop

from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.highavailability.zookeeper.leader_election import ZooKeeperLeaderElection
from flinkpy.highavailability.zookeeper.leader_information import decode, encode
from flinkpy.highavailability.zookeeper.leader_retrieval import ZooKeeperLeaderRetrieval

PATH = "/flink/c/leader/dispatcher"
INFO = f"{PATH}/connection_info"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(test())


class Contender:
    def __init__(
        self, client: FakeClient, name: str = "t", *, tolerates: bool = False, fixed: str | None = None
    ) -> None:
        tokens = count(1)
        self.client = client
        self.events: list[str] = []
        self.election = ZooKeeperLeaderElection(
            asyncio.get_running_loop(),
            client,
            PATH,
            fixed_token=fixed,
            tolerates_suspension=tolerates,
            new_token=lambda: f"{name}{next(tokens)}",
        )
        self.election.start(self)

    def grant_leadership(self, fencing_token: str) -> None:
        self.events.append(f"granted {fencing_token}")
        assert self.election.has_leadership(fencing_token)

    def revoke_leadership(self) -> None:
        self.events.append("revoked")
        assert self.election.leadership is None


async def settle(seconds: float = 0.5) -> None:
    """Lets virtual time pass, so that all sent requests arrive."""
    await asyncio.sleep(seconds)


def published(zookeeper: FakeZooKeeper) -> LeaderInformation | None:
    return decode(zookeeper.nodes[INFO], INFO) if INFO in zookeeper.nodes else None


@pytest.mark.parametrize("request_name", ["create_sequential", "children", "exists"])
def test_an_election_asks_again_whatever_fails(request_name: str) -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        client.failures[request_name] = 3
        contender = Contender(client)
        await settle(10)
        assert [event.split()[0] for event in contender.events] == ["granted"]
        assert len(client.zookeeper.nodes) == 1

    run(test)


def test_the_address_is_published_once_it_is_confirmed_and_again_after_a_failure() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        contender = Contender(client)
        await settle()
        assert published(client.zookeeper) is None
        client.failures["transact"] = 2
        contender.election.confirm_leadership("t1", "host:1")
        contender.election.confirm_leadership("another", "host:2")
        await settle(5)
        assert published(client.zookeeper) == LeaderInformation("host:1", "t1")
        contender.election.confirm_leadership("t1", "host:3")
        await settle()
        assert published(client.zookeeper) == LeaderInformation("host:3", "t1")

    run(test)


def test_the_address_of_a_former_leader_is_replaced() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        client.zookeeper.nodes[INFO] = encode(LeaderInformation("dead:1", "old"))
        contender = Contender(client)
        await settle()
        contender.election.confirm_leadership("t1", "host:1")
        await settle()
        assert published(client.zookeeper) == LeaderInformation("host:1", "t1")

    run(test)


def test_an_address_is_not_published_once_another_leads() -> None:
    async def test() -> None:
        zookeeper = FakeZooKeeper()
        one, two = FakeClient(zookeeper), FakeClient(zookeeper)
        first = Contender(one, "a")
        await settle()
        second = Contender(two, "b")
        await settle()
        one.failures["transact"] = 1
        first.election.confirm_leadership("a1", "host:1")
        await settle()
        one.suspend()
        one.expire()
        await settle(5)
        assert first.events == ["granted a1", "revoked"] and second.events == ["granted b1"]
        second.election.confirm_leadership("b1", "host:2")
        one.connect()
        await settle(5)
        assert published(zookeeper) == LeaderInformation("host:2", "b1")
        second.election.close()
        await settle()
        # The address is removed with the leader that resigns, and the first contender leads again.
        assert published(zookeeper) is None and first.events == ["granted a1", "revoked", "granted a2"]

    run(test)


def test_a_leader_that_comes_back_withdraws_what_it_had_published() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        contender = Contender(client)
        await settle()
        contender.election.confirm_leadership("t1", "host:1")
        await settle()
        client.suspend()
        assert contender.events == ["granted t1", "revoked"]
        await settle()
        client.connect()
        await settle()
        assert contender.events[2:] == ["granted t2"] and published(client.zookeeper) is None
        assert [node for node in client.zookeeper.nodes if "latch" in node] == [f"{PATH}/latch/t2-latch-0000000001"]

    run(test)


def test_a_suspension_is_tolerated_until_the_grace_is_over() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        contender = Contender(client, tolerates=True)
        await settle()
        client.suspend()
        await settle(5.9)
        client.connect()
        await settle(100)
        assert contender.events == ["granted t1"]
        client.suspend()
        await settle(6.1)
        assert contender.events == ["granted t1", "revoked"]

    run(test)


def test_a_contender_with_a_token_of_its_own_leads_once() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper(), is_connected=False)
        contender = Contender(client, fixed="job-master")
        await settle()
        client.connect()
        await settle()
        client.suspend()
        client.connect()
        await settle(10)
        assert contender.events == ["granted job-master", "revoked"] and client.zookeeper.nodes == {}

    run(test)


def test_an_election_has_one_contender_and_ends_once() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        contender = Contender(client)
        with pytest.raises(RuntimeError, match="one contender"):
            contender.election.start(contender)
        contender.election.close()
        await settle(10)
        assert contender.events == [] and client.zookeeper.nodes == {}

    run(test)


def retrieval(client: FakeClient, *, tolerates: bool = False) -> tuple[ZooKeeperLeaderRetrieval, list[str | None]]:
    leaders: list[str | None] = []
    made = ZooKeeperLeaderRetrieval(asyncio.get_running_loop(), client, PATH, tolerates_suspension=tolerates)
    made.start(lambda leader: leaders.append(None if leader is None else leader.address))
    return made, leaders


def publish(zookeeper: FakeZooKeeper, address: str | None) -> None:
    if address is None:
        del zookeeper.nodes[INFO]
    else:
        zookeeper.nodes[INFO] = encode(LeaderInformation(address, "t"))
    zookeeper.fire(INFO)


def test_every_change_of_the_leader_is_told_once() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        made, leaders = retrieval(client)
        await settle()
        assert leaders == []  # there was no leader before, and there is none now
        for address in ("a:1", "a:1", "b:1", None, "c:1"):
            publish(client.zookeeper, address)
            await settle()
        assert leaders == ["a:1", "b:1", None, "c:1"]
        made.close()
        publish(client.zookeeper, "d:1")
        await settle()
        assert leaders == ["a:1", "b:1", None, "c:1"]

    run(test)


def test_a_reading_that_fails_is_repeated() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        publish(client.zookeeper, "a:1")
        client.failures.update({"exists": 2, "get": 2})
        _, leaders = retrieval(client)
        await settle(10)
        assert leaders == ["a:1"]
        publish(client.zookeeper, "b:1")
        await settle()
        assert leaders == ["a:1", "b:1"]

    run(test)


def test_nobody_is_known_to_lead_while_the_connection_is_suspended() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        publish(client.zookeeper, "a:1")
        _, leaders = retrieval(client)
        await settle()
        client.suspend()
        assert leaders == ["a:1", None]
        client.connect()
        await settle()
        assert leaders == ["a:1", None, "a:1"]

    run(test)


def test_a_tolerated_suspension_keeps_the_leader_for_the_time_out_of_the_session() -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        publish(client.zookeeper, "a:1")
        _, leaders = retrieval(client, tolerates=True)
        await settle()
        client.suspend()
        await settle(8.9)
        client.connect()
        await settle(20)
        assert leaders == ["a:1"]
        client.suspend()
        await settle(9.1)
        assert leaders == ["a:1", None]
        client.expire()
        client.connect()
        await settle()
        assert leaders == ["a:1", None, "a:1"]

    run(test)


def test_foreign_contents_of_a_node_are_not_taken_for_a_leader(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        client = FakeClient(FakeZooKeeper())
        publish(client.zookeeper, "a:1")
        _, leaders = retrieval(client)
        await settle()
        client.zookeeper.nodes[INFO] = b"\xac\xed\x00\x05"
        client.zookeeper.fire(INFO)
        await settle()
        assert leaders == ["a:1", None]

    run(test)
    assert f"node {INFO} of ZooKeeper does not hold the address of a leader" in caplog.text
