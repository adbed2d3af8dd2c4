"""Tracks the progress of the Spark jobs of a region."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

_LOG = logging.getLogger(__name__)

#: Metrics that `flinkpy info` shows.
WEB_URL = "sparkWebUrl"
OPERATORS = "sparkOperators"


@dataclass(frozen=True, slots=True)
class SparkProgress:
    """The progress of all Spark jobs of one attempt.

    Attributes:
        web_url: the address of Spark's web page; empty if there is none.
        operators: the place of each operator and the reason, as text. Empty until the region is translated.
    """

    jobs: tuple[int, ...] = ()
    stages: tuple[int, ...] = ()
    stages_done: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    input_bytes: int = 0
    output_rows: int = 0
    shuffle_bytes: int = 0
    web_url: str = ""
    operators: str = ""

    def __str__(self) -> str:
        text = f"{self.stages_done} of {len(self.stages)} stages, {self.tasks_done} of {self.tasks} tasks"
        return f"{text}, {self.tasks_failed} failed" if self.tasks_failed else text

    @property
    def lineage(self) -> str:
        """The numbers of the jobs and stages in Spark."""
        return f"Spark jobs {_numbers(self.jobs)}, stages {_numbers(self.stages)}"


@dataclass(frozen=True, slots=True)
class StageProgress:
    tasks: int
    done: int
    failed: int
    is_done: bool
    input_bytes: int = 0
    output_rows: int = 0
    shuffle_bytes: int = 0


class ProgressTracker:
    """Sums up the progress of stages. Thread: any.

    A Spark Connect server reports neither failed tasks nor rows. `add` takes what is known of them otherwise.
    """

    def __init__(self, task_name: str) -> None:
        self.now = SparkProgress()
        self._task_name = task_name
        self._stages: dict[int, StageProgress] = {}
        self._jobs: set[int] = set()
        self._failed = self._rows = 0
        self._lock = threading.Lock()

    def add(self, tasks_failed: int = 0, output_rows: int = 0) -> None:
        """Adds to the numbers of failed tasks and of rows, beside those of `update`."""
        with self._lock:
            self._failed += tasks_failed
            self._rows += output_rows
            self._sum_up()

    def describe(self, web_url: str, operators: str) -> None:
        """Sets what is known once the region is translated."""
        with self._lock:
            self.now = replace(self.now, web_url=web_url, operators=operators)

    def update(self, jobs: set[int], stages: dict[int, StageProgress]) -> None:
        with self._lock:
            before = self.now.stages_done
            self._jobs |= jobs
            self._stages.update(stages)
            self._sum_up()
            is_further = self.now.stages_done != before
        if is_further:
            _LOG.info("%s: %s", self._task_name, self.now)

    def _sum_up(self) -> None:
        known = self._stages.values()
        self.now = replace(
            self.now,
            jobs=tuple(sorted(self._jobs)),
            stages=tuple(sorted(self._stages)),
            stages_done=sum(stage.is_done for stage in known),
            tasks=sum(stage.tasks for stage in known),
            tasks_done=sum(stage.done for stage in known),
            tasks_failed=sum(stage.failed for stage in known) + self._failed,
            input_bytes=sum(stage.input_bytes for stage in known),
            output_rows=sum(stage.output_rows for stage in known) + self._rows,
            shuffle_bytes=sum(stage.shuffle_bytes for stage in known),
        )


class ProgressWatch(Protocol):
    """Updates a tracker. Created by the thread that starts the jobs; `look` is called by another thread."""

    def look(self) -> None: ...

    def may_have_retried(self) -> bool:
        """Returns False if every task has run exactly once. Thread: any."""
        ...

    def has_repeated_last_stage(self) -> bool:
        """Returns True if Spark is known to have repeated the last stage of a job, in which sinks are written."""
        ...

    def close(self) -> None: ...


class ClassicProgress:
    """Reads the progress from the status store of our own driver."""

    def __init__(self, context: Any, tag: str, tracker: ProgressTracker) -> None:
        self._context = context
        self._tag = tag
        self._tracker = tracker

    def look(self) -> None:
        """Updates the tracker. Raises the errors of py4j if the driver does not answer."""
        store = self._context._jsc.sc().statusStore()
        tracker = self._context._jsc.sc().statusTracker()
        jobs = set(tracker.getJobIdsForTag(self._tag))
        stages: dict[int, StageProgress] = {}
        for job in jobs:
            info = tracker.getJobInfo(job)
            if info.isEmpty():
                continue
            for stage in info.get().stageIds():
                # The store raises an exception for a stage that has not begun.
                found = None if tracker.getStageInfo(stage).isEmpty() else _stage_of(store, stage)
                if found is not None:
                    stages[stage] = found
        self._tracker.update(jobs, stages)

    def may_have_retried(self) -> bool:
        store = self._context._jsc.sc().statusStore()
        tracker = self._context._jsc.sc().statusTracker()
        for job in tracker.getJobIdsForTag(self._tag):
            info = tracker.getJobInfo(job)
            for stage in () if info.isEmpty() else info.get().stageIds():
                if tracker.getStageInfo(stage).isEmpty():
                    continue
                last = store.lastStageAttempt(stage)
                if last.attemptId() or last.numFailedTasks() or last.numKilledTasks():
                    return True
        return False

    def has_repeated_last_stage(self) -> bool:
        store = self._context._jsc.sc().statusStore()
        tracker = self._context._jsc.sc().statusTracker()
        for job in tracker.getJobIdsForTag(self._tag):
            info = tracker.getJobInfo(job)
            # A stage gets its number after the stages that it reads.
            last = max([] if info.isEmpty() else info.get().stageIds(), default=None)
            if last is None or tracker.getStageInfo(last).isEmpty():
                continue
            if store.lastStageAttempt(last).attemptId():
                return True
        return False

    def close(self) -> None:
        return


def _stage_of(store: Any, stage: int) -> StageProgress | None:
    """Returns the progress of a stage; None if it was skipped because its result existed."""
    data = store.lastStageAttempt(stage)
    status = data.status().toString()
    if status == "SKIPPED":
        return None
    return StageProgress(
        tasks=data.numTasks(),
        done=data.numCompleteTasks(),
        failed=data.numFailedTasks(),
        is_done=status == "COMPLETE",
        input_bytes=data.inputBytes(),
        output_rows=data.outputRecords(),
        shuffle_bytes=data.shuffleWriteBytes(),
    )


class ConnectProgress:
    """Receives the progress from a Spark Connect server, with the results of each operation."""

    def __init__(self, session: Any, tracker: ProgressTracker) -> None:
        self._session = session
        self._tracker = tracker
        self._owner = threading.get_ident()
        session.registerProgressHandler(self._on_progress)

    def _on_progress(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        if threading.get_ident() != self._owner:
            return  # an operation of another region in this session
        found = {
            stage.stage_id: StageProgress(
                tasks=stage.num_tasks,
                done=stage.num_completed_tasks,
                failed=0,
                is_done=stage.done,
                input_bytes=stage.num_bytes_read,
            )
            for stage in stages or ()
        }
        self._tracker.update(set(), found)

    def look(self) -> None:
        return

    def may_have_retried(self) -> bool:
        """Returns True, because a server does not report repeated tasks."""
        return True

    def has_repeated_last_stage(self) -> bool:
        """Returns False, because a server does not report repeated stages."""
        return False

    def close(self) -> None:
        self._session.removeProgressHandler(self._on_progress)


def register_gauges(group: Any, tracker: ProgressTracker) -> None:
    """Registers the progress as metrics of the task."""
    gauges: dict[str, Callable[[SparkProgress], int]] = {
        "sparkJobs": lambda now: len(now.jobs),
        "sparkStages": lambda now: len(now.stages),
        "sparkStagesDone": lambda now: now.stages_done,
        "sparkTasks": lambda now: now.tasks,
        "sparkTasksDone": lambda now: now.tasks_done,
        "sparkTasksFailed": lambda now: now.tasks_failed,
        "sparkInputBytes": lambda now: now.input_bytes,
        "sparkOutputRows": lambda now: now.output_rows,
        "sparkShuffleBytes": lambda now: now.shuffle_bytes,
    }
    for name, read in gauges.items():
        group.gauge(name, partial(_read, read, tracker))
    group.gauge(WEB_URL, lambda: tracker.now.web_url)
    group.gauge(OPERATORS, lambda: tracker.now.operators)


def _read(read: Callable[[SparkProgress], int], tracker: ProgressTracker) -> int:
    return read(tracker.now)


def _numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers)) or "unknown"
