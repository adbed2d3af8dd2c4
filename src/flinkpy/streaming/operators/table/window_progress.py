"""WindowProgress: the time up to which the windows of an operator have ended. It is part of checkpoints.

So rows that were late before a failure stay late, although the watermark begins again at the minimum.

Source: org.apache.flink.table.runtime.operators.window.tvf.slicing.SlicingWindowOperator, state `watermark`.
"""

from __future__ import annotations

from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK
from flinkpy.state.operator_state import OperatorStateBackend
from flinkpy.streaming.operators.stream_operator import OperatorStateDescriptor

#: Elements: the time up to which the windows of each subtask have ended.
_WATERMARK = OperatorStateDescriptor("watermark")


class WindowProgress:
    """Thread: task thread.

    Attributes:
        ended_until: windows whose last ms is at or before this time have ended. In the time of the windows.
    """

    def __init__(self) -> None:
        self.ended_until = MIN_WATERMARK

    def restore(self, state: OperatorStateBackend) -> None:
        self.ended_until = min(state.get_union_list_state(_WATERMARK).get(), default=MIN_WATERMARK)

    def store(self, state: OperatorStateBackend) -> None:
        # When event time has ended, no row is late in the job that resumes: it starts at the minimum.
        ended = MIN_WATERMARK if self.ended_until >= MAX_WATERMARK else self.ended_until
        state.get_union_list_state(_WATERMARK).update([ended])
