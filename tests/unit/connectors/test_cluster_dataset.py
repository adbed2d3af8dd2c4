"""Cluster data sets: each written record is read once, no matter how many attempts wrote it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_fakes import SinkLife
from reading import check_every_batch_boundary, read_until

from flinkpy.common.errors import ClusterDatasetCorruptedError, PrivateDirectoryError
from flinkpy.connectors.cluster_dataset import (
    OWN_ROOT_PREFIX,
    ClusterDatasetSink,
    ClusterDatasetSource,
    _decoded,
    _encoded,
)
from flinkpy.records.batch import Batch

CHECKPOINTED = {"execution.checkpointing.interval": "1 s"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "dataset"


def write(directory: Path, *batches: list[Any], subtask: int = 0) -> None:
    """Runs one subtask to its end without checkpoints."""
    life = SinkLife(ClusterDatasetSink(str(directory)), subtask_index=subtask, parallelism=2)
    for batch in batches:
        life.write(*batch)
    life.operator.finish()
    life.operator.close()


def read(directory: Path, num_writers: int = 1) -> list[Any]:
    source = ClusterDatasetSource(str(directory), num_writers)
    return read_until(source, source.split(), max_batch_rows=100)[0]


def test_records_are_read_in_the_order_of_writing(directory: Path) -> None:
    write(directory, [3, "a"], [None, {"b": 1}])
    assert read(directory) == [3, "a", None, {"b": 1}]


def test_each_subtask_with_records_becomes_a_split(directory: Path) -> None:
    write(directory, [1, 2], subtask=0)
    write(directory, subtask=1)
    write(directory, [3], subtask=2)
    source = ClusterDatasetSource(str(directory), 3)
    assert [split.split_id for split in source.split()] == ["0", "2"]
    assert read(directory, 3) == [1, 2, 3]


def test_second_attempt_replaces_the_records_of_the_first(directory: Path) -> None:
    write(directory, [1, 2, 3])
    write(directory, [1, 2, 3, 4])
    assert read(directory) == [1, 2, 3, 4]


def test_an_attempt_that_failed_before_its_end_leaves_nothing_to_read(directory: Path) -> None:
    failed = SinkLife(ClusterDatasetSink(str(directory)))
    failed.write(1, 2)
    failed.operator.close()
    with pytest.raises(ClusterDatasetCorruptedError, match="call invalidate"):
        read(directory)
    assert list(directory.iterdir()) == []
    write(directory, [5])
    assert read(directory) == [5]


def test_restored_attempt_continues_after_its_checkpoint(directory: Path) -> None:
    sink = ClusterDatasetSink(str(directory))
    first = SinkLife(sink, configuration=CHECKPOINTED)
    first.write(1, 2)
    state = first.checkpoint(1)
    first.operator.notify_checkpoint_complete(1)
    first.write(3)  # lost with the attempt
    first.operator.close()
    second = SinkLife(sink, state, configuration=CHECKPOINTED)
    second.write(3, 4)
    second.operator.finish()
    final = second.checkpoint(2)
    second.operator.notify_checkpoint_complete(2)
    second.operator.close()
    assert read(directory) == [1, 2, 3, 4]
    # A job that restores a checkpoint may repeat its commit.
    SinkLife(sink, final, configuration=CHECKPOINTED).operator.close()
    assert read(directory) == [1, 2, 3, 4]


def test_reader_resumes_after_any_batch(directory: Path) -> None:
    write(directory, [1, 2, 3], [4], [5, 6, 7, 8], subtask=0)
    write(directory, [9, 10], [11], subtask=1)
    source = ClusterDatasetSource(str(directory), 2)
    assert check_every_batch_boundary(source, source.split(), max_batch_rows=2) == list(range(1, 12))


@pytest.mark.parametrize("columnar", [False, True])
def test_timestamps_and_kinds_are_kept(columnar: bool) -> None:
    values: Any = pa.record_batch({"a": [1, 2], "b": ["x", None]}) if columnar else [(1, "x"), (2, None)]
    batch = Batch(values, np.array([10, 20]), np.array([0, 3], dtype=np.int8))
    decoded = _decoded(_encoded(batch))
    assert decoded.is_columnar is columnar
    assert decoded.values == values
    assert decoded.timestamps.tolist() == [10, 20] and decoded.kinds.tolist() == [0, 3]
    assert _decoded(_encoded(Batch(values))).timestamps is None


def test_missing_or_truncated_block_is_an_error(directory: Path) -> None:
    write(directory, [1, 2, 3])
    (block,) = directory.glob("*.block")
    block.write_bytes(block.read_bytes()[:-1])
    with pytest.raises(ClusterDatasetCorruptedError, match="cut off"):
        read(directory)
    block.unlink()
    with pytest.raises(ClusterDatasetCorruptedError, match="disappeared"):
        read(directory)


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return Path.touch, (self._path,)  # type: ignore[return-value]


@pytest.mark.parametrize("how", ["writable by others", "a link", "another user's", "a link to the file"])
def test_files_that_another_user_could_write_are_not_unpickled(directory: Path, tmp_path: Path, how: str) -> None:
    write(directory, [1])
    (end,) = directory.glob("end-0")
    sign = tmp_path / "unpickled"
    end.write_bytes(pickle.dumps(Payload(sign)))
    if how == "writable by others":
        directory.chmod(0o777)
    elif how == "a link":
        directory.rename(tmp_path / "elsewhere")
        directory.symlink_to(tmp_path / "elsewhere")
    elif how == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a directory to another user")
        os.chown(directory, 54321, 54321)
    else:
        end.rename(tmp_path / "elsewhere")
        end.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PrivateDirectoryError, match="dataset"):
        ClusterDatasetSource(str(directory), 1).split()
    assert not sign.exists()


def test_directory_of_a_user_is_not_created_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    own = tmp_path / f"{OWN_ROOT_PREFIX}1000"
    own.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PrivateDirectoryError, match="symbolic link"):
        write(own / "1-2" / "dataset", [1])
    assert os.listdir(tmp_path / "elsewhere") == []
