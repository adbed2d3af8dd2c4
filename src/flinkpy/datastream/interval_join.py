"""IntervalJoin: pairs of records of one key of two streams, whose times are near each other. Beyond PyFlink.

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
from flinkpy.datastream.functions import ProcessJoinFunction
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.graph.operator_specs import IntervalJoinSpec

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.datastream.keyed_stream import KeyedStream

_EVENT_TIME_ONLY = "Time-bounded stream joins are only supported in event time"


class IntervalJoin:
    """Two keyed streams of which the interval is still to be said."""

    def __init__(self, stream_one: KeyedStream, stream_two: KeyedStream) -> None:
        check_same_environment(stream_one, stream_two)
        self._stream_one = stream_one
        self._stream_two = stream_two
        self._is_event_time = True

    def in_event_time(self) -> IntervalJoin:
        """The default, and all there is."""
        self._is_event_time = True
        return self

    def in_processing_time(self) -> IntervalJoin:
        """`between` will refuse it."""
        self._is_event_time = False
        return self

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined:
        """Pairs with left + lower_bound <= right <= left + upper_bound; bounds may be negative."""
        if not self._is_event_time:
            raise UnsupportedOperationError(_EVENT_TIME_ONLY)
        return IntervalJoined(self._stream_one, self._stream_two, _millis(lower_bound), _millis(upper_bound))


class IntervalJoined:
    """The join but for its function. Each pair meets in the subtask of its key, once.

    Records are kept in state until the watermark says that nothing comes any more that they could be paired with.
    """

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_bound_ms: int, upper_bound_ms: int) -> None:
        if lower_bound_ms > upper_bound_ms:
            raise ValueError(f"the lower bound ({lower_bound_ms} ms) is above the upper one ({upper_bound_ms} ms)")
        self._left = left
        self._right = right
        self._lower_bound_ms = lower_bound_ms
        self._upper_bound_ms = upper_bound_ms
        self._left_late: str | None = None
        self._right_late: str | None = None
        self._is_lower_exclusive = False
        self._is_upper_exclusive = False

    def lower_bound_exclusive(self) -> IntervalJoined:
        self._is_lower_exclusive = True
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        self._is_upper_exclusive = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Records of the left stream that come after the watermark has passed them; without it they are dropped."""
        self._left_late = _tag_id(output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Records of the right stream that come after the watermark has passed them; without it they are dropped."""
        self._right_late = _tag_id(output_tag)
        return self

    def process(
        self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of results per pair, with the later timestamp of the two."""
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
        raise TypeError(f"late data goes to an OutputTag, not {output_tag!r}")
    return output_tag.tag_id
