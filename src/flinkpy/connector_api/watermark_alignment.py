"""The JobMaster's part of watermark alignment: the lowest watermark of a group of sources limits all its readers.

The coordinators of a job share the group. Each contributes the lowest watermark of its subtasks. A failed subtask keeps
its last watermark until its next attempt reports one. A source that is reset as a whole leaves the group until one of
its subtasks reports.

Source: org.apache.flink.runtime.source.coordinator.SourceCoordinator, its WatermarkAggregator and its use of the
CoordinatorStore. Differs: a source that is reset does not keep its former watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

MAX_WATERMARK = (1 << 63) - 1

KEY = TypeVar("KEY", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WatermarkAlignmentParams:
    """The arguments of `WatermarkStrategy.with_watermark_alignment`."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


# Events between SourceOperator (task) and SourceCoordinator (JobMaster).
@dataclass(frozen=True, slots=True)
class ReportedWatermark:
    """An event to the coordinator: the watermark of a reader, or the maximum if it is idle or has finished."""

    is_repeated_on_request: ClassVar[bool] = True

    timestamp: int


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """An event to a reader: it waits while its watermark exceeds the maximum."""

    is_kept: ClassVar[bool] = False

    max_watermark: int


class WatermarkAggregator(Generic[KEY]):
    """Tracks the lowest of several watermarks. Pure."""

    def __init__(self) -> None:
        self._watermarks: dict[KEY, int] = {}

    @property
    def keys(self) -> tuple[KEY, ...]:
        return tuple(self._watermarks)

    @property
    def lowest(self) -> int | None:
        """The lowest watermark, or None if there is none."""
        return min(self._watermarks.values(), default=None)

    def put(self, key: KEY, timestamp: int) -> None:
        self._watermarks[key] = timestamp

    def remove(self, key: KEY) -> None:
        self._watermarks.pop(key, None)


class AlignmentCoordinator:
    """The watermark alignment of one source.

    Thread: JobMaster main thread.

    Args:
        store: holds the groups. All coordinators of the job share it.
        send: sends an event to a subtask. If the subtask cannot be reached, the event is dropped; the next announcement
            replaces it.
    """

    def __init__(
        self,
        params: WatermarkAlignmentParams,
        operator_id: str,
        store: dict[str, Any],
        send: Callable[[int, WatermarkAlignment], None],
    ) -> None:
        self._params = params
        self._operator_id = operator_id
        self._send = send
        self._subtasks: WatermarkAggregator[int] = WatermarkAggregator()
        self._group: WatermarkAggregator[str] = store.setdefault(
            f"watermark-alignment:{params.group}", WatermarkAggregator()
        )

    @property
    def update_interval_ms(self) -> int:
        return self._params.update_interval_ms

    def on_report(self, subtask_index: int, timestamp: int) -> None:
        self._subtasks.put(subtask_index, timestamp)
        lowest = self._subtasks.lowest
        assert lowest is not None
        self._group.put(self._operator_id, lowest)

    def announce(self) -> None:
        """Sends the present limit to every subtask that has reported a watermark."""
        lowest = self._group.lowest
        if lowest is None:
            return
        allowed = WatermarkAlignment(min(lowest + self._params.max_drift_ms, MAX_WATERMARK))
        for subtask_index in self._subtasks.keys:
            self._send(subtask_index, allowed)

    def reset(self) -> None:
        """Forgets all watermarks of the source, because all its subtasks restart."""
        self._subtasks = WatermarkAggregator()
        self._group.remove(self._operator_id)
