"""JobSnapshot: what is known of a job at one moment, as `findings` needs it. Pure data.

Numbers that nobody has measured are None: a task that does not run has no metrics, and an operator without timers has
no next timer. Watermarks are None until the first one comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flinkpy.common.states import ExecutionState, JobState


@dataclass(frozen=True, slots=True)
class SplitSnapshot:
    """A split of a source, read by one subtask.

    Attributes:
        watermark: None if no watermark has been made from its records.
        is_idle: it does not hold the watermark back.
        is_paused: watermark alignment has paused it.
    """

    split_id: str
    watermark: int | None = None
    is_idle: bool = False
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class OperatorReading:
    """The metrics of one operator in one subtask.

    Attributes:
        is_output_idle: no operator downstream waits for its watermark.
        next_event_time: a time for which a timer or window waits.
        pending_records: the records that a source knows of and has not read.
        pending_committables: what a sink has written and not committed; None if its output is visible at once.
        alignment_drift_ms: how far a source is ahead of what watermark alignment allows; None without alignment.
        splits: the splits of a source with watermarks.
    """

    input_watermark: int | None = None
    output_watermark: int | None = None
    is_output_idle: bool = False
    records_in: int | None = None
    records_out: int | None = None
    records_out_per_s: float | None = None
    next_event_time: int | None = None
    late_records: int = 0
    skipped_records: int = 0
    pending_records: int | None = None
    pending_committables: int | None = None
    alignment_drift_ms: int | None = None
    splits: tuple[SplitSnapshot, ...] = ()


NO_READING = OperatorReading()


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """The current attempt of a subtask.

    Attributes:
        since_ms: when it got its state.
        busy: the share of the last minute in which it was busy, from 0 to 1; likewise `idle` and `back_pressured`.
        records_out_per_s: over the last minute.
        operators: by operator id.
    """

    index: int
    state: ExecutionState = ExecutionState.RUNNING
    since_ms: int = 0
    resource_id: str = ""
    busy: float | None = None
    idle: float | None = None
    back_pressured: float | None = None
    records_in: int | None = None
    records_out: int | None = None
    records_out_per_s: float | None = None
    operators: Mapping[str, OperatorReading] = field(default_factory=dict)

    def reading(self, operator_id: str) -> OperatorReading:
        return self.operators.get(operator_id, NO_READING)


@dataclass(frozen=True, slots=True)
class InputSnapshot:
    """An input of an operator. `vertex_id` is empty if the producer is in the same chain."""

    operator_id: str
    vertex_id: str = ""
    ship_strategy: str = "FORWARD"


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    operator_id: str
    name: str
    inputs: tuple[InputSnapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class VertexSnapshot:
    """A vertex. Its operators are in the order of the chain, its subtasks in the order of their indexes."""

    vertex_id: str
    name: str
    operators: tuple[OperatorSnapshot, ...] = ()
    subtasks: tuple[SubtaskSnapshot, ...] = ()

    @property
    def is_source(self) -> bool:
        return not any(one.vertex_id for operator in self.operators for one in operator.inputs)

    @property
    def running(self) -> list[SubtaskSnapshot]:
        return [subtask for subtask in self.subtasks if subtask.state is ExecutionState.RUNNING]

    def inputs(self) -> Iterator[InputSnapshot]:
        """Yields the inputs from other vertices."""
        return (one for operator in self.operators for one in operator.inputs if one.vertex_id)


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A checkpoint in progress. `missing` has the subtasks that have not acknowledged it, by the id of their vertex."""

    checkpoint_id: int
    since_ms: int
    missing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointsSnapshot:
    """The checkpoints of a job.

    Attributes:
        interval_ms: 0 without periodic checkpoints.
        num_failed_since: the checkpoints that have failed since the last complete one.
        last_failure: the reason of the last failure among these.
        last_completed_ms: None if none has completed.
    """

    interval_ms: int = 0
    num_completed: int = 0
    num_failed_since: int = 0
    last_failure: str = ""
    last_completed_ms: int | None = None
    pending: PendingCheckpoint | None = None


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job that has not ended.

    Attributes:
        since_ms: when the job got its state.
        last_failure: the last failure in one line, with the task; empty if there was none.
        num_unanswered: the TaskExecutors that did not tell their metrics.
    """

    now_ms: int
    state: JobState = JobState.RUNNING
    since_ms: int = 0
    is_batch: bool = False
    num_restarts: int = 0
    last_failure: str = ""
    num_slots_required: int = 0
    num_slots_held: int = 0
    num_unanswered: int = 0
    vertices: tuple[VertexSnapshot, ...] = ()
    checkpoints: CheckpointsSnapshot = CheckpointsSnapshot()

    def vertex(self, vertex_id: str) -> VertexSnapshot:
        return next(vertex for vertex in self.vertices if vertex.vertex_id == vertex_id)
