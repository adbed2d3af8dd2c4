"""The certificate that identifies the services of a cluster. It is derived from the secret and stored beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography import x509

from flinkpy.security import ClusterSecret
from flinkpy.security.cluster_authority import authority_file, derived_tls

SECRET = ClusterSecret(bytes(range(32)))


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    return tmp_path / "secret"


def test_two_hosts_with_the_same_secret_recognise_each_other(tmp_path: Path) -> None:
    here, there = (derived_tls(SECRET, tmp_path / name) for name in ("here", "there"))
    keys = {
        x509.load_pem_x509_certificate(made.trusted_certificates).public_key().public_numbers()
        for made in (here, there, derived_tls(ClusterSecret(bytes(range(32)))))
    }
    assert len(keys) == 1
    assert keys != {
        x509.load_pem_x509_certificate(derived_tls(ClusterSecret(bytes(32))).trusted_certificates)
        .public_key()
        .public_numbers()
    }


def test_the_file_is_made_once_and_for_its_owner_only(secret_file: Path) -> None:
    old_mask = os.umask(0)
    try:
        made = derived_tls(SECRET, secret_file)
    finally:
        os.umask(old_mask)
    path = authority_file(secret_file)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert derived_tls(SECRET, secret_file) == made
    assert sorted(secret_file.parent.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["another secret's", "changed", "cut", "garbage", "readable by others", "a link"])
def test_a_file_that_cannot_be_trusted_is_replaced(secret_file: Path, damage: str) -> None:
    path = authority_file(secret_file)
    derived_tls(ClusterSecret(bytes(32)) if damage == "another secret's" else SECRET, secret_file)
    content = path.read_bytes()
    match damage:
        case "changed":
            path.write_bytes(content.replace(b"a", b"b", 1))
        case "cut":
            path.write_bytes(content[:-100])
        case "garbage":
            path.write_bytes(b"\xff" * 100_000)
        case "readable by others":
            path.chmod(0o644)
        case "a link":
            path.rename(secret_file.parent / "elsewhere")
            path.symlink_to(secret_file.parent / "elsewhere")
    made = derived_tls(SECRET, secret_file)
    made.check(is_service=True)
    assert made.private_key not in content  # others may have read it
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert derived_tls(SECRET, secret_file) == made


def test_a_process_makes_its_own_certificate_if_no_file_can_be_written(tmp_path: Path) -> None:
    made = derived_tls(SECRET, tmp_path / "missing" / "secret")
    made.check(is_service=True)
