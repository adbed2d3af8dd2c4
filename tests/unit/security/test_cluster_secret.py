"""The cluster secret: its file and its tokens. It never appears in a text."""

from __future__ import annotations

import copy
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flinkpy.common.errors import ErrorDomain, SecretError
from flinkpy.security import ClusterSecret, Role


def test_the_first_start_makes_a_file_that_only_its_owner_reads_and_later_ones_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    made = ClusterSecret.load_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(bytes.fromhex(path.read_text())) == 32
    assert ClusterSecret.load_or_create(path) == made
    assert os.listdir(path.parent) == ["secret"]


def test_many_that_start_at_once_get_the_same_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with ThreadPoolExecutor(16) as threads:
        secrets = list(threads.map(lambda _: ClusterSecret.load_or_create(path), range(64)))
    assert len({secret.derive("anything") for secret in secrets}) == 1
    assert os.listdir(tmp_path) == ["secret"]


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o644, 0o666, 0o777])
def test_a_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    ClusterSecret.load_or_create(path)
    path.chmod(mode)
    with pytest.raises(SecretError, match=f"{path}.*chmod 600") as raised:
        ClusterSecret.load_or_create(path)
    assert raised.value.domain is ErrorDomain.USER and raised.value.details["path"] == str(path)
    assert path.read_text().strip() not in str(raised.value)


def test_a_file_that_its_group_reads_is_what_containers_mount(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    secret = ClusterSecret.load_or_create(path)
    path.chmod(0o440)
    assert ClusterSecret.load(path) == secret


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    ClusterSecret.load_or_create(path)
    os.chown(path, 12345, -1)
    with pytest.raises(SecretError, match=r"another user .*12345"):
        ClusterSecret.load_or_create(path)


@pytest.mark.parametrize("content", ["", "zz" * 32, "ab" * 31, "ab" * 33, "ab" * 5000, "\x00" * 64])
def test_a_file_that_holds_no_secret_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(SecretError, match="64 hexadecimal digits"):
        ClusterSecret.load_or_create(path)
    assert path.read_text() == content


def test_the_error_names_a_secret_that_is_not_a_file_or_cannot_be_created(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="is not a file"):
        ClusterSecret.load_or_create(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(SecretError, match="is not a file"):
        ClusterSecret.load_or_create(pipe)
    (tmp_path / "file").write_text("")
    with pytest.raises(SecretError, match="file/secret"):
        ClusterSecret.load_or_create(tmp_path / "file" / "secret")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nothing")
    with pytest.raises(SecretError, match="dangling cannot be read"):
        ClusterSecret.load_or_create(dangling)


def test_derived_secrets_differ_from_each_other_and_from_all_tokens() -> None:
    secret = ClusterSecret.generate()
    derived = {secret.derive(purpose) for purpose in ("zookeeper", "data plane", "read", "cluster")}
    assert len(derived) == 4
    assert secret.derive_key("zookeeper").hex() == secret.derive("zookeeper")


def test_a_secret_is_neither_shown_nor_pickled() -> None:
    secret = ClusterSecret(b"\xab" * 32)
    assert "ab" * 32 not in repr(secret) + str(secret) + f"{secret!r}"
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            way(secret)


def test_roles_are_ordered_by_what_they_may() -> None:
    assert Role.READ < Role.SUBMIT < Role.CLUSTER
