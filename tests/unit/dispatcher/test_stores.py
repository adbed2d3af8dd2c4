from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from dispatcher_fakes import JOB, OTHER_JOB, job_graph

from flinkpy._proto import common_pb2, job_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.durable_file import CorruptFileError, read_checksummed, write_checksummed
from flinkpy.common.errors import ConfigurationError
from flinkpy.common.ids import JobID
from flinkpy.common.working_directory import WorkingDirectory
from flinkpy.dispatcher.blob_server import BlobKeyError, BlobNotFoundError, BlobStore, BlobTooLargeError
from flinkpy.dispatcher.job_archive import JobArchive
from flinkpy.dispatcher.recovered_jobs import RecoveredJobs, recover
from flinkpy.highavailability.file_job_graph_store import FileJobGraphStore
from flinkpy.highavailability.file_job_result_store import FileJobResultStore
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories


def terminated(job_id: str, status: common_pb2.JobStatus = common_pb2.FINISHED) -> pb.JobTerminated:
    return pb.JobTerminated(
        job_id=job_id,
        result=job_pb2.JobResult(job_id=job_id, status=status),
        details=job_pb2.JobDetails(job_id=job_id),
    )


def test_a_checksummed_file_is_read_and_damage_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_checksummed(path, b"content")
    assert read_checksummed(path) == b"content"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptFileError, match="checksum"):
        read_checksummed(path)
    path.write_bytes(b"")
    with pytest.raises(CorruptFileError):
        read_checksummed(path)


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_checksummed(path, b"old")
    with pytest.raises(TypeError):
        write_checksummed(path, "not bytes")  # type: ignore[arg-type]
    assert read_checksummed(path) == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_stored_graph_survives_and_a_partly_written_one_does_not(tmp_path: Path) -> None:
    FileJobGraphStore(tmp_path).put(job_graph())
    (tmp_path / f"{OTHER_JOB}.jobgraph.1234.unfinished").write_bytes(b"half")
    store = FileJobGraphStore(tmp_path)
    assert store.job_ids() == [JobID(JOB)]
    assert store.recover(JobID(JOB)) == job_graph()
    store.remove(JobID(JOB))
    store.remove(JobID(JOB))
    assert list(tmp_path.iterdir()) == []


def test_a_result_is_dirty_until_it_is_marked_clean(tmp_path: Path) -> None:
    store = FileJobResultStore(tmp_path)
    store.create_dirty(terminated(JOB))
    assert store.contains(JobID(JOB)) and store.dirty_job_ids() == [JobID(JOB)] and store.clean_job_ids() == []
    store.mark_clean(JobID(JOB))
    store.mark_clean(JobID(JOB))
    assert store.contains(JobID(JOB)) and store.dirty_job_ids() == [] and store.clean_job_ids() == [JobID(JOB)]
    loaded = store.load(JobID(JOB))
    assert loaded is not None and loaded.result.status == common_pb2.FINISHED
    assert store.load(JobID(OTHER_JOB)) is None


def test_a_removed_result_is_forgotten_and_results_are_found_in_the_order_of_their_age(tmp_path: Path) -> None:
    store = FileJobResultStore(tmp_path)
    for number in range(3):
        job_id = f"{number:032x}"
        store.create_dirty(terminated(job_id))
        os.utime(tmp_path / f"{job_id}_DIRTY.result", (9 - number, 9 - number))
        store.mark_clean(JobID(job_id))
    store.remove(JobID(f"{1:032x}"))
    store.remove(JobID(f"{1:032x}"))
    assert [int(str(job_id), 16) for job_id in store.clean_job_ids()] == [2, 0]


def archive(store: FileJobResultStore, **bounds: int) -> JobArchive:
    return JobArchive(store, **{"max_entries": 10, "expiration_ms": 100, "cache_bytes": 1 << 20, **bounds})


