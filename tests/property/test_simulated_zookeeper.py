"""The simulated ZooKeeper keeps the promises of a real one. Without this, simulated runs would prove nothing."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType
from simulated_zookeeper import SimulatedZooKeeper
from simulated_zookeeper_client import SimulatedZooKeeperClient
from virtual_time import VirtualTimeLoop

TIMEOUT_S = 4.0


class Ensemble:
    """A simulated ZooKeeper and its clients."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.random = Random(1)
        self.zookeeper = SimulatedZooKeeper(self.loop, self.random)
        self.states: dict[SimulatedZooKeeperClient, list[str]] = {}

    def client(self) -> SimulatedZooKeeperClient:
        client = SimulatedZooKeeperClient(self.zookeeper, self.loop, self.random, TIMEOUT_S)
        self.states[client] = []
        client.add_listener(self.states[client].append)
        client.start()
        return client


def on_virtual_time(scenario):
    def test():
        async def run():
            await scenario(Ensemble())

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(run())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


@on_virtual_time
async def test_nodes_form_a_tree_with_versions(ensemble):
    client = ensemble.client()
    with pytest.raises(NoNodeError):
        client.create("/a/b", b"")
    assert client.create("/a/b", b"1", makepath=True) == "/a/b"
    with pytest.raises(NodeExistsError):
        client.create("/a/b", b"2")
    assert client.set("/a/b", b"2", version=0).version == 1
    with pytest.raises(BadVersionError):
        client.set("/a/b", b"3", version=0)
    with pytest.raises(NotEmptyError):
        client.delete("/a")
    with pytest.raises(BadVersionError):
        client.delete("/a/b", version=7)
    assert client.get("/a/b")[0] == b"2"
    client.delete("/a", recursive=True)
    assert client.exists("/a") is None


@on_virtual_time
async def test_sequence_numbers_count_every_child_ever_created(ensemble):
    client = ensemble.client()
    client.ensure_path("/latch")
    assert client.create("/latch/n-", sequence=True) == "/latch/n-0000000000"
    client.create("/latch/other")
    client.delete("/latch/n-0000000000")
    assert client.create("/latch/n-", sequence=True, ephemeral=True) == "/latch/n-0000000002"


@on_virtual_time
async def test_an_ephemeral_node_has_an_owner_and_no_children(ensemble):
    client = ensemble.client()
    client.create("/e", ephemeral=True)
    assert client.exists("/e").ephemeralOwner == client.client_id[0]
    with pytest.raises(NoChildrenForEphemeralsError):
        client.create("/e/child")


@on_virtual_time
async def test_a_transaction_is_atomic(ensemble):
    client = ensemble.client()
    client.create("/a", b"1")
    transaction = client.transaction()
    transaction.create("/b", b"")
    transaction.check("/a", 3)
    transaction.set_data("/a", b"2")
    done, failed, skipped = transaction.commit()
    assert isinstance(done, RolledBackError)
    assert isinstance(failed, BadVersionError)
    assert isinstance(skipped, RuntimeInconsistency)
    assert client.exists("/b") is None and client.get("/a")[0] == b"1"
    transaction = client.transaction()
    transaction.check("/a", 0)
    transaction.create("/b", b"")
    transaction.delete("/b")
    assert transaction.commit() == [True, "/b", True]


@on_virtual_time
async def test_a_watch_reports_the_first_change_once(ensemble):
    client, other = ensemble.client(), ensemble.client()
    seen = []
    client.create("/a")
    client.get("/a", watch=seen.append)
    client.exists("/b", watch=seen.append)
    client.get_children("/", watch=seen.append)
    other.set("/a", b"1")
    other.set("/a", b"2")
    other.create("/b")
    other.delete("/b")
    await asyncio.sleep(0.1)
    assert [(event.type, event.path) for event in seen] == [
        (EventType.CHANGED, "/a"),
        (EventType.CREATED, "/b"),
        (EventType.CHILD, "/"),
    ]


