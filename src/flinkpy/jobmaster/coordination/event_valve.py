"""EventValve: what coordinators send passes through here, and waits while a checkpoint is being triggered.

So the barrier divides the events of a coordinator as its own state does: those sent before `coordinator.checkpoint` are
at the task before the trigger, those sent after it come to the task behind the barrier.

Source: org.apache.flink.runtime.operators.coordination.{OperatorCoordinatorHolder,SubtaskGatewayImpl}.
Thread: JobMaster main thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from flinkpy.common.ids import ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class AddressedEvent:
    """`attempt`: the one that could be reached when the coordinator sent it; no other may get it."""

    attempt: ExecutionAttemptID
    operator_id: str
    payload: bytes


class EventValve:
    """Invariant: events of one coordinator leave in the order they were sent."""

    def __init__(self, deliver: Callable[[AddressedEvent], None]) -> None:
        self._deliver = deliver
        self._held: deque[AddressedEvent] = deque()
        #: The checkpoint being triggered; None: open.
        self._closed_for: int | None = None

    @property
    def is_open(self) -> bool:
        return self._closed_for is None

    def send(self, event: AddressedEvent) -> None:
        if self._closed_for is None and not self._held:
            self._deliver(event)
        else:
            self._held.append(event)

    def close(self, checkpoint_id: int) -> None:
        """One checkpoint is triggered at a time; a newer one takes over."""
        self._closed_for = checkpoint_id

    def open(self, checkpoint_id: int) -> None:
        """Let go what was held back, unless another checkpoint has closed it since."""
        if self._closed_for != checkpoint_id:
            return
        self._closed_for = None
        while self._held and self._closed_for is None:
            self._deliver(self._held.popleft())
