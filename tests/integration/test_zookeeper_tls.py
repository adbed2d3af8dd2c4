"""ZooKeeper with mutual TLS, set up with `flinkpy certs` as a user would."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clusters import run_flinkpy
from ports import own_port
from zookeeper_server import ZooKeeperServer, require_zookeeper
from zookeeper_support import RecordingListener, ha_configuration, ha_services, stand

from flinkpy.common.errors import ConfigurationError, HighAvailabilityError
from flinkpy.highavailability.services import create_high_availability_services
from flinkpy.security import ClusterSecret, SecurityContext, TlsMaterial

SECRET = ClusterSecret.generate()


@dataclass(frozen=True)
class SecureZooKeeper:
    server: ZooKeeperServer
    secure_port: int
    certificates: Path

    def configuration(self, storage: Path, **client: str) -> dict[str, str]:
        entries = {"ssl.enabled": "true", "connection_timeout": "10 s", **client}
        return {
            **ha_configuration(f"127.0.0.1:{self.secure_port}", storage, **entries),
            "security.ssl.internal.enabled": "true",
            "security.ssl.internal.keystore": str(self.certificates / "service.pem"),
            "security.ssl.internal.truststore": str(self.certificates / "ca.pem"),
        }


def with_certificates(configuration: dict[str, str]) -> SecurityContext:
    return SecurityContext.of_secret(SECRET, tls=TlsMaterial.of_configuration(configuration))


def make_certificates(directory: Path) -> Path:
    assert run_flinkpy("certs", str(directory)).returncode == 0
    return directory


@pytest.fixture(scope="module")
def secure_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    require_zookeeper()
    directory = tmp_path_factory.mktemp("secure")
    certificates = make_certificates(directory / "certificates")
    port = own_port()
    settings = (
        f"secureClientPort={port}",
        "secureClientPortAddress=127.0.0.1",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={certificates / 'zookeeper.pem'}",
        f"ssl.trustStore.location={certificates / 'ca.pem'}",
    )
    server = ZooKeeperServer(directory / "server", settings=settings)
    try:
        server.start()
        yield SecureZooKeeper(server, port, certificates)
    finally:
        server.kill()


def refusal(configuration: dict[str, str]) -> str:
    with pytest.raises(HighAvailabilityError) as raised:
        create_high_availability_services(
            configuration, with_certificates(configuration), None, process="resourcemanager"
        )
    return str(raised.value)


def test_leaders_are_elected_found_and_followed_over_tls(secure_zookeeper: SecureZooKeeper, tmp_path: Path) -> None:
    configuration = secure_zookeeper.configuration(tmp_path / "elections")

    async def run() -> None:
        security = with_certificates(configuration)
        async with ha_services(configuration, security) as one, ha_services(configuration, security) as other:
            first = stand(one.dispatcher_election())
            leadership = await first.wait_for("granted")
            first.election.confirm_leadership(leadership.token, "host-1:1")
            listener = RecordingListener()
            other.dispatcher_retrieval().start(listener)
            await listener.wait_for(lambda leader: leader is not None and leader.address == "host-1:1")
            second = stand(other.dispatcher_election())
            await asyncio.to_thread(one.close)
            assert (await second.wait_for("granted")).token != leadership.token

    asyncio.run(run())


def test_a_tls_mismatch_is_explained_in_one_sentence(secure_zookeeper: SecureZooKeeper, tmp_path: Path) -> None:
    quick = {"connection_timeout": "1 s"}
    configuration = secure_zookeeper.configuration(tmp_path, **quick)
    address = f"127.0.0.1:{secure_zookeeper.secure_port}"

    other = make_certificates(tmp_path / "other")
    strangers = {
        **configuration,
        "security.ssl.internal.keystore": str(other / "service.pem"),
        "security.ssl.internal.truststore": str(other / "ca.pem"),
    }
    assert f"the certificate of {address} is refused: the certificate is not signed by an authority" in refusal(
        strangers
    )

    by_host = {**configuration, "high-availability.zookeeper.client.ssl.server-name": ""}
    assert "does not have the name 127.0.0.1: it was made for another server" in refusal(by_host)

    plaintext_port = {**configuration, "high-availability.zookeeper.quorum": secure_zookeeper.server.address}
    assert f"{secure_zookeeper.server.address} and this process do not agree on TLS" in refusal(plaintext_port)

    plaintext = {**configuration, "high-availability.zookeeper.client.ssl.enabled": "false"}
    assert "expects TLS" in refusal(plaintext)

    without = {key: value for key, value in configuration.items() if not key.startswith("security.ssl")}
    with pytest.raises(ConfigurationError, match=r"needs `security\.ssl\.internal\.enabled: true`"):
        create_high_availability_services(without, SecurityContext.of_secret(SECRET), None, process="dispatcher")
