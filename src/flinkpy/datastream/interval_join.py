"""IntervalJoin: joins records of the same key whose event times are close to each other. Beyond PyFlink.

```
orders.key_by("id").interval_join(payments.key_by("order")).between(Time.minutes(0), Time.hours(1)).process(function)
```

Source: org.apache.flink.streaming.api.datastream.KeyedStream.{IntervalJoin,IntervalJoined}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Duration, Time
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.connected_streams import check_same_environment, two_inputs, with_common_key_type
from flinkpy.functions.output_tag import OutputTag
from flinkpy.functions.stream_functions import ProcessJoinFunction
from flinkpy.graph.operator_specs import IntervalJoinSpec

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.datastream.keyed_stream import KeyedStream

_EVENT_TIME_ONLY = "Time-bounded stream joins are only supported in event time"


class IntervalJoin:
    """Two keyed streams to join. `KeyedStream.interval_join` creates it; `between` sets the interval."""

    def __init__(self, stream_one: KeyedStream, stream_two: KeyedStream) -> None:
        check_same_environment(stream_one, stream_two)
        self._stream_one = stream_one
        self._stream_two = stream_two
        self._is_event_time = True

    def in_event_time(self) -> IntervalJoin:
        """Joins by event time. This is the default, and the only possibility."""
        self._is_event_time = True
        return self

    def in_processing_time(self) -> IntervalJoin:
        """Joins by processing time, which `between` refuses."""
        self._is_event_time = False
        return self

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined:
        """Joins records with `left + lower_bound <= right <= left + upper_bound`, where left and right are timestamps.

        Args:
            lower_bound: may be negative.
            upper_bound: must not be below the lower bound; may be negative.

        Raises:
            UnsupportedOperationError: processing time was chosen.
            ValueError: the lower bound is above the upper bound.
        """
        if not self._is_event_time:
            raise UnsupportedOperationError(_EVENT_TIME_ONLY)
        return IntervalJoined(self._stream_one, self._stream_two, _millis(lower_bound), _millis(upper_bound))


class IntervalJoined:
    """A join with an interval, to which a function can be applied. Each pair is joined once, in the subtask of its key.

    Records are kept in state until the watermark shows that no more partners can arrive.
    """

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_bound_ms: int, upper_bound_ms: int) -> None:
        if lower_bound_ms > upper_bound_ms:
            raise ValueError(f"the lower bound ({lower_bound_ms} ms) is above the upper bound ({upper_bound_ms} ms)")
        self._left = left
        self._right = right
        self._lower_bound_ms = lower_bound_ms
        self._upper_bound_ms = upper_bound_ms
        self._left_late: str | None = None
        self._right_late: str | None = None
        self._is_lower_exclusive = False
        self._is_upper_exclusive = False

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Excludes the lower bound from the interval."""
        self._is_lower_exclusive = True
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Excludes the upper bound from the interval."""
        self._is_upper_exclusive = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Sends late records of the left stream, which the watermark has passed, to a side output. By default they are
        dropped.
        """
        self._left_late = _tag_id(output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Sends late records of the right stream, which the watermark has passed, to a side output. By default they are
        dropped.
        """
        self._right_late = _tag_id(output_tag)
        return self

    def process(
        self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Applies a ProcessJoinFunction to each pair. Its results carry the later of the two timestamps.

        Args:
            process_join_function: the function, with any number of results per pair.
            output_type: the type of the results. None pickles them.
        """
        if not isinstance(process_join_function, ProcessJoinFunction):
            raise TypeError("The input must be a ProcessJoinFunction")
        left, right = with_common_key_type(self._left, self._right)
        spec = IntervalJoinSpec(
            (left.key_selector, right.key_selector),
            process_join_function,
            self._lower_bound_ms + self._is_lower_exclusive,
            self._upper_bound_ms - self._is_upper_exclusive,
            self._left_late,
            self._right_late,
            key_type=left.key_type,
            input_types=(left.transformation.output_type, right.transformation.output_type),
            output_type=checks.output_type_of(output_type),
        )
        return two_inputs("Interval Join", spec, left, right)


def _millis(bound: Time | Duration) -> int:
    if isinstance(bound, Time):
        return bound.to_milliseconds()
    if isinstance(bound, Duration):
        return bound.to_millis()
    raise TypeError(f"a bound must be a Time or a Duration, not {bound!r}")


def _tag_id(output_tag: OutputTag) -> str:
    if not isinstance(output_tag, OutputTag):
        raise TypeError(f"the output tag of late data must be an OutputTag, not {output_tag!r}")
    return output_tag.tag_id
