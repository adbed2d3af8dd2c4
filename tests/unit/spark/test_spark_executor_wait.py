"""A region that waits for Spark's executors says so, once and then at growing intervals."""

from __future__ import annotations

from flinkpy.spark.executor_wait import ExecutorWait
from flinkpy.spark.region_process import RegionStatus


def lines_of(wait: ExecutorWait, seconds: range, num_executors: int | None = 0, num_tasks: int = 4) -> list[int]:
    """Returns the seconds at which there is a line to log."""
    return [second for second in seconds if wait.update(float(second), num_executors, num_tasks)]


def test_the_intervals_between_lines_grow() -> None:
    assert lines_of(ExecutorWait(), range(400)) == [5, 15, 35, 75, 155, 315]


def test_the_line_tells_the_time_and_the_tasks() -> None:
    wait = ExecutorWait()
    assert wait.update(10.0, 0, 3) == ""
    line = wait.update(17.0, 0, 3)
    assert line.startswith("has waited 7 s for executors") and line.endswith("3 tasks wait")
    assert wait.waited_ms(17.0) == 7_000


def test_the_end_of_a_reported_wait_is_reported() -> None:
    wait = ExecutorWait()
    assert lines_of(wait, range(6)) == [5]
    assert wait.update(9.0, 2, 3) == "got executors after 9 s"
    assert wait.waited_ms(9.0) == 0
    assert lines_of(wait, range(100, 110)) == [105], "the next wait begins anew"


def test_a_short_wait_is_not_reported() -> None:
    wait = ExecutorWait()
    assert lines_of(wait, range(4)) == []
    assert wait.update(4.0, 1, 3) == ""


def test_a_region_without_open_tasks_does_not_wait() -> None:
    assert lines_of(ExecutorWait(), range(100), num_tasks=0) == []


def test_a_master_without_executors_of_its_own_is_not_waited_for() -> None:
    assert lines_of(ExecutorWait(), range(100), num_executors=None) == []


def test_metrics_show_the_waits() -> None:
    now = [0.0]
    status = RegionStatus(lambda: now[0])
    status.wait_for_session()
    now[0] = 2.0
    status.wait_for_session()
    assert status.waiting_for_session_ms == 2_000
    status.on_session()
    assert status.waiting_for_session_ms == 0
    status.look(0, 2)
    now[0] = 3.5
    assert status.waiting_for_executors_ms == 1_500 and status.num_executors == 0
    status.look(2, 2)
    assert status.waiting_for_executors_ms == 0 and status.num_executors == 2
