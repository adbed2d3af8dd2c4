"""Runs the verifying job on a cluster while a test causes faults, and checks its committed output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters import RunningCluster
from job_support import environment, wait_until

from flinkpy.common.errors import JobTerminatedWithoutCancellationError
from flinkpy.common.states import JobState
from verifying.committed_reader import CommittedReader
from verifying.faults import Faults
from verifying.two_phase_sink import committed_records
from verifying.verifying_job import build, expected_output

#: Restarts at once without a relevant limit. The tests assert the number of restarts.
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "50 ms",
}


@dataclass(frozen=True)
class Workload:
    """The number of records and their rate, which make a job last for several checkpoints.

    Attributes:
        keys: the number of keys.
        records_per_key: the number of records of each key.
        rate: records per second that the source emits.
        waits_for_hurry: the job does not end before `Run.hurry`, and ends soon after it.
        slow_rate: records per second that the job processes, below `rate`, to keep data in flight.
    """

    keys: int = 20
    records_per_key: int = 200
    rate: int = 1_500
    waits_for_hurry: bool = False
    slow_rate: int | None = None


#: For tests that wait for an event while the job runs. Records are due for 40 s, so that the last fault of a test still
#: meets records on a busy machine. `Run.hurry` skips the rest of the wait.
UNTIL_HURRY = Workload(rate=100, waits_for_hurry=True)


class Run:
    """A submitted job."""

    def __init__(
        self, cluster: RunningCluster, client: Any, faults: Faults, reader: CommittedReader, hurry_path: Path
    ) -> None:
        self.cluster = cluster
        self.client = client
        self.faults = faults
        self.reader = reader
        self.hurry_path = hurry_path

    @property
    def job_id(self) -> str:
        return str(self.client.get_job_id())

    def statistics(self) -> Any:
        return self.cluster.client.request_checkpoint_statistics(self.job_id)

    def wait_for_checkpoints(self, more: int = 1) -> None:
        """Waits until `more` checkpoints complete. It also waits for an unreachable JobMaster to return."""
        wanted = self._completed() + more
        wait_until(lambda: self._completed() >= wanted, f"{more} more checkpoints")

    def wait_for_first_checkpoint(self) -> None:
        wait_until(lambda: self._completed() >= 1, "a checkpoint")

    def _completed(self) -> int:
        """Returns the id of the latest checkpoint. Ids survive the JobMaster, counts restart with each one."""
        try:
            return self.statistics().latest_completed.checkpoint_id
        except Exception as error:  # noqa: BLE001 - whatever a client may hear while services come back
            self.last_error = error
            return 0

    def wait_for_restarts(self, number: int) -> None:
        wait_until(lambda: self.num_restarts >= number, f"{number} restarts")

    @property
    def num_restarts(self) -> int:
        return self.cluster.client.request_job(self.job_id).num_restarts

    def end(self) -> None:
        """Cancels the job if it still runs, and waits for its end."""
        client = self.cluster.client
        try:
            client.cancel_job(self.job_id)
        except JobTerminatedWithoutCancellationError:
            return
        wait_until(lambda: client.request_job_status(self.job_id).is_globally_terminal, "the job ends")

    def hurry(self) -> None:
        """Lets the job end: no more faults will follow."""
        self.hurry_path.touch()

    def wait_for_end(self) -> None:
        """Waits until the job is FINISHED. Raises the error of a failed job."""
        self.client.get_job_execution_result().result()
        assert self.cluster.client.request_job_status(self.job_id) is JobState.FINISHED


class VerifyingRuns:
    """Runs a job several times with one common output. A later run may resume from a savepoint of an earlier one.

    Args:
        may_repeat: the job resumes from before the last committed checkpoint, so it may repeat output but lose nothing.
    """

    def __init__(
        self,
        cluster: RunningCluster,
        directory: Path,
        workload: Workload | None = None,
        *,
        checkpoints: Path | None = None,
        may_repeat: bool = False,
    ) -> None:
        self.may_repeat = may_repeat
        self.cluster = cluster
        self.directory = directory
        self.workload = workload or Workload()
        self.output = directory / "output"
        self.checkpoints = checkpoints or directory / "checkpoints"
        self.hurry_path = directory / "hurry"
        self.faults = Faults(directory / "faults")
        self.expected = expected_output(self.workload.keys, self.workload.records_per_key)

    def read(self) -> Any:
        return committed_records(self.output)

    @contextmanager
    def started(self, parallelism: int = 2, **properties: str) -> Iterator[Run]:
        """Runs the job. The end of the block ends it if it still runs, and checks what a reader saw."""
        settings = {
            **RESTARTS,
            "execution.checkpointing.interval": "150 ms",
            "execution.checkpointing.dir": str(self.checkpoints),
            **{key.replace("__", "."): value for key, value in properties.items()},
        }
        env = environment(self.cluster, parallelism, **settings)
        workload = self.workload
        build(
            env,
            self.output,
            self.faults,
            keys=workload.keys,
            records_per_key=workload.records_per_key,
            rate=workload.rate,
            hurry=self.hurry_path if workload.waits_for_hurry else None,
            slow_rate=workload.slow_rate,
        )
        with CommittedReader(self.read, self.expected, may_repeat=self.may_repeat) as reader:
            client = env.execute_async("verifying")
            run = Run(self.cluster, client, self.faults, reader, self.hurry_path)
            try:
                yield run
            finally:
                run.end()

    def assert_exactly_once(self, run: Run) -> None:
        """Checks the committed output. Call this after the block of the finished run."""
        run.reader.assert_complete()
