"""Asynchronous functions on real clusters: failures during calls neither lose nor repeat output."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import environment, wait_for_state
from verifying.committed_reader import CommittedReader
from verifying.faults import Faults
from verifying.harness import RESTARTS, Run
from verifying.sequence_source import SequencePerKeySource
from verifying.two_phase_sink import TwoPhaseSink, committed_records

from flinkpy.common import Time, Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.states import JobState
from flinkpy.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy
from flinkpy.datastream.async_retry_predicates import empty_result_predicate

KEYS = 20
RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
ALIGNED = {"execution.checkpointing.unaligned.enabled": "false"}
UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}


class LookUp(AsyncFunction):
    """A call of random duration that fails when the test arms a fault."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    async def async_invoke(self, value: tuple[int, int]) -> list[Any]:
        await asyncio.sleep(random.random() / 50)
        self._faults.hit("call")
        return [("found", *value, value[0] * value[1])]


class Jobs:
    """Runs jobs one after the other. Their common output must be exactly once."""

    def __init__(
        self, cluster: RunningCluster, directory: Path, records_per_key: int = 150, *, keyed: bool = False
    ) -> None:
        self.keyed = keyed
        self.cluster = cluster
        self.directory = directory
        self.records_per_key = records_per_key
        self.output = directory / "output"
        self.hurry = directory / "hurry"
        self.faults = Faults(directory / "faults")
        numbers = range(records_per_key)
        self.expected = Counter(("found", key, number, key * number) for key in range(KEYS) for number in numbers)

    @contextmanager
    def started(
        self, *, ordered: bool = False, parallelism: int = 2, waits: bool = False, **properties: str
    ) -> Iterator[Run]:
        settings = {
            **RESTARTS,
            "execution.checkpointing.interval": "150 ms",
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            **properties,
        }
        env = environment(self.cluster, parallelism, **settings)
        source = SequencePerKeySource(KEYS, self.records_per_key, 1_200, self.hurry if waits else None)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        numbers = numbers.key_by("f0") if self.keyed else numbers.rebalance()
        wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
        found = wait(numbers, LookUp(self.faults), Time.seconds(60), 50, RECORD).uid("look-up")
        found.sink_to(TwoPhaseSink(str(self.output), self.faults)).uid("sink")
        with CommittedReader(lambda: committed_records(self.output), self.expected) as reader:
            run = Run(self.cluster, env.execute_async("look up"), self.faults, reader, self.hurry)
            try:
                yield run
            finally:
                run.end()


@pytest.mark.parametrize(
    ("ordered", "mode"),
    [
        pytest.param(True, ALIGNED, id="ordered-aligned"),
        pytest.param(False, UNALIGNED, id="unordered-unaligned"),
        pytest.param(True, UNALIGNED, id="ordered-unaligned", marks=pytest.mark.chaos),
        pytest.param(False, ALIGNED, id="unordered-aligned", marks=pytest.mark.chaos),
    ],
)
def test_a_task_executor_killed_during_calls_costs_nothing_but_time(
    start_cluster: StartCluster, tmp_path: Path, ordered: bool, mode: dict[str, str]
) -> None:
    jobs = Jobs(start_cluster(3), tmp_path)
    jobs.faults.arm("call", "kill", 700)
    with jobs.started(ordered=ordered, **mode) as run:
        run.wait_for_end()
    assert jobs.faults.fired("call") == 1
    assert run.num_restarts >= 1
    run.reader.assert_complete()


