"""Damaged, missing and refused files of checkpoints are detected before use and reported, and no record is lost.

The tests trigger checkpoints themselves, so that they know the newest one when they damage a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import busy_task_executor, wait_until, wait_until_idle
from test_crash_points import EVERYTHING_IN_FILES, SOON
from test_killed_job_masters import leader_of
from verifying.harness import Run, VerifyingRuns, Workload
from verifying.two_phase_sink import writers_with_records

from flinkpy.common.errors import CheckpointError, CheckpointNotFoundError, CorruptStateError, JobExecutionError

WORKLOAD = Workload(keys=20, records_per_key=200, rate=600, waits_for_hurry=True)
HEAP = {"state.backend.type": "hashmap", "execution.checkpointing.data-inline-threshold": "0 b"}
BY_HAND = {"execution.checkpointing.interval": "1 h", "execution.checkpointing.num-retained": "3"}


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def remove(path: Path) -> None:
    path.unlink()


DAMAGES: list[Callable[[Path], None]] = [flip_a_bit, truncate, remove]


class Damage:
    """A running job whose checkpoints the test damages."""

    def __init__(self, runs: VerifyingRuns, run: Run) -> None:
        self._runs = runs
        self.run = run
        #: Output that was committed with checkpoints damaged later. It may be repeated.
        self.repeatable: Counter[Any] = Counter()
        #: Output that was committed with the checkpoint before.
        self._committed: Counter[Any] = Counter()
        #: Writers that ended with uncommitted records, because they or other tasks were killed.
        self._ended_writers: set[str] = set()

    @property
    def directory(self) -> Path:
        """The directory of the job's checkpoints."""
        return self._runs.checkpoints / self.run.job_id

    def take_checkpoint(self) -> int:
        """Takes a checkpoint when there are records to commit, waits for the commit, and returns its id."""
        output = self._runs.output
        wait_until(lambda: writers_with_records(output) - self._ended_writers, "records to commit")
        before = Counter(self._runs.read())
        checkpoint_id = wait_until(self._checkpoint_id, "tasks that can take a checkpoint")
        wait_until(lambda: Counter(self._runs.read()) > before, f"checkpoint {checkpoint_id} is committed")
        return checkpoint_id

    def _checkpoint_id(self) -> int | None:
        """Triggers a checkpoint and returns its id, or None if tasks are not ready yet."""
        try:
            return int(self.run.cluster.client.trigger_checkpoint(self.run.job_id).checkpoint_id)
        except CheckpointError as error:
            if "Not all required tasks are running" not in str(error):
                raise
            return None

    def take_last_whole(self) -> int:
        """Takes the last checkpoint that stays intact and returns its id."""
        checkpoint_id = self.take_checkpoint()
        self._committed = Counter(self._runs.read())
        return checkpoint_id

    def take_two(self) -> tuple[int, int]:
        """Takes an intact checkpoint and one that the test damages."""
        return self.take_last_whole(), self.take_checkpoint()

    def files_of(self, checkpoint_id: int) -> list[Path]:
        """Returns the files of the checkpoint itself, without `_metadata`."""
        directory = self.directory / f"chk-{checkpoint_id}"
        return sorted(path for path in directory.iterdir() if path.name != "_metadata")

    def wait_until_restored(self, checkpoint_id: int) -> None:
        def restored() -> int:
            try:
                return int(self.run.statistics().latest_restored.checkpoint_id)
            except Exception:  # noqa: BLE001 - whatever a client may hear while services come back
                return 0

        wait_until(lambda: restored() == checkpoint_id, f"the job resumes from checkpoint {checkpoint_id}")
        # Commits of the damaged checkpoint may be late, but all are done by now. Later commits belong to the next
        # checkpoint.
        self.repeatable += Counter(self._runs.read()) - self._committed

    def assert_told(self, path: Path, checkpoint_id: int) -> None:
        """Waits for an error of the JobMaster that names the file and the checkpoint. It is in the Dispatcher's log."""

        def lines() -> list[str]:
            log = self.run.cluster.log("dispatcher").splitlines()
            return [line for line in log if " ERROR " in line and str(path) in line and f"{checkpoint_id}" in line]

        wait_until(lines, f"an error names {path}")

    def kill_job_master(self) -> None:
        pid = leader_of(self.run.cluster, self.run.job_id)
        os.kill(pid, signal.SIGKILL)
        self._ended_writers = writers_with_records(self._runs.output)

    def kill_task_executor(self) -> None:
        os.kill(busy_task_executor(self.run.cluster, self.run.job_id), signal.SIGKILL)
        self._ended_writers = writers_with_records(self._runs.output)

    def assert_nothing_lost(self) -> None:
        """Checks after the end of the job that only output committed for damaged checkpoints is repeated."""
        committed = Counter(self._runs.read())
        missing = self._runs.expected - committed
        assert not missing, f"{missing.total()} records are lost: {missing.most_common(5)}"
        repeated = committed - self._runs.expected - self.repeatable
        assert not repeated, f"repeated without a reason: {repeated.most_common(5)}"