def test_an_archive_drops_old_or_excess_results_but_keeps_their_ids(tmp_path: Path) -> None:
    kept = archive(FileJobResultStore(tmp_path), max_entries=2)
    assert kept.add(ended("a", 10)) == [] and kept.add(ended("b", 20)) == []
    assert kept.add(ended("c", 30)) == [JobID("a")]
    assert kept.expire(119) == []
    assert kept.expire(120) == [JobID("b")]
    assert [kept.contains(JobID(job)) for job in "abc"] == [False, False, True]
    assert [kept.was_forgotten(JobID(job)) for job in "abc"] == [True, True, False]


def test_an_archive_caches_few_results_and_reads_the_others_again(tmp_path: Path) -> None:
    store = FileJobResultStore(tmp_path)
    kept = archive(store, cache_bytes=1)
    for job in "ab":
        store.create_dirty(ended(job, 1))
        kept.add(ended(job, 1))
    assert kept.cached(JobID("a")) is None and kept.cached(JobID("b")) == ended("b", 1)
    assert kept.load(JobID("a")) == ended("a", 1)


def test_a_result_that_could_not_be_stored_is_never_dropped_from_memory(tmp_path: Path) -> None:
    kept = archive(FileJobResultStore(tmp_path), cache_bytes=1)
    kept.add(ended("a", 1), is_stored=False)
    kept.add(ended("b", 1))
    kept.add(ended("c", 1))
    assert kept.cached(JobID("a")) == ended("a", 1)


def ended(job_id: str, end_time_ms: int) -> pb.JobTerminated:
    message = terminated(job_id)
    message.details.end_time_ms = end_time_ms
    return message


@dataclass
class Stores:
    """A Dispatcher's stores in one directory, as it finds them when it starts."""

    root: Path

    def __post_init__(self) -> None:
        for name in ("graphs", "results", "recovery"):
            (self.root / name).mkdir(exist_ok=True)
        self.graphs = FileJobGraphStore(self.root / "graphs")
        self.results = FileJobResultStore(self.root / "results")
        self.directories = JobRecoveryDirectories(self.root / "recovery")

    def accept(self, job_id: str, created_ms: int = 7) -> None:
        self.directories.create(JobID(job_id))
        (self.directories.path_of(JobID(job_id)) / "pointers").write_text("checkpoint 1")
        self.graphs.put(job_graph(job_id, created_ms=created_ms))

    def recover(self) -> RecoveredJobs:
        return recover(self.graphs, self.results, self.directories, 99)

    @property
    def job_ids_with_directories(self) -> set[str]:
        return {path.name for path in (self.root / "recovery").iterdir()}


