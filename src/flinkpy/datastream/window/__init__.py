"""Windows, their assigners, triggers and evictors. Source: pyflink.datastream.window."""

from __future__ import annotations

from flinkpy.datastream.window.assigner import (
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    WindowAssigner,
    WindowOperationDescriptor,
)
from flinkpy.datastream.window.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from flinkpy.datastream.window.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from flinkpy.datastream.window.other_triggers import (
    CountTrigger,
    DeltaTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)
from flinkpy.datastream.window.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from flinkpy.datastream.window.stagger import StaggeredWindows as StaggeredWindows
from flinkpy.datastream.window.stagger import WindowStagger
from flinkpy.datastream.window.time_triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    Min,
    ProcessingTimeTrigger,
)
from flinkpy.datastream.window.time_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkpy.datastream.window.trigger import Trigger, TriggerResult
from flinkpy.datastream.window.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
)
from flinkpy.datastream.window.windows import long_to_int_with_bit_mixing as long_to_int_with_bit_mixing
from flinkpy.datastream.window.windows import mod_inverse as mod_inverse

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "Min",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowOperationDescriptor",
    "WindowStagger",
]
