"""ZooKeeper's settings in the configuration: nodes, times, credentials, and mistakes."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ConfigurationError, HighAvailabilityError
from flinkpy.configuration import validate
from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.highavailability.services import create_high_availability_services, is_highly_available
from flinkpy.highavailability.zookeeper import leader_information
from flinkpy.highavailability.zookeeper.settings import ZooKeeperSettings, storage_directory
from flinkpy.security import ClusterSecret, SecurityContext

SECRET = ClusterSecret(bytes(range(32)))
SECURITY = SecurityContext.of_secret(SECRET)
PREFIX = "high-availability.zookeeper."
MINIMAL = {"high-availability.type": "zookeeper", f"{PREFIX}quorum": "zk1, zk2:2182"}


def settings(security: SecurityContext = SECURITY, **entries: str) -> ZooKeeperSettings:
    return ZooKeeperSettings.of({**MINIMAL, **entries}, security)


def test_defaults_are_flinks_but_for_the_acl() -> None:
    read = settings()
    assert read.quorum == "zk1:2181,zk2:2182" and read.hosts == [("zk1", 2181), ("zk2", 2182)]
    assert (read.session_timeout_s, read.connection_timeout_s) == (60, 15)
    assert (read.retry_wait_s, read.max_retry_wait_s, read.max_retry_attempts) == (5, 60, 3)
    assert not read.tolerates_suspension and not read.is_open
    assert read.connection_info("dispatcher") == "/flink/default/leader/dispatcher/connection_info"
    assert read.latch("resource_manager") == "/flink/default/leader/resource_manager/latch"
    assert read.job_graphs == "/flink/default/execution-plans"
    assert read.checkpoints("j") == "/flink/default/jobs/j/checkpoints"
    assert read.checkpoint_id_counter("j") == "/flink/default/jobs/j/checkpoint_id_counter"


def test_every_option_is_read() -> None:
    entries = {
        f"{PREFIX}quorum": "[::1]:2181",
        f"{PREFIX}path.root": "a//b/",
        "high-availability.cluster-id": "team/one",
        f"{PREFIX}path.execution-plans": "plans",
        f"{PREFIX}client.session-timeout": "6 s",
        f"{PREFIX}client.connection-timeout": "3 s",
        f"{PREFIX}client.retry-wait": "10 ms",
        f"{PREFIX}client.max-retry-wait": "20 ms",
        f"{PREFIX}client.max-retry-attempts": "0",
        f"{PREFIX}client.max-close-wait": "1 s",
        f"{PREFIX}client.tolerate-suspended-connections": "true",
        f"{PREFIX}client.acl": "open",
    }
    validate({**MINIMAL, **entries})
    read = settings(**entries)
    assert read.hosts == [("::1", 2181)]
    assert read.job_graphs == "/a/b/team/one/plans"
    assert (read.session_timeout_s, read.connection_timeout_s, read.close_wait_s) == (6, 3, 1)
    assert (read.retry_wait_s, read.max_retry_wait_s, read.max_retry_attempts) == (0.01, 0.02, 0)
    assert read.tolerates_suspension and read.is_open


def test_credentials_are_derived_from_the_secret_and_shown_nowhere() -> None:
    entries = {f"{PREFIX}client.authorization": "digest:user:hidden"}
    read = settings(**entries)
    assert read.credentials == (("digest", "user:hidden"), ("digest", f"flinkpy:{SECRET.derive('zookeeper')}"))
    assert "hidden" not in repr(read) and SECRET.derive("zookeeper") not in repr(read)
    assert "fp1." not in str(read.credentials)
    nobody = SecurityContext.insecure()
    assert settings(nobody).is_open and not settings(nobody, **entries).is_open


@pytest.mark.parametrize(
    ("entries", "culprit"),
    [
        ({f"{PREFIX}quorum": ""}, "needs `high-availability.zookeeper.quorum`"),
        ({f"{PREFIX}quorum": "zk1:port"}, "has `zk1:port`: expected `host:port`"),
        ({f"{PREFIX}quorum": "zk1:2181/chroot"}, "expected `host:port`"),
        ({f"{PREFIX}quorum": "zk1:2181,,zk2:2181"}, "expected `host:port`"),
        ({"high-availability.cluster-id": "/"}, "high-availability.cluster-id: /` is not a valid path"),
        ({"high-availability.cluster-id": "../other"}, "is not a valid path"),
        ({f"{PREFIX}path.root": "a b"}, "path.root: a b` is not a valid path"),
        ({f"{PREFIX}client.authorization": "digest:userpassword"}, "`user:password`"),
        ({f"{PREFIX}client.acl": "closed"}, "expected one of open, creator"),
    ],
)
def test_mistakes_name_the_option(entries: dict[str, str], culprit: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        settings(**entries)
    assert culprit in str(raised.value) and "userpassword" not in str(raised.value)


def test_the_storage_directory_is_a_path_of_every_master() -> None:
    assert str(storage_directory({"high-availability.storageDir": "file:///mnt/ha"})) == "/mnt/ha"
    with pytest.raises(ConfigurationError, match=r"high availability needs `high-availability\.storageDir`"):
        storage_directory({})
    for value in ("s3://bucket/ha", "relative/path"):
        with pytest.raises(ConfigurationError, match="is not an absolute path"):
            storage_directory({"high-availability.storageDir": value})


def test_published_leaders_can_be_read_and_the_error_of_other_contents_names_the_node() -> None:
    information = LeaderInformation("host:1", "token")
    assert leader_information.decode(leader_information.encode(information), "/n") == information
    for foreign in (b"", b"\xac\xed\x00\x05", b"[]", b'{"address": 1, "fencing_token": "t"}', b"[" * 4000, b"x" * 5000):
        with pytest.raises(HighAvailabilityError, match="node /n of ZooKeeper does not hold the address of a leader"):
            leader_information.decode(foreign, "/n")


def test_without_high_availability_addresses_are_the_configured_ones() -> None:
    assert not is_highly_available({}) and is_highly_available({"high-availability": "ZooKeeper"})
    services = create_high_availability_services(
        {}, SECURITY, None, process="taskexecutor", resource_manager_address="host:2"
    )
    leaders: list[LeaderInformation | None] = []
    services.resource_manager_retrieval().start(leaders.append)
    assert leaders == [LeaderInformation("host:2")]
    with pytest.raises(HighAvailabilityError, match="does not know the address of the Dispatcher"):
        services.find_dispatcher(1)
    with pytest.raises(HighAvailabilityError, match="has no directory for blobs"):
        services.blob_directory()
