"""The data that leaders store in ZooKeeper and in the storage directory for their successors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from zookeeper_server import ZooKeeperServer
from zookeeper_support import JOB, ha_configuration, ha_services, stand

from flinkpy._proto import checkpoint_pb2, dispatcher_pb2, job_pb2
from flinkpy.common.durable_file import CorruptFileError
from flinkpy.common.errors import HighAvailabilityError, LeadershipLostError
from flinkpy.common.ids import JobID
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.highavailability.zookeeper.services import ZooKeeperHaServices
from flinkpy.security import ClusterSecret, SecurityContext

SECRET = ClusterSecret.generate()
SECURITY = SecurityContext.of_secret(SECRET)
OTHER_JOB = JobID("0a" * 16)


@pytest.fixture
def configuration(zookeeper: ZooKeeperServer, tmp_path: Path) -> dict[str, str]:
    return ha_configuration(zookeeper.quorum, tmp_path / f"cluster-{tmp_path.name}")


def lead(configuration: dict[str, str], *tests: Callable[[ZooKeeperHaServices, Leadership], Any]) -> None:
    """Runs each test as a separate leading Dispatcher, one after the other, on a thread that may block."""

    async def run(test: Callable[[ZooKeeperHaServices, Leadership], Any]) -> None:
        async with ha_services(configuration, SECURITY) as services:
            leadership = await stand(services.dispatcher_election()).wait_for("granted")
            await asyncio.to_thread(test, services, leadership)

    for test in tests:
        asyncio.run(run(test))


def with_lost_leadership(
    configuration: dict[str, str], test: Callable[[ZooKeeperHaServices, Leadership], Coroutine[Any, Any, None]]
) -> None:
    """Runs the test with a leadership whose node was removed."""

    async def run() -> None:
        async with ha_services(configuration, SECURITY) as services:
            contender = stand(services.dispatcher_election())
            leadership = await contender.wait_for("granted")
            await asyncio.to_thread(services.client.delete_tree, str(leadership.latch_path))
            await contender.wait_for("granted", "revoked", "granted")
            await test(services, leadership)

    asyncio.run(run())


def graph(job_id: JobID = JOB, name: str = "job", size: int = 0) -> job_pb2.JobGraph:
    graph = job_pb2.JobGraph(job_id=str(job_id), name=name, created_ms=1)
    graph.configuration.entries["x"] = "y" * size
    return graph


def pointers(*ids: int) -> checkpoint_pb2.CompletedCheckpointPointers:
    message = checkpoint_pb2.CompletedCheckpointPointers(next_checkpoint_id=max(ids, default=-1) + 1)
    for checkpoint_id in ids:
        message.pointers.add(
            checkpoint_id=checkpoint_id,
            external_path=f"/checkpoints/chk-{checkpoint_id}",
            is_owned=True,
            job_id=str(JOB),
            metadata_sha256=bytes(32),
        )
    return message


def terminated(job_id: JobID = JOB, name: str = "job") -> dispatcher_pb2.JobTerminated:
    return dispatcher_pb2.JobTerminated(job_id=str(job_id), details=job_pb2.JobDetails(job_id=str(job_id), name=name))


def test_the_next_leader_finds_jobs_checkpoints_the_counter_and_results(configuration: dict[str, str]) -> None:
    def first(services: ZooKeeperHaServices, leadership: Leadership) -> None:
        graphs = services.job_graph_store(leadership)
        assert graphs.job_ids() == []
        graphs.put(graph())
        graphs.put(graph(OTHER_JOB))
        graphs.put(graph(OTHER_JOB, "resubmitted"))
        store = services.checkpoint_pointer_store(JOB, leadership)
        assert store.load() == checkpoint_pb2.CompletedCheckpointPointers()
        for retained in ((1,), (1, 2), (2, 3), (2, 3)):
            store.save(pointers(*retained))
        counter = services.checkpoint_id_counter(JOB, leadership, at_least=3)
        assert [counter.get_and_increment() for _ in range(2)] == [3, 4]
        counter.advance_to(9)
        results = services.job_result_store(leadership)
        results.create_dirty(terminated())
        # The first result stays.
        results.create_dirty(terminated(name="another"))
        (services.recovery_directories().path_of(JOB)).mkdir()

    def second(services: ZooKeeperHaServices, leadership: Leadership) -> None:
        graphs = services.job_graph_store(leadership)
        assert graphs.job_ids() == sorted([JOB, OTHER_JOB])
        assert graphs.recover(JOB) == graph()
        assert graphs.recover(OTHER_JOB).name == "resubmitted"
        assert services.checkpoint_pointer_store(JOB, leadership).load() == pointers(2, 3)
        assert services.checkpoint_id_counter(JOB, leadership).get_and_increment() == 9
        results = services.job_result_store(leadership)
        assert results.dirty_job_ids() == [JOB]
        found = results.load(JOB)
        assert found is not None and found.details.name == "job"
        results.mark_clean(JOB)
        graphs.remove(JOB)
        graphs.remove(JOB)
        services.checkpoint_pointer_store(JOB, leadership).remove()
        services.checkpoint_id_counter(JOB, leadership).remove()
        directories = services.recovery_directories(leadership)
        directories.remove_others({OTHER_JOB})
        assert not directories.path_of(JOB).exists()

    def third(services: ZooKeeperHaServices, leadership: Leadership) -> None:
        graphs = services.job_graph_store(leadership)
        assert graphs.job_ids() == [OTHER_JOB]
        with pytest.raises(FileNotFoundError):
            graphs.recover(JOB)
        assert services.job_result_store(leadership).clean_job_ids() == [JOB]
        assert services.checkpoint_pointer_store(JOB, leadership).load() == checkpoint_pb2.CompletedCheckpointPointers()
        assert services.checkpoint_id_counter(JOB, leadership).next_id == 1

    lead(configuration, first, second, third)


def test_a_leader_whose_term_has_ended_changes_nothing(configuration: dict[str, str]) -> None:
    async def test(services: ZooKeeperHaServices, lost: Leadership) -> None:
        def refused(action: Callable[[], object]) -> None:
            with pytest.raises(LeadershipLostError) as raised:
                action()
            assert raised.value.details == {"path": str(lost.latch_path), "fencing_token": lost.token}

        def check() -> None:
            graphs = services.job_graph_store(lost)
            refused(lambda: graphs.put(graph()))
            refused(lambda: graphs.remove(JOB))
            refused(graphs.job_ids)
            refused(lambda: services.checkpoint_pointer_store(JOB, lost).save(pointers(1)))
            refused(lambda: services.checkpoint_pointer_store(JOB, lost).remove())
            refused(lambda: services.checkpoint_id_counter(JOB, lost).get_and_increment())
            refused(lambda: services.job_result_store(lost))
            directory = services.recovery_directories().path_of(JOB)
            directory.mkdir()
            refused(lambda: services.recovery_directories(lost).remove_others(set()))
            assert directory.exists()
            # Not even a file is left.
            assert list(Path(configuration["high-availability.storageDir"]).rglob("*.jobgraph")) == []

        await asyncio.to_thread(check)

    with_lost_leadership(configuration, test)


def test_the_result_store_of_a_former_leader_adds_no_result(configuration: dict[str, str]) -> None:
    async def run() -> None:
        async with ha_services(configuration, SECURITY) as services:
            contender = stand(services.dispatcher_election())
            leadership = await contender.wait_for("granted")
            results = await asyncio.to_thread(services.job_result_store, leadership)
            await asyncio.to_thread(services.client.delete_tree, str(leadership.latch_path))
            for action in (
                lambda: results.create_dirty(terminated()),
                lambda: results.mark_clean(JOB),
                lambda: results.remove(JOB),
            ):
                with pytest.raises(LeadershipLostError):
                    await asyncio.to_thread(action)
            assert not results.contains(JOB)
            assert list(services._storage.results.iterdir()) == []

    asyncio.run(run())


def test_zookeeper_holds_only_pointers_and_they_are_protected(
    zookeeper: ZooKeeperServer, configuration: dict[str, str]
) -> None:
    seen: list[str] = []

    def fill(services: ZooKeeperHaServices, leadership: Leadership) -> None:
        services.job_graph_store(leadership).put(graph(size=300_000))
        services.checkpoint_pointer_store(JOB, leadership).save(pointers(*range(1, 30)))
        services.checkpoint_id_counter(JOB, leadership).get_and_increment()
        stranger, member = (
            KazooClient(zookeeper.quorum),
            KazooClient(zookeeper.quorum, auth_data=[("digest", f"flinkpy:{SECRET.derive('zookeeper')}")]),
        )
        stranger.start()
        member.start()
        try:
            look(member, stranger, services.client.settings.cluster)
            with pytest.raises(NoAuthError):
                stranger.delete(f"{services.client.settings.job_graphs}/{JOB}")
            with pytest.raises(NoAuthError):
                stranger.create(f"{services.client.settings.latch('dispatcher')}/-latch-", sequence=True)
            # Others may only create further clusters beside this one.
            root_acls = stranger.get_acls("/flink")[0]
            assert {acl.perms for acl in root_acls if acl.id.scheme == "world"} == {1 | 4}
        finally:
            for client in (stranger, member):
                client.stop()
                client.close()

    def look(member: KazooClient, stranger: KazooClient, path: str) -> None:
        seen.append(path)
        assert len(member.get(path)[0]) < 1024, path
        assert all(acl.id.scheme == "digest" for acl in member.get_acls(path)[0]), path
        with pytest.raises(NoAuthError):
            stranger.get(path)
        for child in member.get_children(path):
            look(member, stranger, f"{path}/{child}")

    lead(configuration, fill)
    assert len(seen) > 35


def test_all_nodes_of_an_ended_job_are_removed_and_removal_may_be_repeated(configuration: dict[str, str]) -> None:
    def test(services: ZooKeeperHaServices, leadership: Leadership) -> None:
        services.job_graph_store(leadership).put(graph())
        services.checkpoint_pointer_store(JOB, leadership).save(pointers(1))
        services.checkpoint_id_counter(JOB, leadership).get_and_increment()
        services.client.create(services.client.settings.latch(str(JOB)) + "/x", b"")
        services.clean_up_job(JOB)
        services.clean_up_job(JOB)
        settings = services.client.settings
        for parent in (settings.job_graphs, f"{settings.cluster}/jobs", f"{settings.cluster}/leader"):
            assert str(JOB) not in services.client.get_children(parent)
        # The next leader removes the file at the latest.
        assert services.job_graph_store(leadership).job_ids() == []
        assert list(services._storage.execution_plans.iterdir()) == []

    lead(configuration, test)


def test_the_remains_of_an_interrupted_submission_are_removed_by_the_next_leader(configuration: dict[str, str]) -> None:
    def test(services: ZooKeeperHaServices, leadership: Leadership) -> None:
        graphs = services.job_graph_store(leadership)
        graphs.put(graph())
        left = services._storage.execution_plans / f"{OTHER_JOB}-0123.jobgraph"
        left.write_bytes(b"")
        unfinished = services._storage.results / f"{OTHER_JOB}_DIRTY.result.0123.unfinished"
        unfinished.write_bytes(b"")
        assert graphs.job_ids() == [JOB]
        services.job_result_store(leadership)
        assert not left.exists() and not unfinished.exists()
        assert graphs.recover(JOB) == graph()

    lead(configuration, test)


def test_errors_name_foreign_or_damaged_nodes(configuration: dict[str, str]) -> None:
    def test(services: ZooKeeperHaServices, leadership: Leadership) -> None:
        settings, client = services.client.settings, services.client
        for data in (b"\xac\xed\x00\x05sr", b"{}", b'{"file": "../../etc/passwd"}', b"[" * 100_000):
            client.create(node := f"{settings.job_graphs}/{OTHER_JOB}", data)
            with pytest.raises(CorruptFileError, match=f"{node} of ZooKeeper names no JobGraph"):
                services.job_graph_store(leadership).recover(OTHER_JOB)
            client.delete_tree(node)
        client.create(node := f"{settings.checkpoints(JOB)}/0000000000000000001", b"\xac\xed\x00\x05sr")
        with pytest.raises(CorruptFileError, match=f"{node} of ZooKeeper holds no pointer"):
            services.checkpoint_pointer_store(JOB, leadership).load()
        client.create(node := settings.checkpoint_id_counter(JOB), b"\x00\x00\x00\x07")
        with pytest.raises(HighAvailabilityError, match=f"{node} of ZooKeeper holds no checkpoint id"):
            services.checkpoint_id_counter(JOB, leadership)
        client.create(node := settings.connection_info("dispatcher"), b"\xac\xed\x00\x05w")
        with pytest.raises(HighAvailabilityError, match=f"{node} of ZooKeeper does not hold the address of a leader"):
            services.find_dispatcher(1)

    lead(configuration, test)


def test_a_job_is_not_dropped_while_the_storage_is_unavailable(configuration: dict[str, str], tmp_path: Path) -> None:
    def test(services: ZooKeeperHaServices, leadership: Leadership) -> None:
        graphs = services.job_graph_store(leadership)
        graphs.put(graph())
        directory = Path(configuration["high-availability.storageDir"])
        directory.rename(tmp_path / "unmounted")
        with pytest.raises(HighAvailabilityError, match="is not the directory that the other masters"):
            graphs.recover(JOB)
        (tmp_path / "unmounted").rename(directory)
        next(services._storage.execution_plans.glob("*.jobgraph")).unlink()
        with pytest.raises(CorruptFileError, match="is gone, and node"):
            graphs.recover(JOB)

    lead(configuration, test)


def test_clients_find_the_leading_dispatcher(configuration: dict[str, str]) -> None:
    async def run() -> None:
        async with (
            ha_services(configuration, SECURITY) as services,
            ha_services(configuration, SECURITY, "client") as client,
        ):
            with pytest.raises(HighAvailabilityError, match="no Dispatcher leads cluster 'cluster-"):
                await asyncio.to_thread(client.find_dispatcher, 0.2)
            contender = stand(services.dispatcher_election())
            leadership = await contender.wait_for("granted")
            searching = asyncio.create_task(asyncio.to_thread(client.find_dispatcher, 20))
            contender.election.confirm_leadership(leadership.token, "host:1234")
            assert (await searching).address == "host:1234"

    asyncio.run(run())
