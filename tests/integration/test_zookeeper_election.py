"""Elections on real ZooKeeper servers, with contenders in real processes that are killed and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from job_support import wait_until
from zookeeper_server import ZooKeeperEnsemble, ZooKeeperServer
from zookeeper_support import (
    JOB,
    WAIT_S,
    ContenderProcess,
    RecordingListener,
    ha_configuration,
    ha_services,
    stand,
)

from flinkpy.common.errors import LeadershipLostError
from flinkpy.security import ClusterSecret, SecurityContext

Start = Callable[..., ContenderProcess]


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    ClusterSecret.load_or_create(path)
    return path


@pytest.fixture
def security(secret_file: Path) -> SecurityContext:
    return SecurityContext.of_secret(ClusterSecret.load(secret_file))


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """The storage directory. It also names the cluster, so that tests do not share nodes."""
    return tmp_path / f"cluster-{tmp_path.name}"


@pytest.fixture
def start_contender(tmp_path: Path, secret_file: Path) -> Iterator[Start]:
    processes: list[ContenderProcess] = []

    def start(configuration: dict[str, str]) -> ContenderProcess:
        process = ContenderProcess(f"contender-{len(processes)}", tmp_path, configuration, secret_file)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.resume()
        process.kill()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def check_terms(processes: list[ContenderProcess]) -> None:
    """Checks that no id was drawn twice, and that no term drew an id after the next term had drawn one."""
    drawn = [(entry["drawn"], entry["token"]) for process in processes for entry in process.entries("drawn")]
    ids = [number for number, _ in drawn]
    assert len(set(ids)) == len(ids), "an id was drawn twice"
    terms = [token for _, token in sorted(drawn)]
    changes = [token for i, token in enumerate(terms) if i == 0 or token != terms[i - 1]]
    assert len(set(changes)) == len(changes), "two terms drew at the same time"


def test_a_leader_that_was_suspended_longer_than_its_session_cannot_write(
    zookeeper: ZooKeeperServer, storage: Path, start_contender: Start
) -> None:
    # An overloaded machine may stand still for a second, too.
    configuration = ha_configuration(zookeeper.quorum, storage, session_timeout="4 s")
    first = start_contender(configuration)
    token = first.wait_until_drawing()
    second = start_contender(configuration)
    first.pause()
    second.wait_until_drawing()
    first.resume()
    # The process was drawing ids and continues to draw.

    refused = wait_until(lambda: first.entries("refused"), "the late write is refused")
    assert refused == [{"refused": "LeadershipLostError", "token": token}]
    wait_until(lambda: first.entries("revoked"), "the former leader knows that it does not lead")
    # It contends again. When the second leader ends, it leads in a new term.
    second.kill()
    assert first.wait_until_drawing(but_not=token) != token
    check_terms([first, second])


def test_terms_never_overlap_while_leaders_are_killed_and_the_server_restarts(
    zookeeper: ZooKeeperServer, storage: Path, start_contender: Start
) -> None:
    configuration = ha_configuration(zookeeper.quorum, storage, session_timeout="1 s")
    processes = [start_contender(configuration) for _ in range(4)]
    running = list(processes)

    def next_leader() -> ContenderProcess:
        """Waits until a running process draws an id that is higher than all that were drawn before this call."""
        drawn_before = max(process.last_drawn for process in processes)

        def leader() -> ContenderProcess | None:
            for process in running:
                process.check_running()
            return next((process for process in running if process.last_drawn > drawn_before), None)

        try:
            found: ContenderProcess = wait_until(leader, "a running contender leads and draws", WAIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; {'; '.join(process.report for process in running)}") from None
        return found

    while len(running) > 1:
        leader = next_leader()
        if len(running) == 3:
            # Every connected contender contends again, and any of them may win, even the former leader.
            zookeeper.restart()
            leader = next_leader()
        leader.kill()
        running.remove(leader)
    assert next_leader() is running[0]
    check_terms(processes)


def test_the_next_leader_does_not_wait_for_the_session_of_an_ended_process(
    zookeeper: ZooKeeperServer, storage: Path, security: SecurityContext
) -> None:
    # The session timeout is far longer than the test may take.
    configuration = ha_configuration(zookeeper.quorum, storage, session_timeout="10 min")

    async def test() -> None:
        async with (
            ha_services(configuration, security) as parent,
            ha_services(configuration, security, "jobmaster") as child,
        ):
            first = stand(child.job_master_election(JOB, "the-first"))
            leadership = await first.wait_for("granted")
            assert leadership.token == "the-first"
            child_election = first.election
            child_election.confirm_leadership("the-first", "host:1")
            listener = RecordingListener()
            parent.job_master_retrieval(JOB).start(listener)
            await listener.wait_for(lambda leader: leader is not None and leader.address == "host:1")
            second = stand(parent.job_master_election(JOB, "the-second"))
            await asyncio.to_thread(parent.release_dead_leader, JOB, "the-first")
            await second.wait_for("granted")
            await listener.wait_for(lambda leader: leader is None)
            # The former leader is alive. It is notified, cannot write, and does not contend again with its token.
            await first.wait_for("granted", "revoked")
            counter = child.checkpoint_id_counter
            with pytest.raises(LeadershipLostError, match="has ended"):
                await asyncio.to_thread(lambda: counter(JOB, leadership).get_and_increment())
            await asyncio.to_thread(parent.release_dead_leader, JOB, "the-first")
            assert second.events == ["granted"]

    run(test())


def test_a_leader_without_a_connection_stops_leading_and_its_writes_stay_refused(
    zookeeper: ZooKeeperServer, storage: Path, security: SecurityContext
) -> None:
    configuration = ha_configuration(zookeeper.quorum, storage, session_timeout="10 s")

    async def test() -> None:
        async with ha_services(configuration, security) as services:
            contender = stand(services.dispatcher_election())
            first = await contender.wait_for("granted")
            contender.election.confirm_leadership(first.token, "host:1")
            listener = RecordingListener()
            services.dispatcher_retrieval().start(listener)
            await listener.wait_for(lambda leader: leader is not None)
            counter = await asyncio.to_thread(services.checkpoint_id_counter, JOB, first)
            zookeeper.kill()
            await contender.wait_for("granted", "revoked")
            await listener.wait_for(lambda leader: leader is None)
            await asyncio.to_thread(zookeeper.start)
            # A new term, although session and process are the same.
            second = await contender.wait_for("granted", "revoked", "granted")
            assert first.token != second.token
            with pytest.raises(LeadershipLostError):
                await asyncio.to_thread(counter.get_and_increment)
            contender.election.confirm_leadership(first.token, "stale:1")
            contender.election.confirm_leadership(second.token, "host:2")
            await listener.wait_for(lambda leader: leader is not None and leader.fencing_token == second.token)
            assert all(leader is None or leader.address != "stale:1" for leader in listener.leaders)

    run(test())


def test_a_suspended_connection_is_tolerated_for_two_thirds_of_the_session_timeout_if_configured(
    zookeeper: ZooKeeperServer, storage: Path, security: SecurityContext
) -> None:
    def configuration(session_timeout: str) -> dict[str, str]:
        return ha_configuration(
            zookeeper.quorum, storage, session_timeout=session_timeout, tolerate_suspended_connections="true"
        )

    async def test() -> None:
        # Two thirds of this are longer than any start of a server.
        async with ha_services(configuration("120 s"), security) as services:
            contender = stand(services.dispatcher_election())
            leadership = await contender.wait_for("granted")
            contender.election.confirm_leadership(leadership.token, "host:1")
            listener = RecordingListener()
            services.dispatcher_retrieval().start(listener)
            await listener.wait_for(lambda leader: leader is not None)
            counter = await asyncio.to_thread(services.checkpoint_id_counter, JOB, leadership)
            await asyncio.to_thread(zookeeper.restart)
            # The write waits for the restart and is carried out under the same leadership.
            assert await asyncio.to_thread(counter.get_and_increment) == 1
            assert contender.events == ["granted"] and len(listener.leaders) == 1
        async with ha_services(configuration("4 s"), security) as services:
            contender = stand(services.resource_manager_election())
            leadership = await contender.wait_for("granted")
            contender.election.confirm_leadership(leadership.token, "host:2")
            listener = RecordingListener()
            services.resource_manager_retrieval().start(listener)
            await listener.wait_for(lambda leader: leader is not None)
            zookeeper.kill()
            await contender.wait_for("granted", "revoked")
            await listener.wait_for(lambda leader: leader is None)
            await asyncio.to_thread(zookeeper.start)
            await contender.wait_for("granted", "revoked", "granted")

    run(test())


def test_an_invalid_answer_ends_the_session_and_not_the_process(
    zookeeper: ZooKeeperServer, storage: Path, security: SecurityContext
) -> None:
    configuration = ha_configuration(zookeeper.quorum, storage, session_timeout="1 s")

    async def test() -> None:
        async with ha_services(configuration, security) as services:
            contender = stand(services.dispatcher_election())
            await contender.wait_for("granted")
            connection = services.client._kazoo._connection
            read = connection._read_socket

            def fail(*_: Any) -> Any:
                connection._read_socket = read
                raise ValueError("nonsense")

            connection._read_socket = fail
            await contender.wait_for("granted", "revoked", "granted")
            # The end of kazoo's connection does not end the client, which still answers and closes in order.
            assert await asyncio.to_thread(services.client.get_children, "/flink")

    run(test())


def test_the_end_of_a_leader_wakes_only_one_contender(
    zookeeper: ZooKeeperServer, storage: Path, security: SecurityContext
) -> None:
    configuration = ha_configuration(zookeeper.quorum, storage)

    async def test() -> None:
        async with (
            ha_services(configuration, security) as one,
            ha_services(configuration, security) as two,
            ha_services(configuration, security) as three,
        ):
            contenders = []
            for services in (one, two, three):
                contenders.append(stand(services.resource_manager_election()))
                while len(await asyncio.to_thread(one.client.get_children, latch_of(one))) < len(contenders):
                    await asyncio.sleep(0.01)
            await contenders[0].wait_for("granted")
            contenders[0].election.close()
            await contenders[1].wait_for("granted")
            contenders[1].election.close()
            await contenders[2].wait_for("granted")
            # A contender that withdraws is not notified.
            assert [contender.events for contender in contenders] == [["granted"]] * 3

    def latch_of(services: Any) -> str:
        path: str = services.client.settings.latch("resource_manager")
        return path

    run(test())


def test_a_leader_survives_a_change_of_the_ensembles_leader_and_stops_leading_without_a_quorum(
    zookeeper_ensemble: ZooKeeperEnsemble, storage: Path, security: SecurityContext
) -> None:
    def configuration(session_timeout: str) -> dict[str, str]:
        return ha_configuration(
            zookeeper_ensemble.quorum, storage, session_timeout=session_timeout, tolerate_suspended_connections="true"
        )

    async def test() -> None:
        # Two thirds of this are longer than any election among the other servers.
        async with ha_services(configuration("120 s"), security) as services:
            contender = stand(services.dispatcher_election())
            leadership = await contender.wait_for("granted")
            counter = await asyncio.to_thread(services.checkpoint_id_counter, JOB, leadership)
            zookeeper_ensemble.leader.kill()
            await asyncio.to_thread(lambda: zookeeper_ensemble.leader)
            assert await asyncio.to_thread(counter.get_and_increment) == 1
            assert contender.events == ["granted"]
        async with ha_services(configuration("4 s"), security) as services:
            contender = stand(services.dispatcher_election())
            leadership = await contender.wait_for("granted")
            counter = await asyncio.to_thread(services.checkpoint_id_counter, JOB, leadership)
            zookeeper_ensemble.leader.kill()
            await contender.wait_for("granted", "revoked")
            await asyncio.to_thread(zookeeper_ensemble.start)
            await contender.wait_for("granted", "revoked", "granted")
            with pytest.raises(LeadershipLostError):
                await asyncio.to_thread(counter.get_and_increment)

    run(test())
