"""PendingCheckpoint: a checkpoint that has begun and is not complete yet.

```
  PREPARING ---> SNAPSHOTTING_COORDINATORS ---> WAITING ---> FINALIZING ---> COMPLETED
      |                    |                       |             |
      +--------------------+-----------------------+-------------+--> ABORTED
```

PREPARING: its directories are being made. WAITING: tasks have been triggered, and acknowledge. FINALIZING: all tasks
have acknowledged, and the metadata is being written. From then on only the result of the writing decides.

Source: org.apache.flink.runtime.checkpoint.PendingCheckpoint. Pure.
"""

from __future__ import annotations

import enum
import hashlib
import platform
from dataclasses import dataclass, field

from flinkpy import __version__
from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_plan import CheckpointedVertex, CheckpointPlan, JobView
from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.checkpoint.coordinator.checkpoint_request_decider import CheckpointRequest
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorageLocation
from flinkpy.common.errors import InvalidTransitionError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID
from flinkpy.common.states import ExecutionState


class Phase(enum.Enum):
    PREPARING = enum.auto()
    SNAPSHOTTING_COORDINATORS = enum.auto()
    WAITING = enum.auto()
    FINALIZING = enum.auto()
    COMPLETED = enum.auto()
    ABORTED = enum.auto()

    @property
    def is_over(self) -> bool:
        return self in (Phase.COMPLETED, Phase.ABORTED)


_P = Phase
PHASE_TRANSITIONS: frozenset[tuple[Phase, Phase]] = frozenset(
    {
        (_P.PREPARING, _P.SNAPSHOTTING_COORDINATORS),
        (_P.SNAPSHOTTING_COORDINATORS, _P.WAITING),
        (_P.WAITING, _P.FINALIZING),
        (_P.FINALIZING, _P.COMPLETED),
        (_P.PREPARING, _P.ABORTED),
        (_P.SNAPSHOTTING_COORDINATORS, _P.ABORTED),
        (_P.WAITING, _P.ABORTED),
        (_P.FINALIZING, _P.ABORTED),
    }
)


class AckOutcome(enum.Enum):
    TAKEN = enum.auto()
    #: This attempt has acknowledged before; the message is a repetition.
    REPEATED = enum.auto()
    #: This attempt has no part in the checkpoint.
    FOREIGN = enum.auto()


@dataclass(frozen=True, slots=True)
class TaskAck:
    attempt: ExecutionAttemptID
    timestamp_ms: int
    state: pb.TaskStateSnapshot
    metrics: pb.CheckpointMetrics


