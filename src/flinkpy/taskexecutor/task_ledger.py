"""TaskLedger: what another JobMaster must know of a task to continue it when the JobMaster of the job is lost.

The coordinators of the new JobMaster start from the latest completed checkpoint. So a task keeps what coordinators have
sent since that checkpoint, as the splits that a reader was assigned. An event arrives between two triggers, and the
JobMaster sends it on the same side of the trigger (`EventValve`). So the last trigger before an event tells in which
checkpoints of the coordinators it is included.

A task can only be continued if its operators can repeat everything that they have told coordinators. Otherwise it has
an *obstacle*, and the job restores a checkpoint.

Pure. Differs: in Flink the tasks of a job fail when its JobMaster is lost.
"""

from __future__ import annotations

from collections import deque

from flinkpy._proto import jobmaster_pb2, taskexecutor_pb2

#: The maximum number and total size of the kept events of a task. A job without checkpoints keeps all of them.
MAX_KEPT_EVENTS = 4_096
MAX_KEPT_BYTES = 4 << 20


class TaskLedger:
    """The ledger of one attempt.

    Args:
        consumed_partition_ids: the partitions that the attempt reads. Each names the attempt of its producer.
    """

    def __init__(self, consumed_partition_ids: tuple[str, ...] = ()) -> None:
        self._consumed_partition_ids = consumed_partition_ids
        self._events: deque[taskexecutor_pb2.KeptOperatorEvent] = deque()
        self._num_bytes = 0
        #: The newest checkpoint that was triggered at the task.
        self._triggered_id = 0
        #: Events before the trigger of this checkpoint are forgotten.
        self._events_since = 0
        self.has_reached_end_of_data = False
        #: Why no other JobMaster can continue the task; empty if one can.
        self.obstacle = ""

    def received(self, event: jobmaster_pb2.OperatorEvent) -> None:
        """Records an event of a coordinator."""
        if not event.is_kept or self.obstacle:
            return
        self._events.append(
            taskexecutor_pb2.KeptOperatorEvent(
                operator_id=event.operator_id,
                payload_pickle=event.payload_pickle,
                after_checkpoint_id=self._triggered_id,
            )
        )
        self._num_bytes += len(event.payload_pickle)
        if len(self._events) > MAX_KEPT_EVENTS or self._num_bytes > MAX_KEPT_BYTES:
            self._block("it got too many events of coordinators since the last checkpoint")

    def sent(self, *, can_be_repeated: bool) -> None:
        """Records an event to a coordinator."""
        if not can_be_repeated:
            self._block("it sent an event to a coordinator that it cannot repeat")

    def triggered(self, checkpoint_id: int, *, stops_the_task: bool) -> None:
        """Records the trigger of a checkpoint."""
        self._triggered_id = max(self._triggered_id, checkpoint_id)
        if stops_the_task:
            self._block("it may wait for the end of a stop-with-savepoint")

    def completed(self, checkpoint_id: int) -> None:
        """Forgets the events that the checkpoint includes. Late and repeated calls have no effect."""
        self._events_since = max(self._events_since, checkpoint_id)
        while self._events and self._events[0].after_checkpoint_id < self._events_since:
            self._num_bytes -= len(self._events.popleft().payload_pickle)

    def add_to(self, report: taskexecutor_pb2.ReportedTask) -> None:
        """Sets the fields of the report."""
        report.consumed_partition_ids.extend(self._consumed_partition_ids)
        report.events.extend(self._events)
        report.events_since = self._events_since
        report.obstacle = self.obstacle

    def _block(self, obstacle: str) -> None:
        self.obstacle = self.obstacle or obstacle
        self._events.clear()
        self._num_bytes = 0
