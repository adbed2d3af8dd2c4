"""JobMeter: turns successive snapshots of a job into its progress: rates, ratios and the remaining time. Pure.

The display of `flinkpy run` and `flinkpy top` use it. The services report totals once a second, so rates are means over
the last seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2, job_pb2

#: Rates are means over this time. Totals arrive once a second, so a shorter time would make rates jump.
RATE_WINDOW_S = 5.0
#: Shortest time for a rate. Two reports of a task may be a second apart.
MIN_RATE_S = 1.0
#: Splits that must be finished before the remaining time is estimated. One split says little about the others.
MIN_FINISHED_SPLITS = 2
#: Part of the work that must be done before the remaining time is estimated. Before, the start of the job counts most.
MIN_FRACTION = 0.02


@dataclass(frozen=True, slots=True)
class VertexTotals:
    """Totals of one vertex over its subtasks at one time."""

    id: str
    name: str
    parallelism: int
    tasks_per_state: Mapping[str, int]
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy_ms: int = 0
    idle_ms: int = 0
    back_pressured_ms: int = 0
    #: The vertices whose records this one reads.
    inputs: tuple[str, ...] = ()
    #: Splits of the sources of the vertex: all of them and those not yet read to their end. None: not known.
    num_splits: int | None = None
    num_splits_left: int | None = None

    @property
    def num_started(self) -> int:
        """Subtasks that run or have finished."""
        return self.tasks_per_state.get("RUNNING", 0) + self.tasks_per_state.get("FINISHED", 0)


@dataclass(frozen=True, slots=True)
class VertexProgress:
    """A vertex with its rates. A rate or ratio is None as long as it is not known."""

    totals: VertexTotals
    records_in_per_s: float | None = None
    records_out_per_s: float | None = None
    bytes_out_per_s: float | None = None
    #: Parts of the time of the tasks, from 0 to 1.
    busy: float | None = None
    back_pressured: float | None = None


@dataclass(frozen=True, slots=True)
class CheckpointProgress:
    """The checkpoints of a job so far."""

    num_completed: int = 0
    num_failed: int = 0
    num_in_progress: int = 0
    last_duration_ms: int | None = None
    last_size_bytes: int | None = None
    last_end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job at one time."""

    job_id: str
    name: str
    status: JobState
    elapsed_ms: int
    vertices: tuple[VertexProgress, ...]
    num_restarts: int = 0
    checkpoints: CheckpointProgress = CheckpointProgress()
    #: Part of the work that is done, from 0 to 1, and the remaining time. None: not known.
    fraction: float | None = None
    remaining_ms: int | None = None
    num_slots_required: int = 0
    num_slots_held: int = 0


def vertex_totals(vertex: job_pb2.VertexDetails) -> VertexTotals:
    """Returns the totals that the details of a job have for one vertex."""
    metrics = vertex.metrics
    return VertexTotals(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        tasks_per_state=dict(vertex.tasks_per_state),
        records_in=metrics.num_records_in,
        records_out=metrics.num_records_out,
        bytes_in=metrics.num_bytes_in,
        bytes_out=metrics.num_bytes_out,
        busy_ms=metrics.busy_time_ms,
        idle_ms=metrics.idle_time_ms,
        back_pressured_ms=metrics.back_pressured_time_ms,
        inputs=tuple(one.vertex_id for operator in vertex.operators for one in operator.inputs if one.vertex_id),
        num_splits=vertex.splits.num_splits if vertex.HasField("splits") else None,
        num_splits_left=vertex.splits.num_left if vertex.HasField("splits") else None,
    )


def checkpoint_progress(statistics: checkpoint_pb2.CheckpointStatisticsResponse | None) -> CheckpointProgress:
    """Returns a summary of the checkpoint statistics of a job."""
    if statistics is None:
        return CheckpointProgress()
    latest = statistics.latest_completed if statistics.HasField("latest_completed") else None
    return CheckpointProgress(
        num_completed=statistics.num_completed,
        num_failed=statistics.num_failed,
        num_in_progress=statistics.num_in_progress,
        last_duration_ms=None if latest is None else latest.end_timestamp_ms - latest.trigger_timestamp_ms,
        last_size_bytes=None if latest is None else latest.state_size_bytes,
        last_end_ms=None if latest is None else latest.end_timestamp_ms,
    )


