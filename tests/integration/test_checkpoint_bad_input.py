"""Each mistake with checkpoints causes one typed error that names it, and leaves the last good checkpoint untouched."""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment, wait_until, wait_until_idle
from test_storage_faults import digests
from verifying.faults import Faults
from verifying.harness import RESTARTS
from verifying.sequence_source import SequencePerKeySource
from verifying.two_phase_sink import TwoPhaseSink, committed_records

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.errors import (
    CheckpointNotFoundError,
    CheckpointStorageError,
    CorruptStateError,
    FlinkError,
    JobExecutionError,
    StateMigrationError,
    StateRestoreError,
)
from flinkpy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

KEYS, RECORDS_PER_KEY = 4, 100
TRIPLE = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
BACKENDS = ["hashmap", "rocksdb"]
DESCRIPTORS = {
    "value": ValueStateDescriptor("count", Types.LONG()),
    "text": ValueStateDescriptor("count", Types.STRING()),
    "map": MapStateDescriptor("count", Types.LONG(), Types.LONG()),
    "list": ListStateDescriptor("count", Types.LONG()),
}


class Count(KeyedProcessFunction):
    """Emits (key, number, count of the numbers of the key)."""

    def __init__(self, state: str) -> None:
        self._kind = state

    def open(self, runtime_context: Any) -> None:
        descriptor = DESCRIPTORS[self._kind]
        get = {"map": runtime_context.get_map_state, "list": runtime_context.get_list_state}
        self._count = get.get(self._kind, runtime_context.get_state)(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value[0], value[1], count


@pytest.fixture
def cluster(shared_cluster: RunningCluster) -> RunningCluster:
    return shared_cluster


@dataclass
class Job:
    """A job that counts the records of each key until the test lets it end."""

    cluster: RunningCluster
    directory: Path

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def build(
        self, *, state: str = "value", uid: str | None = "count", sink_uid: str | None = "sink", **settings: str
    ) -> StreamExecutionEnvironment:
        properties = {
            **RESTARTS,
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            **settings,
        }
        env = environment(self.cluster, 2, **properties)
        source = SequencePerKeySource(KEYS, RECORDS_PER_KEY, 100, self.directory / "hurry")
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", pair).uid("numbers")
        counted = numbers.key_by(lambda record: record[0], Types.LONG()).process(Count(state), TRIPLE).name("counter")
        if uid is not None:
            counted.uid(uid)
        sunk = counted.sink_to(TwoPhaseSink(str(self.output)))
        if sink_uid is not None:
            sunk.uid(sink_uid)
        return env

    def savepoint(self, **settings: str) -> Path:
        """Returns a savepoint of a job that has committed output."""
        client = self.build(**settings).execute_async("counting")
        wait_until(lambda: list(committed_records(self.output)), "committed records")
        job_id = str(client.get_job_id())
        return Path(self.cluster.client.stop_with_savepoint(job_id, str(self.directory / "savepoints")))

    def failure(self, path: Path | str, **changes: str) -> FlinkError:
        """Returns the error of a job that should resume from `path`."""
        settings = {"execution.state-recovery.path": str(path), **changes}
        with pytest.raises(JobExecutionError) as raised:
            self.build(**settings).execute("counting")
        assert isinstance(raised.value.cause, FlinkError)
        job_id = raised.value.details["job"]
        assert self.cluster.client.request_job(job_id).num_restarts == 0, "to try again would not help"
        return raised.value.cause

    def finish(self, path: Path, **settings: str) -> None:
        (self.directory / "hurry").touch()
        self.build(**{"execution.state-recovery.path": str(path), **settings}).execute("counting")

    def assert_exactly_once(self) -> None:
        expected = Counter((key, number, number + 1) for key in range(KEYS) for number in range(RECORDS_PER_KEY))
        assert Counter(committed_records(self.output)) == expected


def assert_error(error: FlinkError, kind: type[FlinkError], *words: str) -> None:
    assert type(error) is kind, repr(error)
    assert [word for word in words if word not in str(error)] == [], str(error)


def test_the_error_names_a_path_without_a_checkpoint(cluster: RunningCluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path)
    savepoint = job.savepoint()
    before = digests(savepoint)
    other, garbage, newer = tmp_path / "other", tmp_path / "garbage", tmp_path / "newer"
    for directory in (other, garbage, newer):
        directory.mkdir()
    (other / "notes.txt").write_text("not a checkpoint")
    (garbage / "_metadata").write_bytes(b"garbage" * 50)
    (newer / "_metadata").write_bytes(of_a_newer_release((savepoint / "_metadata").read_bytes()))

    assert_error(job.failure(tmp_path / "nothing"), CheckpointNotFoundError, str(tmp_path / "nothing"))
    assert_error(job.failure(other), CheckpointNotFoundError, str(other), "_metadata")
    # The path is the parent directory of all savepoints.
    assert_error(job.failure(savepoint.parent), CheckpointNotFoundError, str(savepoint.parent), savepoint.name)
    assert_error(job.failure(garbage), CorruptStateError, str(garbage / "_metadata"))
    assert_error(job.failure(newer), StateRestoreError, str(newer), "newer release")

    assert digests(savepoint) == before
    job.finish(savepoint)
    job.assert_exactly_once()
    wait_until_idle(cluster)


def of_a_newer_release(metadata: bytes) -> bytes:
    body = bytearray(metadata[:-32])
    struct.pack_into(">I", body, 8, 99)
    return bytes(body) + hashlib.sha256(body).digest()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_error_of_a_job_that_does_not_match_its_savepoint_says_why(
    cluster: RunningCluster, tmp_path: Path, backend: str
) -> None:
    job = Job(cluster, tmp_path)
    settings = {"state.backend.type": backend, "pipeline.max-parallelism": "64"}
    savepoint = job.savepoint(**settings)
    before = digests(savepoint)

    error = job.failure(savepoint, uid="another", **settings)
    assert_error(error, StateRestoreError, str(savepoint), "count", "allowNonRestoredState")
    error = job.failure(savepoint, **{**settings, "pipeline.max-parallelism": "32"})
    assert_error(error, StateRestoreError, str(savepoint), "max parallelism", "64", "32")
    assert_error(job.failure(savepoint, state="text", **settings), StateMigrationError, "counter", "'count'")
    assert_error(job.failure(savepoint, state="map", **settings), StateRestoreError, "'count'", "value", "map")
    assert_error(job.failure(savepoint, state="list", **settings), StateRestoreError, "'count'", "value", "list")

    assert digests(savepoint) == before
    job.finish(savepoint, **settings)
    job.assert_exactly_once()


def test_unclaimed_state_is_skipped_if_allowed(cluster: RunningCluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path)
    savepoint = job.savepoint()
    before = digests(savepoint)
    job.finish(savepoint, uid="another", **{"execution.state-recovery.ignore-unclaimed-state": "true"})
    counts = Counter(committed_records(job.output))
    assert sorted({(key, number) for key, number, _ in counts}) == [
        (key, number) for key in range(KEYS) for number in range(RECORDS_PER_KEY)
    ], "the source resumes at its position"
    assert any(count == 1 for _, number, count in counts if number > 0), "the counts restart"
    assert digests(savepoint) == before


def test_uids_are_checked_before_anything_is_submitted(cluster: RunningCluster, tmp_path: Path) -> None:
    before = cluster.client.list_jobs()
    job = Job(cluster, tmp_path)
    with pytest.raises(FlinkError, match=r"count") as raised:
        job.build(sink_uid="count").execute("counting")
    assert "uid" in str(raised.value)
    with pytest.raises(FlinkError, match=r"pipeline\.auto-generate-uids") as raised:
        job.build(uid=None, **{"pipeline.auto-generate-uids": "false"}).execute("counting")
    assert "counter" in str(raised.value)
    assert cluster.client.list_jobs() == before


def test_the_error_names_a_directory_that_cannot_be_written_before_the_job_runs(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    job = Job(cluster, tmp_path)
    blocked = tmp_path / "a file"
    blocked.write_text("")
    with pytest.raises(JobExecutionError) as raised:
        job.build(**{"execution.checkpointing.dir": str(blocked / "checkpoints")}).execute("counting")
    assert_error(raised.value.cause, CheckpointStorageError, str(blocked / "checkpoints"))
    assert blocked.read_text() == "" and list(committed_records(job.output)) == []


class AppendInPlace(KeyedProcessFunction):
    """Changes the object that it got from state in place. Emits all numbers of the key as text."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def open(self, runtime_context: Any) -> None:
        self._numbers = runtime_context.get_state(ValueStateDescriptor("numbers", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._faults.hit("process")
        numbers = self._numbers.value()
        if numbers is None:
            numbers = []
        numbers.append(value[1])
        self._numbers.update(numbers)
        yield value[0], value[1], int(numbers == list(range(value[1] + 1)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_changing_a_state_object_in_place_does_not_change_a_snapshot(
    cluster: RunningCluster, tmp_path: Path, backend: str
) -> None:
    faults = Faults(tmp_path / "faults")
    faults.arm("process", "raise", 150, times=3)
    settings = {
        **RESTARTS,
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "state.backend.type": backend,
    }
    env = environment(cluster, 2, **settings)
    source = SequencePerKeySource(KEYS, 300, 2_000)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", pair)
    appended = numbers.key_by(lambda record: record[0], Types.LONG()).process(AppendInPlace(faults), TRIPLE)
    appended.sink_to(TwoPhaseSink(str(tmp_path / "output")))
    env.execute("appending")
    assert faults.fired("process") == 3
    expected = Counter((key, number, 1) for key in range(KEYS) for number in range(300))
    assert Counter(committed_records(tmp_path / "output")) == expected
