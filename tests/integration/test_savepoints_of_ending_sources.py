"""Bounded sources end while savepoints are taken: no savepoint is refused, and no record is lost.

The sources end when a file appears, so that savepoints and ends coincide at many different moments.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import Gate, environment, wait_until
from verifying.committed_reader import CommittedReader
from verifying.sequence_source import SequencePerKeySource
from verifying.two_phase_sink import TwoPhaseSink, committed_records

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.states import JobState

NUM_ENDING = 4
KEYS, RECORDS_PER_KEY, RATE = 2, 40, 400
STAYING = NUM_ENDING
RECORD = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])

interval = pytest.mark.parametrize(
    "interval",
    [
        pytest.param("0", id="no-periodic-checkpoints", marks=pytest.mark.chaos),
        pytest.param("150 ms", id="periodic-checkpoints"),
    ],
)


class EndingSources:
    """A job whose sources end when their gates open, plus one source that ends last.

    Tasks that have no other input read every second source, so they end too.
    """

    def __init__(self, cluster: RunningCluster, directory: Path, interval: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.directory = directory
        self.interval = interval
        self.savepoints = str(directory / "savepoints")
        self.output = directory / "output"
        self.gates = [self._gate(number) for number in range(NUM_ENDING + 1)]
        self.expected = Counter(itertools.product(range(NUM_ENDING + 1), range(KEYS), range(RECORDS_PER_KEY)))

    def _gate(self, number: int) -> Gate:
        directory = self.directory / f"source-{number}"
        directory.mkdir()
        return Gate(directory)

    @contextmanager
    def running(self, savepoint: str | None = None) -> Iterator[str]:
        """Runs the job from its savepoint and reads its committed output. It must not restart."""
        settings = {
            "execution.checkpointing.interval": self.interval,
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            "execution.checkpointing.tolerable-failed-checkpoints": "0",
        }
        if savepoint is not None:
            settings["execution.state-recovery.path"] = savepoint
        env = environment(self.cluster, 2, **settings)
        streams = [self._stream(env, number) for number in range(NUM_ENDING + 1)]
        streams[0].union(*streams[1:]).sink_to(TwoPhaseSink(str(self.output))).uid("sink")
        with CommittedReader(lambda: committed_records(self.output), self.expected) as reader:
            self.reader = reader
            job_id = str(env.execute_async("ending sources").get_job_id())
            wait_until(lambda: self._states(job_id) <= {"RUNNING", "FINISHED"}, "every task runs")
            try:
                yield job_id
            finally:
                if not self.client.request_job_status(job_id).is_globally_terminal:
                    self.client.cancel_job(job_id)
                wait_until(lambda: self.client.request_job_status(job_id).is_globally_terminal, "the job ends")

    def _stream(self, env: Any, number: int) -> Any:
        source = SequencePerKeySource(KEYS, RECORDS_PER_KEY, RATE, self.gates[number].path)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), f"source {number}").uid(f"source-{number}")
        stream = stream.set_parallelism(1 if number < STAYING else 2)
        if number % 2:
            stream = stream.rebalance()
        mapped = stream.map(lambda record: (number, record[0], record[1]), RECORD).uid(f"map-{number}")
        return mapped if number % 2 else mapped.set_parallelism(1).rebalance()

    def _states(self, job_id: str) -> set[str]:
        return {state for vertex in self._vertices(job_id) for state in vertex.tasks_per_state}

    def _vertices(self, job_id: str) -> Any:
        return self.client.request_job(job_id).vertices

    def end(self, number: int) -> None:
        self.gates[number].open()

    def wait_for_end_of(self, job_id: str, number: int) -> None:
        name = f"source {number}"
        wait_until(
            lambda: any(
                set(vertex.tasks_per_state) == {"FINISHED"} for vertex in self._vertices(job_id) if name in vertex.name
            ),
            f"{name} has finished",
        )

    def wait_for_job(self, job_id: str) -> None:
        wait_until(lambda: self.client.request_job_status(job_id).is_globally_terminal, "the job ends")
        assert self.client.request_job_status(job_id) is JobState.FINISHED


class AgainAndAgain:
    """Repeats an operation without a pause until it is stopped or the operation is refused."""

    def __init__(self, *operations: Any) -> None:
        self._operations = itertools.cycle(operations)
        self.results: list[Any] = []
        self.error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="again and again", daemon=True)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self.results.append(next(self._operations)())
        except Exception as error:  # noqa: BLE001 - raised in the thread of the test
            self.error = error

    def wait_for(self, more: int) -> None:
        wanted = len(self.results) + more
        wait_until(lambda: self.error is not None or len(self.results) >= wanted, f"{more} more results")
        if self.error is not None:
            raise self.error

    def __enter__(self) -> AgainAndAgain:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._thread.join()
        if self.error is not None:
            raise self.error


@interval
def test_savepoints_and_checkpoints_are_taken_while_sources_end(
    cluster: RunningCluster, tmp_path: Path, interval: str
) -> None:
    job = EndingSources(cluster, tmp_path, interval)
    with job.running() as job_id:
        savepoint = lambda: job.client.trigger_savepoint(job_id, job.savepoints)  # noqa: E731
        checkpoint = lambda: job.client.trigger_checkpoint(job_id)  # noqa: E731
        with AgainAndAgain(savepoint, checkpoint) as operations, AgainAndAgain(savepoint) as savepoints:
            for number in range(NUM_ENDING):
                operations.wait_for(1)
                job.end(number)
                if interval == "0":  # otherwise it waits for the others and for the final checkpoint
                    job.wait_for_end_of(job_id, number)
            operations.wait_for(2)
            savepoints.wait_for(1)
        latest = savepoint()  # nothing is committed after this savepoint
        assert job.client.request_job(job_id).num_restarts == 0
    job.end(STAYING)
    if interval == "0":
        with job.running(latest) as job_id:
            job.wait_for_job(job_id)
        job.reader.assert_complete()


@interval
def test_stop_with_savepoint_succeeds_while_a_source_ends_and_the_job_resumes_from_it(
    cluster: RunningCluster, tmp_path: Path, interval: str
) -> None:
    job = EndingSources(cluster, tmp_path, interval)
    savepoint = None
    for number in range(NUM_ENDING):
        with job.running(savepoint) as job_id:
            job.end(number)
            savepoint = job.client.stop_with_savepoint(job_id, job.savepoints)
            assert job.client.request_job_status(job_id) is JobState.FINISHED
    job.end(STAYING)
    with job.running(savepoint) as job_id:
        job.wait_for_job(job_id)
    job.reader.assert_complete()


def test_stop_with_drain_succeeds_while_sources_end(cluster: RunningCluster, tmp_path: Path) -> None:
    job = EndingSources(cluster, tmp_path, "0")
    with job.running() as job_id:
        for number in range(NUM_ENDING - 1):
            job.end(number)
        job.wait_for_end_of(job_id, 0)
        job.end(NUM_ENDING - 1)
        job.client.stop_with_savepoint(job_id, job.savepoints, drain=True)
        assert job.client.request_job_status(job_id) is JobState.FINISHED