class JobMeter:
    """Computes the progress of one job from snapshots of its totals, in the order of their times."""

    def __init__(self) -> None:
        self._vertices: dict[str, deque[tuple[float, VertexTotals]]] = {}

    def on_details(
        self,
        details: job_pb2.JobDetails,
        statistics: checkpoint_pb2.CheckpointStatisticsResponse | None,
        *,
        now_s: float,
        now_ms: int,
    ) -> JobProgress:
        """Returns the progress after new details.

        Args:
            details: what the cluster says of the job.
            statistics: the same of its checkpoints; None if not known.
            now_s: a monotonic time.
            now_ms: the time of day.
        """
        status = JobState(details.status) if details.status else JobState.INITIALIZING
        totals = [vertex_totals(vertex) for vertex in details.vertices]
        end_ms = details.end_time_ms if details.end_time_ms > 0 else now_ms
        elapsed_ms = max(0, end_ms - details.start_time_ms) if details.start_time_ms > 0 else 0
        # Stages that have not begun take a time that nobody knows.
        is_waiting = details.is_batch and any(one.num_started < max(one.parallelism, 1) for one in totals)
        fraction = None if is_waiting else done_fraction(totals)
        return JobProgress(
            job_id=details.job_id,
            name=details.name,
            status=status,
            elapsed_ms=elapsed_ms,
            vertices=tuple(self.on_totals(one, now_s) for one in totals),
            num_restarts=details.num_restarts,
            checkpoints=checkpoint_progress(statistics),
            fraction=fraction,
            remaining_ms=remaining_ms(fraction, elapsed_ms) if status is JobState.RUNNING else None,
            num_slots_required=details.num_slots_required,
            num_slots_held=details.num_slots_held,
        )

    def on_totals(self, totals: VertexTotals, now_s: float) -> VertexProgress:
        """Returns the rates of a vertex after new totals."""
        samples = self._vertices.setdefault(totals.id, deque())
        if samples and _has_restarted(samples[-1][1], totals):
            samples.clear()
        samples.append((now_s, totals))
        while len(samples) > 2 and now_s - samples[1][0] >= RATE_WINDOW_S:
            samples.popleft()
        first_s, first = samples[0]
        elapsed_s = now_s - first_s
        if elapsed_s < MIN_RATE_S:
            return VertexProgress(totals)
        busy = totals.busy_ms - first.busy_ms
        back_pressured = totals.back_pressured_ms - first.back_pressured_ms
        # The tasks report their three times together, so their sum is the time that the parts belong to.
        known_ms = busy + back_pressured + totals.idle_ms - first.idle_ms
        return VertexProgress(
            totals,
            records_in_per_s=(totals.records_in - first.records_in) / elapsed_s,
            records_out_per_s=(totals.records_out - first.records_out) / elapsed_s,
            bytes_out_per_s=(totals.bytes_out - first.bytes_out) / elapsed_s,
            busy=busy / known_ms if known_ms > 0 else None,
            back_pressured=back_pressured / known_ms if known_ms > 0 else None,
        )


def _has_restarted(before: VertexTotals, now: VertexTotals) -> bool:
    """True if a total became smaller: new attempts count from 0."""
    fields = ("records_in", "records_out", "bytes_out", "busy_ms", "idle_ms", "back_pressured_ms")
    return any(getattr(now, field) < getattr(before, field) for field in fields)


def done_fraction(totals: Sequence[VertexTotals]) -> float | None:
    """Returns the part of the work that is done, from 0 to 1, or None if it is not known.

    It is the part of the splits that the sources have read, times the part of these records that the slowest vertex
    has taken. Splits of several sources count alike. A source with one split per subtask has no estimate, because
    nothing is known about the inside of a split.
    """
    known = [one for one in totals if one.num_splits is not None and one.num_splits_left is not None]
    total = sum(one.num_splits or 0 for one in known)
    finished = total - sum(one.num_splits_left or 0 for one in known)
    if total == 0 or finished < MIN_FINISHED_SPLITS:
        return None
    taken: dict[str, float] = {}
    by_id = {one.id: one for one in totals}
    num_consumers = Counter(producer for one in totals for producer in one.inputs)
    for one in totals:  # producers come before their consumers
        producers = [by_id[producer] for producer in one.inputs if producer in by_id]
        sent = sum(producer.records_out for producer in producers)
        # If a producer sends to several vertices, its total does not tell what each of them is sent.
        is_comparable = sent > 0 and all(num_consumers[producer.id] == 1 for producer in producers)
        before = min((taken.get(producer.id, 1.0) for producer in producers), default=1.0)
        taken[one.id] = before * (min(1.0, one.records_in / sent) if is_comparable else 1.0)
    return finished / total * min(taken.values(), default=1.0)


def remaining_ms(fraction: float | None, elapsed_ms: int) -> int | None:
    """Returns the time until all is done, at the mean speed so far. None if that is not known."""
    if fraction is None or not MIN_FRACTION <= fraction < 1:
        return None
    return int(elapsed_ms * (1 - fraction) / fraction)