def test_a_call_that_raises_restarts_the_job_and_unfinished_calls_are_repeated(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    jobs = Jobs(cluster, tmp_path)
    jobs.faults.arm("call", "raise", 700)
    with jobs.started() as run:
        run.wait_for_end()
    assert jobs.faults.fired("call") == 1
    assert run.num_restarts >= 1
    run.reader.assert_complete()


@pytest.mark.parametrize(("before", "after"), [(2, 3), pytest.param(3, 1, marks=pytest.mark.chaos)])
def test_running_calls_are_redistributed_when_the_parallelism_changes(
    wide_cluster: RunningCluster, tmp_path: Path, before: int, after: int
) -> None:
    cluster = wide_cluster
    jobs = Jobs(cluster, tmp_path)
    with jobs.started(parallelism=before, waits=True) as run:
        run.wait_for_checkpoints(2)
        savepoint = cluster.client.stop_with_savepoint(run.job_id, str(tmp_path / "savepoints"))
    jobs.hurry.touch()
    with jobs.started(parallelism=after, **{"execution.state-recovery.path": savepoint}) as run:
        run.wait_for_end()
    run.reader.assert_complete()


@pytest.mark.parametrize(("before", "after"), [pytest.param(2, 3, marks=pytest.mark.chaos), (3, 1)])
def test_keyed_records_in_flight_are_redistributed_when_the_parallelism_changes(
    wide_cluster: RunningCluster, tmp_path: Path, before: int, after: int
) -> None:
    cluster = wide_cluster
    jobs = Jobs(cluster, tmp_path, keyed=True)
    retained = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    with jobs.started(parallelism=before, waits=True, **UNALIGNED, **retained) as run:
        run.wait_for_checkpoints(3)
        cluster.client.cancel_job(run.job_id)
        wait_for_state(cluster, run.job_id, JobState.CANCELED)
    checkpoints = tmp_path / "checkpoints" / run.job_id
    complete = [path for path in checkpoints.glob("chk-*") if (path / "_metadata").exists()]
    latest = str(max(complete, key=lambda path: int(path.name[4:])))
    jobs.hurry.touch()
    with jobs.started(parallelism=after, **UNALIGNED, **{"execution.state-recovery.path": latest}) as run:
        run.wait_for_end()
    run.reader.assert_complete()


def test_a_job_whose_calls_never_end_can_be_cancelled(shared_cluster: RunningCluster) -> None:
    class Never(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(3600)
            return []

    env = environment(shared_cluster, 2)
    AsyncDataStream.ordered_wait(env.from_sequence(1, 100_000), Never(), Time.seconds(0)).print()
    job_id = str(env.execute_async("never").get_job_id())
    wait_for_state(shared_cluster, job_id, JobState.RUNNING)
    shared_cluster.client.cancel_job(job_id)
    wait_for_state(shared_cluster, job_id, JobState.CANCELED)


class Answering(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(random.random() / 100)
        return [value * 2]


def test_ordered_results_keep_their_order_and_unordered_results_are_complete(shared_cluster: RunningCluster) -> None:
    for wait in (AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait):
        env = environment(shared_cluster, 1)
        doubled = wait(env.from_sequence(1, 500), Answering(), Time.seconds(30), 50, Types.LONG())
        results = list(doubled.execute_and_collect())
        assert sorted(results) == list(range(2, 1001, 2))
        assert wait is AsyncDataStream.unordered_wait or results == sorted(results)


def test_calls_are_retried_as_the_program_configures(shared_cluster: RunningCluster) -> None:
    class Moody(AsyncFunction):
        def open(self, runtime_context: Any) -> None:
            self.calls: Counter[int] = Counter()

        async def async_invoke(self, value: int) -> list[int]:
            self.calls[value] += 1
            if value == 3:
                await asyncio.sleep(3600)
            return [] if self.calls[value] < 3 else [value]

        def timeout(self, value: int) -> list[int]:
            return [-value]

    env = environment(shared_cluster, 1)
    strategy = AsyncRetryStrategy.fixed_delay(5, 10, empty_result_predicate, None)
    stream = AsyncDataStream.ordered_wait_with_retry(
        env.from_sequence(1, 5), Moody(), Time.seconds(3), strategy, 10, Types.LONG()
    )
    assert list(stream.execute_and_collect()) == [1, 2, -3, 4, 5]


def test_a_failing_program_shows_the_users_own_traceback_first(shared_cluster: RunningCluster) -> None:
    class Failing(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(0)
            return self.answer(value)

        def answer(self, value: int) -> list[int]:
            raise LookupError(f"nobody knows {value}")

    env = environment(shared_cluster, 1)
    AsyncDataStream.unordered_wait(env.from_sequence(7, 7), Failing(), Time.seconds(30)).print()
    with pytest.raises(JobExecutionError) as caught:
        env.execute()
    lines = str(caught.value).strip().splitlines()
    assert lines[0].startswith("Traceback")
    assert "in async_invoke" in lines[1]
    assert "LookupError: nobody knows 7" in lines
    assert any("during handling input '7'" in line for line in lines)
