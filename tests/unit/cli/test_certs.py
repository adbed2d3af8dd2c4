"""`flinkpy certs` makes certificates for the services, and one with names of hosts for the REST server."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("cryptography")

from flinkpy.cli.credentials import certs
from flinkpy.security import PEER_NAME


def make(*arguments: str, expected: int = 0) -> Any:
    result = CliRunner().invoke(certs, list(arguments))
    assert result.exit_code == expected, result.output
    return result


def accepts(directory: Path, name: str, store: str = "rest") -> bool:
    """True if a client that trusts the authority takes the server for the host of that name."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(directory / f"{store}.pem")
    client_side = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for one in (client, server):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return client.version() is not None


def test_the_certificate_of_rest_names_the_hosts_and_the_loopback_addresses(tmp_path: Path) -> None:
    make(str(tmp_path), "--host", "Flink.example.org", "--host", "10.0.0.7", "--host", "*.cluster.local")
    names = ("flink.example.org", "10.0.0.7", "a.cluster.local", "localhost", "127.0.0.1")
    assert [accepts(tmp_path, name) for name in names] == [True] * len(names)
    assert not accepts(tmp_path, "other.example.org") and not accepts(tmp_path, "10.0.0.8")


def test_a_renewed_certificate_of_rest_keeps_its_hosts_unless_others_are_given(tmp_path: Path) -> None:
    make(str(tmp_path), "--host", "flink.example.org")
    before = (tmp_path / "rest.pem").read_bytes()
    make(str(tmp_path), "--renew")
    assert (tmp_path / "rest.pem").read_bytes() != before
    assert accepts(tmp_path, "flink.example.org")
    make(str(tmp_path), "--renew", "--host", "new.example.org")
    assert accepts(tmp_path, "new.example.org") and not accepts(tmp_path, "flink.example.org")


def test_the_holder_of_the_certificate_of_rest_is_no_member_of_the_cluster(tmp_path: Path) -> None:
    make(str(tmp_path), "--host", "flink.example.org")
    assert accepts(tmp_path, PEER_NAME, "service")
    assert not accepts(tmp_path, PEER_NAME)
    assert not accepts(tmp_path, "flink.example.org", "service")


@pytest.mark.parametrize("host", ["", "a b", "https://flink", "10.0.0.256", "a..b", "flink:8081", "-a", "x" * 254])
def test_a_host_that_cannot_be_one_is_named_and_nothing_is_written(tmp_path: Path, host: str) -> None:
    result = make(str(tmp_path / "new"), "--host", host, expected=2)
    assert "neither a name of a host nor an IP address" in " ".join(result.output.split())
    assert not (tmp_path / "new").exists()


def test_hosts_of_a_pkcs12_store_must_be_given_again(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("correct-horse\n")
    store = ("--store-type", "PKCS12", "--password-file", str(tmp_path / "password"))
    make(str(tmp_path / "new"), *store, "--host", "flink.example.org")
    before = (tmp_path / "new" / "rest.p12").read_bytes()
    assert "repeat --host" in make(str(tmp_path / "new"), *store, "--renew", expected=2).output
    assert (tmp_path / "new" / "rest.p12").read_bytes() == before
    make(str(tmp_path / "new"), *store, "--renew", "--host", "flink.example.org")
    assert (tmp_path / "new" / "rest.p12").read_bytes() != before
