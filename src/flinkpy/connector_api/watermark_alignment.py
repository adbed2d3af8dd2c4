"""The JobMaster's half of watermark alignment: the lowest watermark of all sources of a group, and what it allows.

A group is shared by the coordinators of a job; each puts in the lowest watermark of its subtasks. A subtask that failed
keeps its last watermark until its next attempt reports one; a source that is reset as a whole leaves the group until
one of its subtasks reports.

Source: org.apache.flink.runtime.source.coordinator.SourceCoordinator, its WatermarkAggregator and its use of the
CoordinatorStore. Differs: a source that is reset does not keep the watermark it had before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

MAX_WATERMARK = (1 << 63) - 1

KEY = TypeVar("KEY", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WatermarkAlignmentParams:
    """As given to `WatermarkStrategy.with_watermark_alignment`."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


# Events between SourceOperator (task) and SourceCoordinator (JobMaster).
@dataclass(frozen=True, slots=True)
class ReportedWatermark:
    """How far a reader is; the highest there is where it is idle or has finished."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """A reader that is further than this waits."""

    max_watermark: int


class WatermarkAggregator(Generic[KEY]):
    """The lowest of several watermarks, of which any may change. Pure."""

    def __init__(self) -> None:
        self._watermarks: dict[KEY, int] = {}

    @property
    def keys(self) -> tuple[KEY, ...]:
        return tuple(self._watermarks)

    @property
    def lowest(self) -> int | None:
        """None: there is none."""
        return min(self._watermarks.values(), default=None)

    def put(self, key: KEY, timestamp: int) -> None:
        self._watermarks[key] = timestamp

    def remove(self, key: KEY) -> None:
        self._watermarks.pop(key, None)


class AlignmentCoordinator:
    """Of one source. Thread: JobMaster main thread.

    Args:
        store: shared by the coordinators of the job; holds the groups.
        send: to a subtask, dropped where it cannot be reached: the next announcement says the same.
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
        """Tell every subtask that has reported how far it may go."""
        lowest = self._group.lowest
        if lowest is None:
            return
        allowed = WatermarkAlignment(min(lowest + self._params.max_drift_ms, MAX_WATERMARK))
        for subtask_index in self._subtasks.keys:
            self._send(subtask_index, allowed)

    def reset(self) -> None:
        """All subtasks begin anew."""
        self._subtasks = WatermarkAggregator()
        self._group.remove(self._operator_id)
