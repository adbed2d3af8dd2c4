"""The directories of blocking partitions, which do not outlive their process."""

from __future__ import annotations

from pathlib import Path

from flinkpy.common.configuration import Configuration
from flinkpy.common.working_directory import WorkingDirectory
from flinkpy.taskexecutor.entrypoint import blocking_shuffle_options
from flinkpy.taskexecutor.shuffle_directories import ShuffleDirectories


def test_shuffle_files_are_in_the_working_directory_by_default(tmp_path: Path) -> None:
    working_directory = WorkingDirectory.open(str(tmp_path), None, "taskexecutor")
    directories = ShuffleDirectories.open([], working_directory)
    (path,) = directories.paths
    assert path.is_relative_to(tmp_path) and path.is_dir()
    directories.close()
    assert not path.exists()
    working_directory.close()


def test_leftovers_in_a_kept_working_directory_are_removed(tmp_path: Path) -> None:
    for _ in range(2):
        working_directory = WorkingDirectory.open(str(tmp_path), None, "taskexecutor")
        (path,) = ShuffleDirectories.open([], working_directory).paths
        assert list(path.iterdir()) == []
        (path / "left.data").write_bytes(b"x")
        working_directory.close()  # killed: the directories are not closed


def test_every_temporary_directory_is_used(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
    working_directory = WorkingDirectory.open(None, str(roots[0]), "taskexecutor")
    directories = ShuffleDirectories.open([str(root) for root in roots], working_directory)
    assert [path.is_relative_to(root) for path, root in zip(directories.paths, roots, strict=True)] == [True, True]
    assert directories.paths[0].is_relative_to(working_directory.path)
    directories.close()
    working_directory.close()
    assert [list(root.iterdir()) for root in roots] == [[], []]


def test_the_configured_limits_apply() -> None:
    options = blocking_shuffle_options(
        Configuration.from_dict(
            {
                "taskmanager.network.sort-shuffle.min-buffers": "7",
                "taskmanager.memory.framework.off-heap.batch-shuffle.size": "2 mb",
                "taskmanager.network.compression.codec": "NONE",
            }
        )
    )
    assert (options.min_buffers, options.read_memory_bytes, options.compression) == (7, 2 << 20, None)
    assert blocking_shuffle_options(Configuration.from_dict({})).compression == "lz4"