@contextlib.contextmanager
def damaged_job(
    start_cluster: StartCluster, tmp_path: Path, backend: dict[str, str], **settings: str
) -> Iterator[Damage]:
    cluster = start_cluster(2, properties=SOON, restart_services=True)
    runs = VerifyingRuns(cluster, tmp_path, WORKLOAD, may_repeat=True)
    with runs.started(**{**BY_HAND, **backend, **settings}) as run:
        wait_until(lambda: all_tasks_run(run), "all tasks run")
        damage = Damage(runs, run)
        yield damage
        run.hurry()
        run.wait_for_end()
    damage.assert_nothing_lost()


def all_tasks_run(run: Run) -> bool:
    details = run.cluster.client.request_job(run.job_id)
    return all(vertex.tasks_per_state.get("RUNNING", 0) == vertex.parallelism for vertex in details.vertices)


def test_a_job_resumes_from_the_checkpoint_before_one_with_damaged_metadata(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    with damaged_job(start_cluster, tmp_path, HEAP) as damage:
        for break_file in DAMAGES:
            older, newest = damage.take_two()
            path = damage.directory / f"chk-{newest}" / "_metadata"
            break_file(path)
            damage.kill_job_master()
            damage.wait_until_restored(older)
            damage.assert_told(path.parent, newest)
            assert path.parent.exists(), "the damaged checkpoint is kept for analysis"


@pytest.mark.chaos
@pytest.mark.parametrize("backend", [pytest.param(HEAP, id="heap"), pytest.param(EVERYTHING_IN_FILES, id="rocksdb")])
def test_a_job_resumes_from_the_checkpoint_before_one_with_damaged_state(
    start_cluster: StartCluster, tmp_path: Path, backend: dict[str, str]
) -> None:
    """The JobMaster detects short and missing files. The task that reads a file detects a flipped bit."""
    with damaged_job(start_cluster, tmp_path, backend) as damage:
        for break_file in DAMAGES:
            older, newest = damage.take_two()
            path = damage.files_of(newest)[0]
            break_file(path)
            damage.kill_job_master()
            damage.wait_until_restored(older)
            damage.assert_told(path, newest)


@pytest.mark.parametrize(
    "backend",
    [pytest.param(HEAP, id="heap", marks=pytest.mark.chaos), pytest.param(EVERYTHING_IN_FILES, id="rocksdb")],
)
def test_tasks_that_find_their_state_damaged_resume_from_an_older_checkpoint(
    start_cluster: StartCluster, tmp_path: Path, backend: dict[str, str]
) -> None:
    with damaged_job(start_cluster, tmp_path, backend) as damage:
        for break_file in DAMAGES:
            older, newest = damage.take_two()
            path = damage.files_of(newest)[0]
            break_file(path)
            damage.kill_task_executor()
            damage.wait_until_restored(older)
            damage.assert_told(path, newest)
            history = damage.run.cluster.client.request_job(damage.run.job_id).exception_history
            assert any(str(path) in entry.error.message for entry in history), "the exception history names the file"


def test_a_damaged_shared_file_invalidates_every_checkpoint_that_needs_it(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    with damaged_job(start_cluster, tmp_path, EVERYTHING_IN_FILES) as damage:
        older, shared = damage.take_last_whole(), damage.directory / "shared"
        before = set(shared.iterdir())
        damage.take_checkpoint()
        new = min(set(shared.iterdir()) - before)
        newest = damage.take_checkpoint()
        flip_a_bit(new)
        damage.kill_task_executor()
        damage.wait_until_restored(older)
        damage.assert_told(new, newest)


def test_a_job_without_an_intact_checkpoint_fails_and_deletes_none(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(2, properties=SOON, restart_services=True)
    runs = VerifyingRuns(cluster, tmp_path, WORKLOAD)
    retained = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    with runs.started(**{**BY_HAND, **HEAP, **retained}) as run:
        wait_until(lambda: all_tasks_run(run), "all tasks run")
        damage = Damage(runs, run)
        for _ in range(2):
            flip_a_bit(damage.files_of(damage.take_checkpoint())[0])
        before = digests(damage.directory)
        damage.kill_task_executor()
        with pytest.raises(JobExecutionError, match=r"all checkpoints of job .* are damaged.*is damaged") as raised:
            run.wait_for_end()
        assert type(raised.value.cause) is CorruptStateError
    assert digests(damage.directory) == before


@pytest.mark.parametrize("file", ["_metadata", pytest.param("state", marks=pytest.mark.chaos)])
def test_the_error_names_a_damaged_savepoint_and_leaves_it_alone(
    cluster: RunningCluster, tmp_path: Path, file: str
) -> None:
    runs = VerifyingRuns(cluster, tmp_path, WORKLOAD)
    with runs.started(**{**BY_HAND, **HEAP}) as run:
        wait_until(lambda: all_tasks_run(run), "all tasks run")
        savepoint = Path(cluster.client.stop_with_savepoint(run.job_id, str(tmp_path / "savepoints")))
    names = sorted(path.name for path in savepoint.iterdir() if path.name != "_metadata")
    path = savepoint / (file if file == "_metadata" else names[0])
    whole = path.read_bytes()
    for break_file in DAMAGES:
        break_file(path)
        before = digests(savepoint)
        with (
            pytest.raises(JobExecutionError) as raised,
            runs.started(**{**BY_HAND, **HEAP, "execution.state-recovery.path": str(savepoint)}) as run,
        ):
            run.wait_for_end()
        assert str(savepoint if break_file is remove else path) in str(raised.value)
        missing_metadata = break_file is remove and file == "_metadata"
        assert type(raised.value.cause) is (CheckpointNotFoundError if missing_metadata else CorruptStateError)
        assert digests(savepoint) == before
        path.write_bytes(whole)
    wait_until_idle(cluster)
    run_from_savepoint(runs, savepoint)


def run_from_savepoint(runs: VerifyingRuns, savepoint: Path) -> None:
    """Runs a job from the savepoint, which must be intact and unchanged."""
    with runs.started(**{**HEAP, "execution.state-recovery.path": str(savepoint)}) as run:
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_a_full_disk_fails_checkpoints_until_there_is_space(
    start_cluster: StartCluster, tmp_path: Path, small_disk: Path
) -> None:
    cluster = start_cluster(2)
    runs = VerifyingRuns(cluster, tmp_path, WORKLOAD, checkpoints=small_disk / "checkpoints")
    settings = {**EVERYTHING_IN_FILES, "execution.checkpointing.tolerable-failed-checkpoints": "100000"}
    with runs.started(**settings) as run:
        run.wait_for_checkpoints(2)
        fill(small_disk)
        failed = wait_until(
            lambda: [one for one in run.statistics().history if "the disk is full" in one.failure.message],
            "checkpoints fail of the full disk",
        )
        assert str(small_disk) in failed[0].failure.message, "the message names the path"
        number = run.statistics().num_failed
        wait_until(lambda: run.statistics().num_failed > number, "one after the other fails")
        assert run.num_restarts == 0
        (small_disk / "ballast").unlink()
        run.wait_for_checkpoints(2)
        assert [path for path in small_disk.rglob("*.unfinished") if is_old(path, small_disk)] == []
        latest = run.statistics().latest_completed.checkpoint_id
        wait_until(
            lambda: incomplete(runs.checkpoints / run.job_id, latest) == [], "the failed checkpoints are deleted"
        )
        run.hurry()
        run.wait_for_end()
    assert run.num_restarts == 0
    runs.assert_exactly_once(run)
    # The JobMaster deletes them after it has reported the end of the job.
    wait_until(
        lambda: not any(path.is_file() for path in runs.checkpoints.rglob("*")), "all files of checkpoints are deleted"
    )


def fill(directory: Path) -> None:
    with contextlib.suppress(OSError), open(directory / "ballast", "wb", buffering=0) as file:
        while file.write(b"\0" * 4096):
            pass


def incomplete(directory: Path, latest: int) -> list[Path]:
    """Returns the directories of failed checkpoints before `latest`."""
    return [
        path for path in directory.glob("chk-*") if int(path.name[4:]) < latest and not (path / "_metadata").exists()
    ]


def is_old(path: Path, directory: Path) -> bool:
    """True if the path is older than the newest `_metadata`, so that no task is writing it."""
    newest = max((one.stat().st_mtime_ns for one in directory.rglob("_metadata")), default=0)
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime_ns < newest
    return False
