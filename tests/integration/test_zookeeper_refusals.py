"""Each problem with ZooKeeper or the shared storage causes one clear error of the process that cannot start."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_support import wait_until
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from ports import own_port
from zookeeper_server import ZooKeeperEnsemble, ZooKeeperServer
from zookeeper_support import ha_configuration

from flinkpy.common.errors import ConfigurationError, HighAvailabilityError
from flinkpy.highavailability.services import create_high_availability_services
from flinkpy.highavailability.zookeeper.requests import SetData
from flinkpy.highavailability.zookeeper.services import ZooKeeperHaServices
from flinkpy.highavailability.zookeeper.settings import DIGEST_USER, SECRET_PURPOSE
from flinkpy.security import ClusterSecret, SecurityContext

SECURITY = SecurityContext.of_secret(ClusterSecret.generate())


def connect(
    configuration: dict[str, str], security: SecurityContext = SECURITY, process: str = "dispatcher"
) -> ZooKeeperHaServices:
    services = create_high_availability_services(configuration, security, None, process=process)
    assert isinstance(services, ZooKeeperHaServices)
    return services


def refusal(configuration: dict[str, str], security: SecurityContext = SECURITY, process: str = "dispatcher") -> str:
    """Returns the error. Checks that it is one line, came in time and left no thread of the client."""
    began = time.monotonic()
    with pytest.raises(HighAvailabilityError) as raised:
        connect(configuration, security, process)
    # Far below the session timeouts of these tests, because no server is left to wait for.
    assert time.monotonic() - began < 30
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.fixture
def configuration(zookeeper: ZooKeeperServer, tmp_path: Path) -> dict[str, str]:
    return ha_configuration(zookeeper.quorum, tmp_path / f"cluster-{tmp_path.name}")


@pytest.fixture
def kazoo(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """The client of another system."""
    client = KazooClient(zookeeper.quorum)
    client.start()
    yield client
    client.stop()
    client.close()


def test_the_error_names_an_unreachable_server(tmp_path: Path) -> None:
    port = own_port()
    configuration = ha_configuration(f"127.0.0.1:{port}", tmp_path, connection_timeout="1 s", session_timeout="60 s")
    message = refusal(configuration)
    assert f"no connection to ZooKeeper at 127.0.0.1:{port} within 1 s" in message
    assert f"127.0.0.1:{port} cannot be reached (Connection refused)" in message


def test_the_wait_for_a_silent_server_is_bounded(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    zookeeper.pause()
    try:
        configuration = ha_configuration(zookeeper.quorum, tmp_path, connection_timeout="1 s", session_timeout="60 s")
        assert f"{zookeeper.address} does not answer" in refusal(configuration)
    finally:
        zookeeper.resume()


def test_the_error_says_if_the_server_is_not_zookeeper(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.close()
            except OSError:
                return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        quorum = f"127.0.0.1:{server.getsockname()[1]}"
        message = refusal(ha_configuration(quorum, tmp_path, connection_timeout="1 s"))
        assert f"{quorum} is not a ZooKeeper server" in message or f"{quorum} cannot be reached" in message
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_the_error_says_if_the_server_has_no_quorum(zookeeper_ensemble: ZooKeeperEnsemble, tmp_path: Path) -> None:
    survivor, *others = zookeeper_ensemble.servers
    for server in others:
        server.kill()
    wait_until(lambda: survivor.mode() == "read-only", "the last server is read-only")
    message = refusal(ha_configuration(zookeeper_ensemble.quorum, tmp_path, connection_timeout="2 s"))
    assert f"{survivor.address} is read-only, because it has no quorum" in message
    assert f"{others[0].address} cannot be reached" in message


def test_every_process_with_another_secret_is_refused(configuration: dict[str, str]) -> None:
    connect(configuration).close()
    for process in ("dispatcher", "resourcemanager", "jobmaster", "taskexecutor", "client"):
        for stranger in (SecurityContext.of_secret(ClusterSecret.generate()), SecurityContext.insecure()):
            message = refusal(configuration, stranger, process)
            assert "belong to a cluster with another secret or authorization" in message
            assert configuration["high-availability.cluster-id"] in message


def test_a_storage_directory_that_is_not_shared_is_refused(configuration: dict[str, str], tmp_path: Path) -> None:
    connect(configuration).close()
    connect(configuration).close()
    elsewhere = {**configuration, "high-availability.storageDir": str(tmp_path / "of-this-host")}
    for process in ("dispatcher", "jobmaster"):
        assert "of-this-host" in (message := refusal(elsewhere, process=process))
        assert "is not the directory that the other masters" in message
    # A ResourceManager does not use the directory.
    connect(elsewhere, process="resourcemanager").close()


def test_two_clusters_with_one_id_are_distinguished_by_their_storage(
    configuration: dict[str, str], tmp_path: Path
) -> None:
    root = {"high-availability.zookeeper.path.root": "/elsewhere"}
    other = {**configuration, **root, "high-availability.storageDir": str(tmp_path / "other")}
    connect(configuration).close()
    connect(other).close()
    message = refusal({**configuration, "high-availability.storageDir": str(tmp_path / "other")})
    assert "belongs to another cluster than the directory" in message and "high-availability.cluster-id" in message


def test_the_error_names_a_storage_directory_that_cannot_be_used(configuration: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    message = refusal({**configuration, "high-availability.storageDir": str(file)})
    assert str(file) in message and "Not a directory" in message


def test_nodes_of_another_system_are_left_alone(configuration: dict[str, str], kazoo: KazooClient) -> None:
    configuration["high-availability.zookeeper.path.root"] = "/of-all"
    node = "/of-all" + configuration["high-availability.cluster-id"]
    kazoo.create(node, b"", makepath=True)
    assert f"node {node} of ZooKeeper" in (message := refusal(configuration)) and "created by another system" in message
    kazoo.set(node, b"flinkpy 1")
    assert f"anybody may change node {node}" in refusal(configuration)
    kazoo.delete(node)
    connect(configuration).close()


@pytest.mark.parametrize(
    "node",
    ["", "/leader", "/leader/dispatcher", "/leader/resource_manager/latch", "/jobs", "/execution-plans", "/jobs/x"],
)
def test_the_error_names_a_node_that_others_created_before(
    configuration: dict[str, str], kazoo: KazooClient, node: str
) -> None:
    """Other users let the cluster use the node and keep using it, for example to name another leader."""
    digest = f"{DIGEST_USER}:{SECURITY.secret.derive(SECRET_PURPOSE)}".partition(":")[::2]
    ours, theirs = make_digest_acl(*digest, all=True), make_digest_acl("mallory", "password", all=True)
    kazoo.add_auth("digest", "mallory:password")
    cluster = "/flink" + configuration["high-availability.cluster-id"]
    kazoo.ensure_path("/flink")
    parts = [part for part in f"{cluster}{node}".removeprefix("/flink/").split("/") if part]
    for depth in range(1, len(parts) + 1):
        path = "/flink/" + "/".join(parts[:depth])
        kazoo.create(path, b"flinkpy 1" if path == cluster else b"", acl=[ours, theirs])
        if path != f"{cluster}{node}":
            continue
        # The other user gives up the nodes above, and keeps access only to the last one.
        for above in range(1, depth):
            kazoo.set_acls("/flink/" + "/".join(parts[:above]), [ours])
    said = refusal(configuration)
    assert (
        f"node {cluster}{node} of ZooKeeper" in said
        and "digest:mallory:" in said
        and "others than this cluster may use" in said
    )
    if node != "/jobs/x":
        assert f"node {cluster}{node} of ZooKeeper" in refusal(configuration, process="taskexecutor")


def test_the_error_names_a_foreign_storage_id(configuration: dict[str, str], kazoo: KazooClient) -> None:
    services = connect(configuration)
    services.client.transact_and_wait([SetData(services.client.settings.storage_id, b"\xac\xed")], "break it")
    services.close()
    assert "storage_id of ZooKeeper does not hold the id of a storage directory" in refusal(configuration)


def test_a_storage_directory_outlives_the_nodes_and_keeps_its_id(
    configuration: dict[str, str], zookeeper: ZooKeeperServer
) -> None:
    services = connect(configuration)
    client = services.client
    before = client.get_data(client.settings.storage_id)
    client.delete_tree(client.settings.cluster)
    services.close()
    services = connect(configuration)
    assert services.client.get_data(client.settings.storage_id) == before
    services.close()


def test_nodes_are_open_to_everybody_only_without_a_secret(
    configuration: dict[str, str], kazoo: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    services = connect(configuration, SecurityContext.insecure())
    assert "may change the nodes of this cluster" in caplog.text
    assert kazoo.get("/flink" + configuration["high-availability.cluster-id"])[0] == b"flinkpy 1"
    services.close()
    protected = {
        **configuration,
        "high-availability.cluster-id": "/protected" + configuration["high-availability.cluster-id"],
        "high-availability.zookeeper.client.authorization": "digest:somebody:s3cret",
        "high-availability.zookeeper.client.acl": "creator",
    }
    connect(protected, SecurityContext.insecure()).close()
    connect(protected, SecurityContext.insecure()).close()
    del protected["high-availability.zookeeper.client.authorization"]
    with pytest.raises(ConfigurationError, match=r"acl: creator` needs the cluster's secret"):
        connect(protected, SecurityContext.insecure())


def test_an_error_during_an_operation_says_what_was_not_done(
    zookeeper: ZooKeeperServer, configuration: dict[str, str]
) -> None:
    impatient = {
        **configuration,
        "high-availability.zookeeper.client.connection-timeout": "1 s",
        "high-availability.zookeeper.client.max-retry-attempts": "1",
    }
    services = connect(impatient)
    zookeeper.kill()
    try:
        with pytest.raises(HighAvailabilityError, match=r"did not read /flink/.*connection_info"):
            services.find_dispatcher(1)
    finally:
        services.close()
        zookeeper.start()


def test_only_elections_and_retrievals_need_the_event_loop(configuration: dict[str, str]) -> None:
    services = connect(configuration)
    with pytest.raises(HighAvailabilityError, match="without an event loop"):
        services.dispatcher_election()
    services.close()