@dataclass(slots=True)
class PendingCheckpoint:
    """A checkpoint in progress. Checkpoint ids are never used again.

    Invariant: each task to wait for is either in `acks` or in `missing`.
    """

    checkpoint_id: int
    properties: CheckpointProperties
    plan: CheckpointPlan
    triggered_ms: int
    deadline_ms: int
    request: CheckpointRequest
    phase: Phase = Phase.PREPARING
    #: The directories of the checkpoint, and the options for its tasks; None until the directories are made.
    location: CheckpointStorageLocation | None = None
    options: pb.CheckpointOptions | None = None
    acks: dict[ExecutionVertexID, TaskAck] = field(default_factory=dict)
    missing: set[ExecutionAttemptID] = field(default_factory=set)
    #: The states of the coordinators by operator id; None if a coordinator has no state.
    coordinator_states: dict[str, bytes | None] = field(default_factory=dict)
    #: Set when the checkpoint is being finalized.
    metadata: pb.CheckpointMetadata | None = None
    #: True until the TaskExecutors have answered the triggers. Coordinators send no events meanwhile.
    is_triggering: bool = True
    #: Attempts that finished before their acknowledgement arrived, and the time until which it may still arrive.
    finished_early: dict[ExecutionAttemptID, int] = field(default_factory=dict)
    #: Attempts that declined the checkpoint because they were ending. They have seen no barrier.
    closing: set[ExecutionAttemptID] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.missing.update(self.plan.tasks_to_wait_for)

    def enter(self, phase: Phase) -> None:
        """Raises: InvalidTransitionError."""
        if (self.phase, phase) not in PHASE_TRANSITIONS:
            raise InvalidTransitionError(
                f"checkpoint {self.checkpoint_id} cannot go from {self.phase.name} to {phase.name}"
            )
        self.phase = phase

    @property
    def trigger_id(self) -> str:
        return self.request.trigger_id

    @property
    def are_tasks_triggered(self) -> bool:
        """True if tasks may know of the checkpoint."""
        return self.phase in (Phase.WAITING, Phase.FINALIZING)

    @property
    def is_fully_acknowledged(self) -> bool:
        return self.phase is Phase.WAITING and not self.missing

    def acknowledge(
        self, attempt: ExecutionAttemptID, state: pb.TaskStateSnapshot, metrics: pb.CheckpointMetrics, now_ms: int
    ) -> AckOutcome:
        taken = self.acks.get(attempt.vertex)
        if taken is not None and taken.attempt == attempt:
            return AckOutcome.REPEATED
        if attempt not in self.missing or self.phase is not Phase.WAITING:
            return AckOutcome.FOREIGN
        self.missing.remove(attempt)
        self.finished_early.pop(attempt, None)
        self.acks[attempt.vertex] = TaskAck(attempt, now_ms, state, metrics)
        return AckOutcome.TAKEN

    def leave_out_finished(self, job: JobView) -> tuple[ExecutionAttemptID, ...]:
        """Records tasks that finished without having seen a barrier as finished. Returns the tasks to trigger instead.

        These are the tasks that only receive barriers from the finished ones. For a task that also receives other
        barriers, the end of a finished producer serves as its barrier, because all its records come before.

        A task that was not triggered has seen no barrier if none of its producers has. For the rest, only tasks that
        declined the checkpoint are known to have seen none. If all tasks have ended, nothing is changed.
        """
        missing = {attempt.vertex: attempt for attempt in self.missing}
        ended = {attempt.vertex for attempt in self.closing & self.missing if _has_finished(job, attempt)}
        triggered = set(self.plan.tasks_to_trigger)
        for vertex in job.vertices:
            for task in vertex.tasks:
                attempt = missing.get(task)
                if attempt is None or attempt in triggered or not _has_finished(job, attempt):
                    continue
                producers = vertex.producers[task.subtask_index]
                if all(producer in ended or producer in self.plan.finished_tasks for producer in producers):
                    ended.add(task)
        if not ended or (not self.acks and len(ended) == len(missing)):
            return ()
        self.plan = self.plan.without(ended, job)
        for task in ended:
            self.missing.remove(missing[task])
            self.finished_early.pop(missing[task], None)
        return tuple(attempt for attempt in self.plan.tasks_to_trigger if attempt not in triggered)

    def partly_finished_union(self, job: JobView) -> str | None:
        """Returns the name of an operator with union list state of which only some subtasks have finished, if any.

        Each subtask of a restored operator needs the whole union list state, and the parts of ended subtasks are lost.
        A subtask that ends with this checkpoint still has its part, but must not end alone either: the other subtasks
        could complete no later checkpoint and would wait forever. So all subtasks must end with the same checkpoint.
        """
        for vertex in job.vertices:
            if sum(self._has_reached_end(task) for task in vertex.tasks) in (0, vertex.parallelism):
                continue
            for operator in vertex.operators:
                if any(_has_union_state(self._operator_state(task, operator.operator_id)) for task in vertex.tasks):
                    return operator.name
        return None

    def build_metadata(self, job: JobView) -> pb.CheckpointMetadata:
        """Returns the content of `_metadata`. All tasks must have acknowledged."""
        assert not self.missing
        metadata = pb.CheckpointMetadata(
            flinkpy_version=__version__,
            python_version=platform.python_version(),
            job_id=job.job_id,
            job_name=job.job_name,
            checkpoint_id=self.checkpoint_id,
            timestamp_ms=self.triggered_ms,
            kind=self.properties.kind,
            format=self.properties.format,
            is_unaligned=any(ack.metrics.is_unaligned for ack in self.acks.values()),
        )
        finished = self._finished_for_good(job)
        for vertex in job.vertices:
            of_vertex = [task.subtask_index for task in vertex.tasks if task in finished]
            self._add_operators(metadata, vertex, of_vertex)
        return metadata

    def _finished_for_good(self, job: JobView) -> set[ExecutionVertexID]:
        """Returns the tasks that have nothing to do after a restore.

        A finished task runs again if one of its producers does. A producer runs again if it has state at its end.
        """
        finished: set[ExecutionVertexID] = set()
        for vertex in job.vertices:
            known: dict[int, bool] = {}  # subtasks of an ALL_TO_ALL edge share one tuple of producers
            for task in vertex.tasks:
                producers = vertex.producers[task.subtask_index]
                if id(producers) not in known:
                    known[id(producers)] = finished.issuperset(producers)
                if task in self.plan.finished_tasks or (known[id(producers)] and self._is_finished(task)):
                    finished.add(task)
        return finished

    def _add_operators(self, metadata: pb.CheckpointMetadata, vertex: CheckpointedVertex, finished: list[int]) -> None:
        for operator in vertex.operators:
            message = metadata.operators.add(
                operator_id=operator.operator_id,
                uid=operator.uid,
                name=operator.name,
                parallelism=vertex.parallelism,
                max_parallelism=vertex.max_parallelism,
                is_fully_finished=len(finished) == vertex.parallelism,
                finished_subtasks=finished,
            )
            for task in vertex.tasks:
                state = self._operator_state(task, operator.operator_id)
                if state is not None:
                    message.subtasks[task.subtask_index].CopyFrom(state)
            coordinator = self.coordinator_states.get(operator.operator_id)
            if coordinator is not None:
                message.coordinator.CopyFrom(inline_handle(coordinator))

    def _is_finished(self, task: ExecutionVertexID) -> bool:
        if task in self.plan.finished_tasks:
            return True
        ack = self.acks.get(task)
        return ack is not None and ack.state.is_finished

    def _has_reached_end(self, task: ExecutionVertexID) -> bool:
        """True if the task has ended or ends with this checkpoint, even if it has state to restore."""
        ack = self.acks.get(task)
        return self._is_finished(task) or (ack is not None and ack.state.has_reached_end)

    def _operator_state(self, task: ExecutionVertexID, operator_id: str) -> pb.OperatorSubtaskState | None:
        ack = self.acks.get(task)
        if ack is None or operator_id not in ack.state.operators:
            return None
        return ack.state.operators[operator_id]


def _has_finished(job: JobView, attempt: ExecutionAttemptID) -> bool:
    return job.task(attempt.vertex) == (attempt, ExecutionState.FINISHED)


def inline_handle(data: bytes) -> pb.StreamStateHandle:
    return pb.StreamStateHandle(data=data, size_bytes=len(data), sha256=hashlib.sha256(data).digest())


def _has_union_state(state: pb.OperatorSubtaskState | None) -> bool:
    if state is None:
        return False
    return any(elements.mode == pb.UNION for handle in state.operator for elements in handle.states)