def test_jobs_without_a_result_are_recovered_in_order(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.accept(JOB, created_ms=20)
    stores.accept(OTHER_JOB, created_ms=10)

    for _ in range(2):  # a Dispatcher may die before it has done anything with them
        recovered = stores.recover()
        assert [graph.job_id for graph in recovered.unfinished] == [OTHER_JOB, JOB]
        assert recovered.ended == []
    assert stores.job_ids_with_directories == {JOB, OTHER_JOB}


def test_an_interrupted_clean_up_is_completed_and_the_job_does_not_run_again(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.accept(JOB)
    stores.results.create_dirty(terminated(JOB))
    stores.results.create_dirty(terminated(OTHER_JOB))
    stores.directories.create(JobID(OTHER_JOB))  # its graph had been removed already

    recovered = stores.recover()

    assert recovered.unfinished == []
    assert {found.job_id: found.result.status for found in recovered.ended} == {
        JOB: common_pb2.FINISHED,
        OTHER_JOB: common_pb2.FINISHED,
    }
    assert (stores.graphs.job_ids(), stores.results.dirty_job_ids()) == ([], [])
    assert stores.job_ids_with_directories == set()
    assert len(stores.recover().ended) == 2


def test_the_directory_of_a_job_that_was_never_stored_is_removed(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.directories.create(JobID(JOB))

    assert stores.recover() == RecoveredJobs([], [], [])
    assert stores.job_ids_with_directories == set()


def test_a_damaged_graph_or_result_affects_only_its_own_job(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.accept(JOB)
    stores.accept(OTHER_JOB)
    (tmp_path / "graphs" / f"{JOB}.jobgraph").write_bytes(b"garbage")
    (tmp_path / "results" / f"{'c' * 32}.result").write_bytes(b"garbage")

    recovered = stores.recover()

    assert [graph.job_id for graph in recovered.unfinished] == [OTHER_JOB]
    ended = {found.job_id: found.result for found in recovered.ended}
    assert {result.status for result in ended.values()} == {common_pb2.FAILED}
    assert ended[JOB].error.type == "CorruptFileError"
    assert set(ended) == {JOB, "c" * 32}
    assert [graph.job_id for graph in stores.recover().unfinished] == [OTHER_JOB]
    assert JOB in stores.job_ids_with_directories, "possibly its only checkpoint"


def test_a_blob_is_found_by_its_content(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, 1 << 20)
    key = store.put(b"x" * 600_000)
    assert store.put(b"x" * 600_000) == key
    assert store.get(key) == b"x" * 600_000
    assert store.get(store.put(b"")) == b""
    with pytest.raises(BlobNotFoundError):
        store.get("0" * 64)


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 65, "/" + "0" * 63, "0" * 64 + "\n"])
def test_an_invalid_key_never_becomes_a_path(tmp_path: Path, key: str) -> None:
    with pytest.raises(BlobKeyError):
        BlobStore(tmp_path, 10).path(key)


def test_a_blob_beyond_the_bound_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BlobTooLargeError, match=r"flinkpy\.blob\.max-size"):
        BlobStore(tmp_path, 10).put(b"x" * 11)
    assert list(tmp_path.iterdir()) == []


def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), BlobStore(tmp_path, 10).begin() as writer:
        writer.write(b"half")
        raise RuntimeError("the client is gone")
    assert list(tmp_path.iterdir()) == []


def test_a_blob_damaged_on_disk_is_detected(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, 100)
    key = store.put(b"content")
    store.path(key).write_bytes(b"c0ntent")
    with pytest.raises(CorruptFileError):
        store.get(key)


def test_a_temporary_working_directory_is_removed_with_its_owner(tmp_path: Path) -> None:
    directory = WorkingDirectory.open(None, str(tmp_path), "dispatcher")
    (directory.subdirectory("blobs") / "x").write_text("x")
    directory.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_a_killed_owner_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    living = WorkingDirectory.open(None, str(tmp_path), "dispatcher")
    abandoned = WorkingDirectory.open(None, str(tmp_path), "dispatcher")
    os.close(abandoned._lock)  # the action of the kernel for a killed process
    (tmp_path / f"flinkpy-dispatcher-{os.getuid()}-not ours").mkdir()
    third = WorkingDirectory.open(None, str(tmp_path), "dispatcher")
    assert living.path.exists() and third.path.exists() and not abandoned.path.exists()
    assert (tmp_path / f"flinkpy-dispatcher-{os.getuid()}-not ours").exists()
    living.close()
    third.close()


def test_a_configured_working_directory_is_kept_and_used_by_one_process(tmp_path: Path) -> None:
    first = WorkingDirectory.open(str(tmp_path), None, "dispatcher")
    with pytest.raises(ConfigurationError, match="in use by another process"):
        WorkingDirectory.open(str(tmp_path), None, "dispatcher")
    first.close()
    again = WorkingDirectory.open(str(tmp_path), None, "dispatcher")
    assert again.path == tmp_path / "dispatcher"
    again.close()
    assert again.path.exists()


def test_a_working_directory_that_cannot_be_created_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot use the working directory"):
        WorkingDirectory.open(str(tmp_path / "file"), None, "dispatcher")
