"""many-tasks: one job of two vertices with hundreds of subtasks each, all-to-all, on this machine."""

from __future__ import annotations

import sys

from benchmarks.peers import run_program
from benchmarks.result import Result

#: Subtasks of each of the two vertices: the channels between them grow with the square.
SMALL, LARGE = 50, 300
TASK_EXECUTORS = 8
BAR_S = 20.0
BAR_BYTES = 500e6


def run() -> list[Result]:
    """Submission to all tasks RUNNING, the JobMaster's memory, and how both grow; bar: as the channels do."""
    small, large = run_program(
        sys.executable, "many_tasks_job.py", "--parallelism", SMALL, LARGE, "--task-executors", TASK_EXECUTORS
    )
    seconds, memory = large["seconds"], large["job_master_bytes"]
    channels = (LARGE / SMALL) ** 2
    grown_s, grown_bytes = seconds / small["seconds"], memory / small["job_master_bytes"]
    name = f"many-tasks {LARGE} x {LARGE}"
    largest_mb, cancel_s = large["task_executor_bytes"] / 1e6, large["cancel_seconds"]
    note = f"{TASK_EXECUTORS} TaskExecutors, {largest_mb:,.0f} MB the largest; cancel {cancel_s:.1f} s"
    grown = f"from {SMALL} to {LARGE} subtasks each"
    return [
        Result(f"{name} until RUNNING", seconds, BAR_S, "s", "the bar", BAR_S / seconds, 1.0, note),
        Result(f"{name} JobMaster", memory / 1e6, BAR_BYTES / 1e6, "MB", "the bar", BAR_BYTES / memory, 1.0),
        Result(f"{name} time grows", grown_s, channels, "x", "channels", channels / grown_s, 1.0, grown),
        Result(f"{name} memory grows", grown_bytes, channels, "x", "channels", channels / grown_bytes, 1.0, grown),
    ]