@on_virtual_time
async def test_a_silent_session_expires_and_its_nodes_are_removed(ensemble):
    client, other = ensemble.client(), ensemble.client()
    client.create("/e", ephemeral=True)
    seen = []
    other.exists("/e", watch=seen.append)
    client.cut()
    await asyncio.sleep(TIMEOUT_S / 2)
    assert other.exists("/e") is not None, "too early"
    await asyncio.sleep(TIMEOUT_S)
    assert other.exists("/e") is None
    assert [event.type for event in seen] == [EventType.DELETED]
    with pytest.raises(ConnectionLoss):
        client.get("/")
    assert ensemble.states[client] == ["CONNECTED", "SUSPENDED"]
    client.heal()
    await asyncio.sleep(1.0)
    assert ensemble.states[client] == ["CONNECTED", "SUSPENDED", "LOST", "CONNECTED"]
    client.create("/e", ephemeral=True)


@on_virtual_time
async def test_a_session_can_be_resumed_within_its_timeout(ensemble):
    client = ensemble.client()
    client.create("/e", ephemeral=True)
    for _ in range(20):
        client.connection_broke()
        await asyncio.sleep(1.0)
    assert ensemble.states[client] == ["CONNECTED", *["SUSPENDED", "CONNECTED"] * 20]
    assert client.exists("/e") is not None


@on_virtual_time
async def test_sessions_outlive_a_restart_of_the_servers_and_watches_are_lost_with_the_connection(ensemble):
    client = ensemble.client()
    client.create("/e", b"kept", ephemeral=True)
    seen = []
    client.get("/e", watch=seen.append)
    ensemble.zookeeper.stop()
    await asyncio.sleep(10 * TIMEOUT_S)
    assert [event.type for event in seen] == [EventType.NONE]
    assert ensemble.states[client] == ["CONNECTED", "SUSPENDED"]
    ensemble.zookeeper.start()
    await asyncio.sleep(1.0)
    assert client.get("/e")[0] == b"kept"
    client.set("/e", b"")
    assert len(seen) == 1


@on_virtual_time
async def test_the_session_of_a_dead_process_times_out_and_that_of_a_stopped_one_ends_at_once(ensemble):
    dead, stopped, other = ensemble.client(), ensemble.client(), ensemble.client()
    dead.create("/dead", ephemeral=True)
    stopped.create("/stopped", ephemeral=True)
    dead.die()
    stopped.stop()
    assert other.exists("/dead") is not None
    assert other.exists("/stopped") is None
    await asyncio.sleep(2 * TIMEOUT_S)
    assert other.exists("/dead") is None
    assert ensemble.states[dead] == ["CONNECTED"]


@on_virtual_time
async def test_an_expired_session_cannot_be_used(ensemble):
    client = ensemble.client()
    ensemble.zookeeper.expire(client.client_id[0])
    states = []

    def listen(state):
        states.append(state)
        if state == "LOST":
            with pytest.raises(SessionExpiredError):
                client.get("/")

    client.add_listener(listen)
    await asyncio.sleep(2.0)
    assert states == ["SUSPENDED", "LOST", "CONNECTED"]


@on_virtual_time
async def test_a_request_that_lost_its_connection_may_have_been_carried_out(ensemble):
    client, other = ensemble.client(), ensemble.client()
    client.fault_probability = 0.5
    lost = done = 0
    for number in range(40):
        outcome = []
        client.create_async(f"/{number}").rawlink(outcome.append)
        await asyncio.sleep(1.0)
        try:
            outcome[0].get()
        except ConnectionLoss:
            lost += 1
            done += other.exists(f"/{number}") is not None
    assert len(other.get_children("/")) == 40 - lost + done
    assert lost and done


@on_virtual_time
async def test_requests_wait_for_a_connection_and_are_answered_in_order(ensemble):
    client, other = ensemble.client(), ensemble.client()
    client.connection_broke()
    await asyncio.sleep(0.03)
    assert client.state == "SUSPENDED"
    answers = []
    for number in range(5):
        client.create_async("/n-", sequence=True).rawlink(lambda result, number=number: answers.append(number))
    assert other.get_children("/") == []
    await asyncio.sleep(1.0)
    assert answers == [0, 1, 2, 3, 4]
    client.cut()
    last = client.create_async("/last")
    await asyncio.sleep(3 * TIMEOUT_S)
    with pytest.raises(ConnectionLoss):
        last.get()
    assert other.exists("/last") is None
