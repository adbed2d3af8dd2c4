"""ExecutionTimeBasedSlowTaskDetector: finds tasks that run much longer than other tasks of their vertex.

When a configured ratio of the tasks of a vertex has finished, the median of their times, times a multiplier, becomes
the baseline for the others. The baseline of a task with a larger input grows in proportion.

Source: org.apache.flink.runtime.scheduler.slowtaskdetector.ExecutionTimeBasedSlowTaskDetector. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median_low

from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex


@dataclass(frozen=True, slots=True)
class SlowTaskDetectorOptions:
    """The options of the detector. Defaults are Flink's."""

    check_interval_ms: int = 1_000
    baseline_lower_bound_ms: int = 60_000
    baseline_ratio: float = 0.75
    baseline_multiplier: float = 1.5


@dataclass(frozen=True, slots=True)
class SpeculativeExecutionOptions:
    """The options of speculative execution. Defaults are Flink's."""

    is_enabled: bool = False
    max_concurrent_executions: int = 2
    block_slow_node_duration_ms: int = 60_000
    detector: SlowTaskDetectorOptions = field(default_factory=SlowTaskDetectorOptions)


def slow_tasks(
    vertices: Iterable[ExecutionJobVertex], options: SlowTaskDetectorOptions, now_ms: int
) -> list[ExecutionVertex]:
    """Returns the tasks of these vertices all of whose attempts are slow."""
    return [task for vertex in vertices for task in _slow_tasks_of(vertex, options, now_ms)]


def _slow_tasks_of(vertex: ExecutionJobVertex, options: SlowTaskDetectorOptions, now_ms: int) -> list[ExecutionVertex]:
    finished = [task for task in vertex.task_vertices if task.current.state is ExecutionState.FINISHED]
    if not vertex.is_initialized:
        return []
    num_needed = max(1, math.ceil(vertex.parallelism * options.baseline_ratio))
    if len(finished) < num_needed or len(finished) == vertex.parallelism:
        return []
    finished.sort(key=lambda task: _running_time_ms(task.current, now_ms))
    typical = median_low([_running_time_ms(task.current, now_ms) for task in finished[:num_needed]])
    typical_bytes = median_low([input_bytes(task) for task in finished[:num_needed]])
    slow = []
    for task in vertex.task_vertices:
        if task.current.state is not ExecutionState.RUNNING:
            continue
        share = max(1.0, input_bytes(task) / typical_bytes) if typical_bytes else 1.0
        baseline_ms = max(typical * options.baseline_multiplier * share, options.baseline_lower_bound_ms)
        attempts = [task.current, *task.speculative]
        if all(_running_time_ms(attempt, now_ms) > baseline_ms for attempt in attempts):
            slow.append(task)
    return slow


def input_bytes(task: ExecutionVertex) -> int:
    """Returns the size in bytes of the blocking inputs of the task."""
    total = 0
    for gate in task.consumed:
        chosen = slice(gate.subpartition_index, gate.subpartition_index + gate.num_subpartitions)
        for partition in gate.partitions:
            sizes = partition.producer.current.result_bytes.get(str(partition.current_id), ())
            total += sum(sizes[chosen])
    return total


def _running_time_ms(attempt: Execution, now_ms: int) -> int:
    """Returns the time from the deployment to the end of the attempt, or until now. 0 if it is not deployed yet."""
    since_ms = attempt.state_timestamps.get(ExecutionState.DEPLOYING)
    if since_ms is None:
        return 0
    return attempt.state_timestamps.get(ExecutionState.FINISHED, now_ms) - since_ms
