"""The objects of ended tasks are freed soon, and looking for them takes a small part of the time."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest
from virtual_time import LoopClock, run_on_virtual_time

from flinkpy.common.garbage_collector import YOUNG_THRESHOLD, tune_garbage_collector
from flinkpy.common.ids import JobID, JobMasterId
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.taskexecutor.garbage_collection import (
    MAX_COLLECTIONS,
    PAUSE_PER_COLLECTION,
    SETTLE_MS,
    EndedTaskCollector,
)
from flinkpy.taskexecutor.job_table import Job, JobTable


class ComputingClock(LoopClock):
    """The time of the loop, and the processor time that a test says was used."""

    used_ms = 0

    def thread_time_ns(self) -> int:
        return self.used_ms * 1_000_000


class Collections:
    """Counts collections; each takes `takes_ms` of processor time, and ten times as long."""

    def __init__(self, takes_ms: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.takes_ms = takes_ms
        self.at_ms: list[int] = []
        self.begin_ms = self.now_ms
        self.clock = ComputingClock(self.loop)
        self.collector = EndedTaskCollector(RpcEndpoint(self.loop, self.clock), self._collect)

    @property
    def now_ms(self) -> int:
        return round(self.loop.time() * 1000)

    def _collect(self) -> None:
        self.at_ms.append(self.now_ms - self.begin_ms)
        self.clock.used_ms += self.takes_ms
        self.loop.advance_by(self.takes_ms / 100)  # type: ignore[attr-defined]


def test_tasks_that_end_together_are_collected_once_they_have_settled() -> None:
    async def body() -> None:
        collections = Collections(takes_ms=0)
        for _ in range(10):
            collections.collector.on_task_ended()
        await asyncio.sleep(10)
        assert collections.at_ms == [SETTLE_MS]

    run_on_virtual_time(body)


def test_a_task_that_ends_after_a_collection_causes_another() -> None:
    async def body() -> None:
        collections = Collections(takes_ms=0)
        for _ in range(3):
            collections.collector.on_task_ended()
            await asyncio.sleep(1)
        assert collections.at_ms == [SETTLE_MS, 1_000 + SETTLE_MS, 2_000 + SETTLE_MS]

    run_on_virtual_time(body)


def test_collections_take_a_small_part_of_the_time_however_often_tasks_end() -> None:
    async def body() -> None:
        collections = Collections(takes_ms=50)
        for _ in range(600):
            collections.collector.on_task_ended()
            await asyncio.sleep(0.1)
        pauses = [later - earlier for earlier, later in zip(collections.at_ms, collections.at_ms[1:])]
        wall_ms = 10 * 50
        assert len(pauses) >= 20
        assert all(50 * PAUSE_PER_COLLECTION <= pause - wall_ms < 50 * PAUSE_PER_COLLECTION + 200 for pause in pauses)

    run_on_virtual_time(body)


class Task:
    """A task that a thread still references when it is reported as ended."""


def test_a_task_that_is_still_referenced_is_collected_later() -> None:
    async def body() -> None:
        collections = Collections(takes_ms=0)
        task = Task()
        collections.collector.on_task_ended(task)
        await asyncio.sleep(1)
        assert collections.at_ms == [100, 300, 700]
        del task
        await asyncio.sleep(10)
        assert collections.at_ms == [100, 300, 700, 1_500]

    run_on_virtual_time(body)


def test_collection_of_a_permanently_referenced_task_waits_for_the_end_of_another() -> None:
    async def body() -> None:
        collections = Collections(takes_ms=0)
        task = Task()
        collections.collector.on_task_ended(task)
        await asyncio.sleep(1_000)
        assert len(collections.at_ms) == MAX_COLLECTIONS
        collections.collector.on_task_ended(Task())
        await asyncio.sleep(1_000)
        assert len(collections.at_ms) == MAX_COLLECTIONS + 1
        del task

    run_on_virtual_time(body)


class Function:
    """A function that refers to itself, like the objects of a task."""

    def __init__(self) -> None:
        self.task = self


@pytest.fixture
def _collector_as_it_was() -> Iterator[None]:
    thresholds, is_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.collect()
    if is_frozen:
        gc.freeze()


@pytest.mark.usefixtures("_collector_as_it_was")
@pytest.mark.parametrize("freezes", [False, True])
def test_only_objects_from_before_the_first_job_are_frozen(freezes: bool) -> None:
    function = Function()
    reference = weakref.ref(function)
    tune_garbage_collector(freezes=freezes)
    assert gc.get_threshold()[0] == YOUNG_THRESHOLD
    del function
    gc.collect()
    assert (reference() is not None) == freezes


def test_a_job_table_counts_as_used_after_its_first_job() -> None:
    jobs: JobTable[None, None, None] = JobTable()
    assert jobs.is_unused
    job = Job[None, None, None](JobID("5f" * 16), "host:1", JobMasterId.generate(), None)
    jobs.add(job)
    jobs.remove(job.job_id)
    assert not jobs.is_unused
