"""The progress of Spark's jobs."""

from __future__ import annotations

import logging

import pytest

from flinkpy.spark.progress import ProgressTracker, StageProgress, register_gauges


class Gauges:
    def __init__(self) -> None:
        self.read: dict[str, object] = {}

    def gauge(self, name: str, function: object) -> None:
        self.read[name] = function


def test_stages_of_all_jobs_are_summed_and_the_latest_state_counts() -> None:
    tracker = ProgressTracker("Spark: Map (1/1)")
    tracker.update({4}, {7: StageProgress(2, 1, 0, False, input_bytes=10)})
    tracker.update({5}, {7: StageProgress(2, 2, 1, True, input_bytes=30), 8: StageProgress(3, 0, 0, False)})
    now = tracker.now
    assert (now.jobs, now.stages, now.stages_done) == ((4, 5), (7, 8), 1)
    assert (now.tasks, now.tasks_done, now.tasks_failed, now.input_bytes) == (5, 2, 1, 30)
    assert str(now) == "1 of 2 stages, 2 of 5 tasks, 1 failed"
    assert now.lineage == "Spark jobs 4, 5, stages 7, 8"


def test_metrics_show_the_latest_progress() -> None:
    tracker, gauges = ProgressTracker("task"), Gauges()
    register_gauges(gauges, tracker)
    tracker.update({1}, {1: StageProgress(4, 3, 0, False, output_rows=12)})
    values = {name: read() for name, read in gauges.read.items()}  # type: ignore[operator]
    assert values["sparkTasks"] == 4 and values["sparkTasksDone"] == 3 and values["sparkOutputRows"] == 12


def test_a_finished_stage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    tracker = ProgressTracker("Spark: Map (1/1)")
    with caplog.at_level(logging.INFO):
        tracker.update({1}, {1: StageProgress(1, 0, 0, False)})
        tracker.update({1}, {1: StageProgress(1, 1, 0, True)})
        tracker.update({1}, {1: StageProgress(1, 1, 0, True)})
    assert [record.message for record in caplog.records] == ["Spark: Map (1/1): 1 of 1 stages, 1 of 1 tasks"]


def test_figures_that_a_connect_server_does_not_report_are_added() -> None:
    tracker = ProgressTracker("task")
    tracker.update(set(), {1: StageProgress(4, 4, 0, True)})
    tracker.add(tasks_failed=2)
    tracker.add(output_rows=30)
    tracker.update(set(), {2: StageProgress(1, 1, 0, True)})
    assert (tracker.now.tasks_failed, tracker.now.output_rows, tracker.now.tasks) == (2, 30, 5)
