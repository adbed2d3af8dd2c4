"""Execution: one attempt at running an ExecutionVertex.

It keeps the state of the attempt and rejects invalid transitions (see the diagram in `flinkpy.common.states`). The
scheduler makes all decisions.

Source: org.apache.flink.runtime.executiongraph.{Execution,IOMetrics}.
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

#: The states in which a TaskExecutor may have a task for the attempt.
DEPLOYED_STATES = frozenset(
    {ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELING}
)
#: The states in which the task can receive operator events.
REACHABLE_STATES = frozenset({ExecutionState.INITIALIZING, ExecutionState.RUNNING})


@dataclass(frozen=True, slots=True)
class IOMetrics:
    """The totals of one attempt since it started."""

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
    """One attempt of a subtask.

    Invariant: `slot` is set before DEPLOYING and never cleared, so that it always shows where the attempt ran.
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
        #: The time at which each state was entered, in order. No state is entered twice.
        self.state_timestamps: dict[ExecutionState, int] = {ExecutionState.CREATED: now_ms}
        self.slot: PhysicalSlot | None = None
        self.failure: FlinkError | None = None
        #: The state that the task restores; None: it starts without state.
        self.restore: checkpoint_pb2.TaskRestore | None = None
        self.metrics = IOMetrics()
        #: The last reported values of the user's accumulators, pickled, by name.
        self.accumulators: Mapping[str, bytes] = {}
        #: The sizes in bytes of all subpartitions of each blocking result, by result partition id. Set when the attempt
        #: has finished.
        self.result_bytes: Mapping[str, tuple[int, ...]] = {}
        self.sent_events = SentEvents()
        self.received_events = ReceivedEvents()

    def transition(self, target: ExecutionState, now_ms: int) -> None:
        """Enters the state `target`. Raises: InvalidTransitionError with the history of this attempt."""
        if (self.state, target) not in EXECUTION_TRANSITIONS:
            raise InvalidTransitionError(
                f"execution {self.attempt_id} cannot go from {self.state.name} to {target.name}; "
                f"history: {self.story()}"
            )
        self.state = target
        self.state_timestamps[target] = now_ms

    @property
    def is_deployed(self) -> bool:
        """True if a TaskExecutor has, or may have, a task for this attempt."""
        return self.state in DEPLOYED_STATES

    @property
    def is_reachable(self) -> bool:
        """True if the task can receive operator events."""
        return self.state in REACHABLE_STATES

    def story(self) -> str:
        return " -> ".join(f"{state.name}@{at}" for state, at in self.state_timestamps.items())

    def __repr__(self) -> str:
        return f"Execution({self.attempt_id}, {self.state.name})"
