"""Execution: one attempt at running an ExecutionVertex.

Decides nothing; it keeps the state of the attempt and refuses transitions that do not exist
(`flinkpy.common.states` has the diagram).

Source: org.apache.flink.runtime.executiongraph.Execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import FlinkError, InvalidTransitionError
from flinkpy.common.event_sequence import ReceivedEvents, SentEvents
from flinkpy.common.ids import ExecutionAttemptID
from flinkpy.common.states import EXECUTION_TRANSITIONS, ExecutionState
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot

#: The states in which a task of this attempt exists, or may exist, in a TaskExecutor.
DEPLOYED_STATES = frozenset(
    {ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELING}
)
#: The states in which a task can be sent operator events.
REACHABLE_STATES = frozenset({ExecutionState.INITIALIZING, ExecutionState.RUNNING})


@dataclass(frozen=True, slots=True)
class IOMetrics:
    """Totals of one attempt since it started. Source: org.apache.flink.runtime.executiongraph.IOMetrics."""

    num_records_in: int = 0
    num_records_out: int = 0
    num_bytes_in: int = 0
    num_bytes_out: int = 0
    num_batches_in: int = 0
    num_batches_out: int = 0
    idle_time_ms: int = 0
    busy_time_ms: int = 0
    back_pressured_time_ms: int = 0

    def __add__(self, other: IOMetrics) -> IOMetrics:
        return IOMetrics(*(getattr(self, name) + getattr(other, name) for name in IO_METRIC_NAMES))


IO_METRIC_NAMES: tuple[str, ...] = tuple(field.name for field in fields(IOMetrics))


class Execution:
    """One attempt.

    Invariant: `slot` is set before DEPLOYING and kept afterwards, so that one can always say where an attempt ran.
    """

    __slots__ = (
        "accumulators",
        "attempt_id",
        "failure",
        "metrics",
        "received_events",
        "restore",
        "result_bytes",
        "sent_events",
        "slot",
        "state",
        "state_timestamps",
    )

    def __init__(self, attempt_id: ExecutionAttemptID, now_ms: int) -> None:
        self.attempt_id = attempt_id
        self.state = ExecutionState.CREATED
        #: When each state was entered; in order, because a state is never entered twice.
        self.state_timestamps: dict[ExecutionState, int] = {ExecutionState.CREATED: now_ms}
        self.slot: PhysicalSlot | None = None
        self.failure: FlinkError | None = None
        #: What the attempt starts from; None: from the beginning.
        self.restore: checkpoint_pb2.TaskRestore | None = None
        self.metrics = IOMetrics()
        #: The user's accumulators by name, pickled, as last reported.
        self.accumulators: Mapping[str, bytes] = {}
        #: Of a finished attempt: the bytes of each subpartition of its blocking results, by result partition id.
        self.result_bytes: Mapping[str, tuple[int, ...]] = {}
        self.sent_events = SentEvents()
        self.received_events = ReceivedEvents()

    def transition(self, target: ExecutionState, now_ms: int) -> None:
        """Enter `target`. Raises: InvalidTransitionError with the story of this attempt."""
        if (self.state, target) not in EXECUTION_TRANSITIONS:
            raise InvalidTransitionError(
                f"execution {self.attempt_id} cannot go from {self.state.name} to {target.name}; story: {self.story()}"
            )
        self.state = target
        self.state_timestamps[target] = now_ms

    @property
    def is_deployed(self) -> bool:
        """A task of this attempt exists, or may exist, in a TaskExecutor."""
        return self.state in DEPLOYED_STATES

    @property
    def is_reachable(self) -> bool:
        """Operator events can be sent to the task."""
        return self.state in REACHABLE_STATES

    def story(self) -> str:
        return " -> ".join(f"{state.name}@{at}" for state, at in self.state_timestamps.items())

    def __repr__(self) -> str:
        return f"Execution({self.attempt_id}, {self.state.name})"
