"""Column aggregates of windows: `WindowedStream.aggregate(n=count(), top=max_("price"))`. Beyond PyFlink.

```python
bids.key_by("auction").window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2))) \\
    .aggregate(n=count(), top=max_("price"))
```
The result is a ROW of the key columns, `window_start` and `window_end` (LONG, ms, the end exclusive), and one column
per aggregate. Its timestamp is the last ms of the window. No Python object is made per record, and the cost of a record
does not depend on the number of windows it belongs to.

Windows fire when the watermark (or the clock) passes their last ms, as with the default triggers. With an allowed
lateness, a window is kept until the watermark has passed its end by that time. Each record that arrives for a kept
window makes it fire again immediately, for the key of the record and with the content so far. Later records are dropped
and counted (`numLateRecordsDropped`), or go to the side output for late data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.datastream import aggregates as column_aggregates
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.aggregate_plan import AggregatePlan, plan_aggregates
from flinkpy.expressions.nodes import Alias, ColumnReference
from flinkpy.functions.window_assigners import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkpy.functions.window_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkpy.graph import operator_specs as specs
from flinkpy.graph import partitioning
from flinkpy.graph.operator_specs import ColumnAggregate, FieldKeySelector
from flinkpy.graph.partitioning import Partitioning

if TYPE_CHECKING:
    from flinkpy.datastream.base_stream import DataStream
    from flinkpy.datastream.keyed_stream import KeyedStream
    from flinkpy.datastream.windowed_stream import AllWindowedStream, WindowedStream

WINDOW_START, WINDOW_END = "window_start", "window_end"

_FIXED = (
    TumblingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingProcessingTimeWindows,
    SlidingProcessingTimeWindows,
)
_SESSIONS = (EventTimeSessionWindows, ProcessingTimeSessionWindows)


def aggregate(windows: WindowedStream | AllWindowedStream, wanted: dict[str, ColumnAggregate]) -> DataStream:
    """Implements `aggregate` of a windowed stream with keywords, which name the columns of the result.

    Raises:
        UnsupportedOperationError: the program set a trigger or an evictor, or the windows are not slices of time.
        UserError: the stream or its key are not columns, there is no such column, or an aggregate cannot be merged.
    """
    from flinkpy.datastream.windowed_stream import AllWindowedStream, _NullByteKeySelector

    aggregates = column_aggregates.named((), wanted)
    assigner = windows._window_assigner
    shape = _shape(assigner)
    own_trigger = EventTimeTrigger if shape["is_event_time"] else ProcessingTimeTrigger
    trigger = windows._window_trigger
    if trigger is not None and type(trigger) is not own_trigger:
        raise UnsupportedOperationError(
            f"column aggregates fire when a window ends, and cannot use the trigger {trigger!r}; "
            "an AggregateFunction works with any trigger"
        )
    if windows._evictor is not None:
        raise UnsupportedOperationError(
            f"column aggregates keep no records that {windows._evictor!r} could evict; "
            "an AggregateFunction works with an evictor"
        )
    merges = shape.get("gap_ms") is not None or shape["size_ms"] != shape["slide_ms"] or windows._allowed_lateness
    for each in aggregates:
        if merges and each.compiled is not None and each.compiled.merge is None:
            raise UserError(
                f"aggregate {each.name!r}: sliding windows, sessions and windows with allowed lateness merge "
                "accumulators: give compiled_aggregate a `merge`"
            )
    keyed = windows._keyed_stream
    is_all = isinstance(windows, AllWindowedStream)
    plan = _plan(windows, FieldKeySelector(()) if is_all else keyed.key_selector, aggregates)
    if plan is not None:
        aggregates = plan.aggregates
        if plan.before is not None:
            origin = keyed._origin_stream.select(*plan.before)
            keyed = origin.key_by(_NullByteKeySelector() if is_all else tuple(_key_names(keyed)))
    key_selector = FieldKeySelector(()) if is_all else keyed.key_selector
    stream = keyed._values()
    if is_all:
        # One subtask gets all records, so their keys are not needed.
        stream = keyed._origin_stream._partitioned(Partitioning(partitioning.HASH, key_selector))
    tag = windows._late_data_output_tag
    spec = specs.WindowAggregateSpec(
        key_selector,
        aggregates,
        **shape,
        allowed_lateness_ms=windows._allowed_lateness,
        late_output_tag=None if tag is None else tag.tag_id,
        late_output_is_typed=tag is not None and tag.type_info is not None,
        input_types=(stream.transformation.output_type,),
        output_type=column_aggregates.output_type(
            stream.transformation.output_type, key_selector, aggregates, (WINDOW_START, WINDOW_END)
        ),
        key_type=None if is_all else keyed.key_type,
    )
    result = stream._one_input(type(assigner).__name__, spec)
    result.set_description(f"{'AllWindow' if is_all else 'Window'}Aggregate({assigner}, {', '.join(wanted)})")
    result = result.force_non_parallel() if is_all else result
    if plan is None or plan.after is None:
        return result
    times = [Alias(ColumnReference(name), name) for name in (WINDOW_START, WINDOW_END)]
    num_keys = len(key_selector.fields)
    return result.select(*plan.after[:num_keys], *times, *plan.after[num_keys:])


def _plan(
    windows: WindowedStream | AllWindowedStream, key_selector: Any, aggregates: tuple[ColumnAggregate, ...]
) -> AggregatePlan | None:
    """Returns the plan of the aggregates; None if all are aggregates of columns and need none."""
    if not any(each.expression is not None or each.function == column_aggregates.AVG for each in aggregates):
        return None
    if windows._late_data_output_tag is not None:
        # The side output holds the records that the window operator gets, so no selection may come before it.
        raise UserError(
            "aggregate: with side_output_late_data all aggregates must be of columns: compute expressions with "
            "select() before, and use mean() instead of avg()"
        )
    keyed = windows._keyed_stream
    columns = checks.columns_of_type(keyed._origin_stream.transformation.output_type)
    if columns is None or not isinstance(key_selector, FieldKeySelector):
        raise UserError(
            "aggregate works on columns: the stream must be of a declared TUPLE or ROW type and keyed by columns, "
            'as in key_by("name")'
        )
    return plan_aggregates(_key_names(keyed) if key_selector.fields else [], aggregates, columns)


def _key_names(keyed: KeyedStream) -> list[str]:
    columns = checks.columns_of_type(keyed.transformation.output_type) or {}
    selector = keyed.key_selector
    assert isinstance(selector, FieldKeySelector)
    return [field if isinstance(field, str) else list(columns)[field] for field in selector.fields]


def _shape(assigner: Any) -> dict[str, Any]:
    """Returns the settings of the operator for an assigner."""
    if type(assigner) in _FIXED:
        return {
            "size_ms": assigner._size,
            "slide_ms": assigner._slide,
            "offset_ms": assigner._offset,
            "is_event_time": assigner.is_event_time(),
        }
    if type(assigner) in _SESSIONS:
        return {"gap_ms": assigner._session_gap, "is_event_time": assigner.is_event_time()}
    raise UnsupportedOperationError(
        f"column aggregates need tumbling or sliding windows, or sessions with a fixed gap, not {assigner!r}; "
        "an AggregateFunction works with any windows"
    )
