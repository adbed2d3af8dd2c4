"""A cluster that speaks TLS everywhere, set up with `flinkpy certs` as a user would."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from clusters import RunningCluster, run_flinkpy, running_cluster
from job_support import environment

pytest.importorskip("cryptography", reason="certificates are made with the package cryptography: NOT tested")

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.errors import TlsError
from flinkpy.security import PEER_NAME, Audience, SecurityContext

PASSWORD = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


def certs(directory: Path, *options: str) -> str:
    done = run_flinkpy("certs", str(directory), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def stores(directory: Path, which: str = "service", suffix: str = "pem") -> dict[str, str]:
    return {
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.keystore": str(directory / f"{which}.{suffix}"),
        "security.ssl.internal.truststore": str(directory / f"ca.{suffix}"),
    }


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[RunningCluster]:
    """A cluster whose services share a PKCS12 key store, which has a password to keep secret."""
    password = directory / "password"
    password.write_text(PASSWORD + "\n")
    certs(directory / "p12", "--store-type", "PKCS12", "--password-file", str(password))
    properties = {
        **stores(directory / "p12", suffix="p12"),
        "security.ssl.internal.keystore-password": PASSWORD,
        "security.ssl.internal.truststore-password": PASSWORD,
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.authentication-enabled": "true",
        "security.ssl.rest.keystore": str(directory / "p12" / "rest.p12"),
        "security.ssl.rest.keystore-password": PASSWORD,
        "security.ssl.rest.truststore": str(directory / "p12" / "ca.pem"),
    }
    with running_cluster(directory, properties=properties) as running:
        yield running


@pytest.fixture(scope="module")
def client_properties(cluster: RunningCluster, directory: Path) -> dict[str, str]:
    """Returns the options of a client with its own PEM certificate of the same authority."""
    pem = directory / "pem"
    pem.mkdir()
    for name in ("ca.key", "ca.pem"):
        (pem / name).write_bytes((directory / "p12" / name).read_bytes())
    certs(pem, "--renew")
    return {**cluster.properties, **stores(pem, "client")}


def arguments(properties: dict[str, str]) -> list[str]:
    return [word for key, value in properties.items() for word in ("-D", f"{key}={value}")]


def test_a_job_runs_over_tls_and_the_command_line_sees_it(
    cluster: RunningCluster, client_properties: dict[str, str]
) -> None:
    env = environment(cluster, 2, **client_properties)
    found = env.from_sequence(1, 100).key_by(lambda x: x % 7).map(lambda x: x * 2).execute_and_collect("over tls")
    assert sorted(found) == [2 * x for x in range(1, 101)]
    listed = run_flinkpy("list", "-a", *arguments(client_properties))
    assert "over tls" in listed.stdout, listed.stderr


def test_the_rest_server_serves_only_clients_with_a_certificate(
    cluster: RunningCluster, client_properties: dict[str, str], directory: Path
) -> None:
    url = cluster.client.request_cluster_overview().rest_url
    assert url.startswith("https://127.0.0.1:")
    authority = str(directory / "p12" / "ca.pem")
    headers = {"authorization": f"Bearer {cluster.security.token_for(Audience.DISPATCHER)}"}
    context = ssl.create_default_context(cafile=authority)
    with (
        httpx.Client(verify=context, headers=headers) as client,
        pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)),
    ):
        client.get(f"{url}/overview")
    context.load_cert_chain(directory / "pem" / "client.pem")
    with httpx.Client(verify=context, headers=headers) as client:
        assert client.get(f"{url}/overview").json()["taskmanagers"] == len(cluster.task_executors)
        assert client.get(f"{url}/overview", headers={"authorization": ""}).status_code == 401

    trusting = {**client_properties, "security.ssl.rest.truststore": authority}
    showing = {**trusting, "security.ssl.rest.keystore": str(directory / "pem" / "client.pem")}
    printed = run_flinkpy("dashboard", "--no-browser", *arguments(showing))
    assert printed.stdout.startswith(f"{url}/login?ticket="), printed.stderr
    for properties, option in ((trusting, "security.ssl.rest.keystore"), (client_properties, "ssl.rest.truststore")):
        refused_command = run_flinkpy("dashboard", "--no-browser", *arguments(properties))
        assert refused_command.returncode == 1 and option in refused_command.stderr, refused_command.stderr


def test_the_password_of_the_key_store_is_on_no_command_line(cluster: RunningCluster) -> None:
    import psutil

    for process in cluster.task_executors:
        assert PASSWORD not in " ".join(psutil.Process(process.popen.pid).cmdline())
        assert PASSWORD not in str(psutil.Process(process.popen.pid).environ())
    for pid in cluster.job_master_pids():
        assert PASSWORD not in " ".join(psutil.Process(pid).cmdline())


def test_every_port_of_the_cluster_takes_tls_with_a_certificate_only(cluster: RunningCluster, directory: Path) -> None:
    addresses = [cluster.address, cluster.resource_manager_address]
    for process in cluster.task_executors:
        addresses += [address for address in (process.address, process.data_address) if address]
    trusting = ssl.create_default_context(cafile=str(directory / "p12" / "ca.pem"))
    for address in addresses:
        host, _, port = address.rpartition(":")
        with (
            pytest.raises(OSError),
            socket.create_connection((host, int(port)), timeout=5) as connection,
            trusting.wrap_socket(connection, server_hostname=PEER_NAME) as secured,
        ):
            assert secured.version() in ("TLSv1.2", "TLSv1.3")
            secured.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            if not secured.recv(1):  # refused without a reason
                raise ConnectionError


def test_the_errors_of_mismatched_clients_name_peer_and_cause(cluster: RunningCluster, directory: Path) -> None:
    plaintext = SecurityContext.of_client(cluster.properties)
    with (
        ClusterClient(cluster.address, security=plaintext) as client,
        pytest.raises(TlsError, match="has not proved that it belongs to this cluster"),
    ):
        client.list_jobs()
    certs(directory / "other")
    done = run_flinkpy("list", *arguments({**cluster.properties, **stores(directory / "other", "client")}))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert (
        f"no connection to {cluster.address}" in done.stderr
        and "not signed by an authority in the trust store" in done.stderr
    )


def test_a_service_with_another_authority_or_an_expired_certificate_does_not_start(directory: Path) -> None:
    first, second = directory / "first", directory / "second"
    certs(first)
    certs(second)
    mixed = {**stores(first), "security.ssl.internal.truststore": str(second / "ca.pem")}
    done = run_flinkpy("resourcemanager", "--port", "0", *arguments(mixed))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert str(first / "service.pem") in done.stderr and "not signed by an authority in the trust store" in done.stderr
    done = run_flinkpy("resourcemanager", "--port", "0", *arguments(stores(first, "client")))
    assert done.returncode == 2 and "for clients" in done.stderr


def test_certs_makes_keys_private_and_overwrites_nothing(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        certs(tmp_path / "made", "--days", "3")
    finally:
        os.umask(old_mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").iterdir()}
    assert modes == {
        "ca.key": 0o600,
        "ca.pem": 0o644,
        "service.pem": 0o600,
        "client.pem": 0o600,
        "rest.pem": 0o600,
        "zookeeper.pem": 0o600,
    }
    before = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    again = run_flinkpy("certs", str(tmp_path / "made"))
    assert again.returncode == 2 and "already" in again.stderr and "--renew" in again.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()} == before
    certs(tmp_path / "made", "--renew", "--days", "5")
    after = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    renewed = {name for name in after if after[name] != before[name]}
    assert renewed == {"service.pem", "client.pem", "rest.pem", "zookeeper.pem"}
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(after["service.pem"])
    assert 4.9 < (certificate.not_valid_after_utc.timestamp() - time.time()) / 86_400 < 5.1
    missing = run_flinkpy("certs", str(tmp_path / "empty"), "--renew")
    assert missing.returncode == 2 and "ca.key is missing" in missing.stderr
