"""Private directories in places that other users can write to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from flinkpy.common.errors import PrivateDirectoryError
from flinkpy.common.private_directory import (
    PrivateDirectory,
    check_owner,
    delete_file_below,
    make_private_directory,
)

ANOTHER_UID = 54321


@pytest.fixture
def shared(tmp_path):
    """A shared place like the temporary directory."""
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o1777)
    return place


def give_away(path: Path) -> None:
    """Changes the owner to another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    os.chown(path, ANOTHER_UID, ANOTHER_UID)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_directory_is_created_private(shared):
    old = os.umask(0)
    try:
        with PrivateDirectory.make(shared, "a", "b") as directory:
            assert directory.path == shared / "a" / "b"
    finally:
        os.umask(old)
    assert [mode_of(shared / "a"), mode_of(shared / "a" / "b")] == [0o700, 0o700]
    with PrivateDirectory.make(shared, "a", "b"):
        pass


def test_a_directory_that_others_can_read_becomes_private(shared):
    (shared / "a").mkdir()
    (shared / "a").chmod(0o755)
    PrivateDirectory.make(shared, "a").close()
    assert mode_of(shared / "a") == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
def test_a_directory_that_others_can_write_to_is_refused(shared, mode):
    (shared / "a").mkdir()
    (shared / "a").chmod(mode)
    with pytest.raises(PrivateDirectoryError, match=rf"{shared}/a is not private.*mode {mode:04o}"):
        PrivateDirectory.make(shared, "a")


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
def test_the_directory_of_another_user_is_refused_with_its_name_and_owner(shared, names):
    (shared / "a").mkdir(mode=0o700)
    give_away(shared / "a")
    with pytest.raises(PrivateDirectoryError, match=rf"{shared}/a is not private: its owner is {ANOTHER_UID}"):
        PrivateDirectory.make(shared, *names)
    with pytest.raises(PrivateDirectoryError, match="another directory"):
        PrivateDirectory.open(shared, *names)
    assert os.listdir(shared / "a") == []


@pytest.mark.parametrize("names", [("link",), ("link", "inside")])
def test_links_in_the_path_are_not_followed(shared, tmp_path, names):
    own = tmp_path / "own"
    (own / "inside").mkdir(parents=True)
    (shared / "link").symlink_to(own)
    with pytest.raises(PrivateDirectoryError, match=rf"{shared}/link is a symbolic link"):
        PrivateDirectory.make(shared, *names)


def test_a_file_in_the_path_is_refused(shared):
    (shared / "a").write_text("")
    with pytest.raises(PrivateDirectoryError, match="is not a directory"):
        PrivateDirectory.make(shared, "a")


def test_opening_a_missing_directory_fails(shared):
    with pytest.raises(FileNotFoundError):
        PrivateDirectory.open(shared, "a")


def test_files_are_opened_without_following_links(shared, tmp_path):
    victim = tmp_path / "victim"
    with PrivateDirectory.make(shared, "a") as directory:
        os.close(directory.open_file("made", os.O_RDWR | os.O_CREAT))
        assert mode_of(shared / "a" / "made") == 0o600
        (shared / "a" / "link").symlink_to(victim)
        with pytest.raises(PrivateDirectoryError, match="link is a symbolic link"):
            directory.open_file("link", os.O_RDWR | os.O_CREAT)
        assert not victim.exists()
        os.mkfifo(shared / "a" / "pipe")
        with pytest.raises(PrivateDirectoryError, match="pipe is not a file"):
            directory.open_file("pipe", os.O_RDONLY)
        with pytest.raises(FileNotFoundError):
            directory.open_file("none", os.O_RDONLY)


def test_removal_happens_in_the_opened_directory_even_if_its_name_moves(shared, tmp_path):
    own = tmp_path / "own"
    (own / "work").mkdir(parents=True)
    with PrivateDirectory.make(shared, "a") as directory:
        (shared / "a" / "work").mkdir()
        (shared / "a").rename(shared / "moved")
        (shared / "a").symlink_to(own)
        assert directory.names() == ["work"]
        directory.remove("work")
    assert (own / "work").exists()
    assert not (shared / "moved" / "work").exists()


def test_links_are_removed_but_not_their_targets(shared, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis").write_text("keep")
    with PrivateDirectory.make(shared, "a") as directory:
        (shared / "a" / "link").symlink_to(own)
        (shared / "a" / "directory").mkdir()
        (shared / "a" / "file").write_text("")
        assert not directory.is_directory("link")
        assert not directory.is_directory("none")
        assert directory.is_directory("directory")
        directory.remove("link")
        assert directory.names() == ["directory", "file", "link"]
        directory.clear()
        assert directory.names() == []
    assert (own / "thesis").read_text() == "keep"


def test_a_configured_directory_becomes_private_and_links_to_it_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real").chmod(0o775)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert make_private_directory(tmp_path / "link") == tmp_path / "link"
    assert mode_of(tmp_path / "real") == 0o700
    make_private_directory(tmp_path / "new" / "one")
    assert mode_of(tmp_path / "new" / "one") == 0o700
    give_away(tmp_path / "real")
    with pytest.raises(PrivateDirectoryError, match="belongs to another user: its owner"):
        make_private_directory(tmp_path / "link")


def test_only_directories_of_this_user_are_accepted(tmp_path):
    check_owner(tmp_path / "none")
    check_owner(tmp_path)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PrivateDirectoryError, match="open is not private"):
        check_owner(tmp_path / "open")
    (tmp_path / "open").chmod(0o700)
    give_away(tmp_path / "open")
    with pytest.raises(PrivateDirectoryError, match=str(ANOTHER_UID)):
        check_owner(tmp_path / "open")


def test_deleting_does_not_follow_links(tmp_path):
    (tmp_path / "own" / "inside").mkdir(parents=True)
    (tmp_path / "own" / "inside" / "thesis").write_text("keep")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with pytest.raises(PrivateDirectoryError, match="symbolic link"):
        delete_file_below(tmp_path, "link", "inside", "thesis")
    delete_file_below(tmp_path, "own", "inside", "thesis")
    assert os.listdir(tmp_path / "own" / "inside") == []
