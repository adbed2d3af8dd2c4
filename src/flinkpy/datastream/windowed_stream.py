"""WindowedStream and AllWindowedStream: records in windows, and the operations on each window.

Source: pyflink.datastream.{WindowedStream,AllWindowedStream}. Beyond PyFlink: `evictor`, `sum`, `min`, `max`, `min_by`,
`max_by`, and `aggregate` with column aggregates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from flinkpy.common.typeinfo import TypeInformation
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.event_time import sources_without_watermarks
from flinkpy.datastream.functions import AggregateFunction, KeySelector, ReduceFunction
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.datastream.window import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    Evictor,
    MergingWindowAssigner,
    PurgingTrigger,
    Trigger,
    WindowAssigner,
)
from flinkpy.datastream.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkpy.graph.operator_specs import FieldAggregation, RollingKind, WindowSpec
from flinkpy.graph.transformation import OperatorTransformation

if TYPE_CHECKING:
    from flinkpy.datastream.base_stream import DataStream
    from flinkpy.datastream.keyed_stream import KeyedStream
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment

_NO_MERGE = "A merging window assigner cannot be used with a trigger that does not support merging."
_COUNT_ASSIGNERS = (CountTumblingWindowAssigner, CountSlidingWindowAssigner)

_Apply = TypeVar("_Apply")
_Process = TypeVar("_Process")


class _Windows(Generic[_Apply, _Process]):
    """What streams with and without keys share. `_Apply`, `_Process`: the two kinds of window function."""

    #: Of the functions that may be given, and how messages name them.
    _apply_class: type
    _process_class: type
    _description: str
    #: From the program's call to `__init__`: so that a warning names the program's line.
    _calls_to_here = 3

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeError(f"window_assigner should be a WindowAssigner, not {window_assigner!r}")
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._allowed_lateness = 0
        self._late_data_output_tag: OutputTag | None = None
        self._window_trigger: Trigger | None = None
        self._evictor: Evictor | None = None
        if window_assigner.is_event_time():
            for source in sources_without_watermarks(keyed_stream.transformation):
                warnings.warn(
                    f"{window_assigner}: these windows never end, as {source.display_name!r} has no watermarks; "
                    "give it a WatermarkStrategy, or call assign_timestamps_and_watermarks on the stream",
                    stacklevel=self._calls_to_here,
                )

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        return self._keyed_stream.get_type()

    # -- settings --------------------------------------------------------------------------------------------------

    def trigger(self, trigger: Trigger) -> Self:
        """Call the function of a window when this trigger says so, in place of the assigner's own."""
        if not isinstance(trigger, Trigger):
            raise TypeError(f"trigger should be a Trigger, not {trigger!r}")
        if isinstance(self._window_assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError(_NO_MERGE)
        self._window_trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep event-time windows for so long (ms) after the watermark has passed their end.

        A record that comes in this time makes its window fire again; one that comes after it is late.
        """
        if isinstance(time_ms, bool) or not isinstance(time_ms, int) or time_ms < 0:
            raise ValueError(f"The allowed lateness must be a number of ms and cannot be negative, not {time_ms!r}")
        self._allowed_lateness = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Late records go to this side output of the result; without it they are dropped."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"output_tag should be an OutputTag, not {output_tag!r}")
        self._late_data_output_tag = output_tag
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Remove records from a window before or after its function. Beyond PyFlink.

        All records of a window are kept then, also for `reduce` and `aggregate`.
        """
        if not isinstance(evictor, Evictor):
            raise TypeError(f"evictor should be an Evictor, not {evictor!r}")
        self._evictor = evictor
        return self

    # -- operations ------------------------------------------------------------------------------------------------

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: _Apply | _Process | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """The records of each window reduced to one as they come, which the window function then gets.

        Args:
            window_function: None: the reduced record is the result.
            output_type: of the window function's results; without a window function the input's.
        """
        function = checks.reduce_function(reduce_function)
        self._check_window_function(window_function)
        result_type = checks.output_type_of(output_type)
        if window_function is None and result_type is None:
            result_type = self._input_type
        description = _names(reduce_function, window_function)
        return self._operator(description, result_type, function, window_function, self._input_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction | None = None,
        window_function: _Apply | _Process | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        **aggregates: Any,
    ) -> DataStream:
        """The records of each window added to an accumulator as they come; the window function gets its result.

        Beyond PyFlink: keywords with aggregates of `flinkpy.datastream.aggregates` in place of a function aggregate
        columns, without a Python object per row: `aggregate(flights=count(), delay=mean("dep_delay"))`.

        Args:
            window_function: None: the result of the aggregate function is the result.
            output_type: of the results.
        """
        if aggregates:
            if (aggregate_function, window_function, accumulator_type, output_type) != (None,) * 4:
                raise TypeError(f"aggregate takes a function or columns ({', '.join(aggregates)}), not both")
            from flinkpy.datastream import window_aggregates

            assert isinstance(self, WindowedStream | AllWindowedStream)
            return window_aggregates.aggregate(self, aggregates)
        if not isinstance(aggregate_function, AggregateFunction):
            raise TypeError("aggregate_function should be an AggregateFunction")
        self._check_window_function(window_function)
        return self._operator(
            _names(aggregate_function, window_function),
            checks.output_type_of(output_type),
            aggregate_function,
            window_function,
            checks.output_type_of(accumulator_type),
        )

    def apply(self, window_function: _Apply, output_type: TypeInformation | None = None) -> DataStream:
        """A function over all records of each window, which are kept until then."""
        if not isinstance(window_function, self._apply_class):
            raise TypeError(f"window_function should be a {self._apply_class.__name__}")
        return self._records_operator(window_function, output_type)

    def process(self, process_window_function: _Process, output_type: TypeInformation | None = None) -> DataStream:
        """A function with time and state over all records of each window, which are kept until then."""
        if not isinstance(process_window_function, self._process_class):
            raise TypeError(f"process_window_function should be a {self._process_class.__name__}")
        return self._records_operator(process_window_function, output_type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """The sum of a field; other fields are those of the first record. Beyond PyFlink."""
        return self._field(RollingKind.SUM, "sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """The minimum of a field; other fields are those of the first record. Beyond PyFlink."""
        return self._field(RollingKind.MIN, "min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """The maximum of a field; other fields are those of the first record. Beyond PyFlink."""
        return self._field(RollingKind.MAX, "max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The record with the smallest field, the first one of several. Beyond PyFlink."""
        return self._field(RollingKind.MIN_BY, "min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The record with the largest field, the first one of several. Beyond PyFlink."""
        return self._field(RollingKind.MAX_BY, "max_by", position_to_max_by)

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _input_type(self) -> TypeInformation | None:
        return self._keyed_stream.transformation.output_type

    def _check_window_function(self, window_function: Any) -> None:
        classes = (self._apply_class, self._process_class)
        if window_function is not None and not isinstance(window_function, classes):
            raise TypeError(f"window_function should be a {classes[0].__name__} or {classes[1].__name__}")

    def _field(self, kind: RollingKind, what: str, position: int | str) -> DataStream:
        checked = checks.check_aggregated_position(what, position, self._input_type)
        return self._operator(what, self._input_type, FieldAggregation(kind, checked), None, self._input_type)

    def _records_operator(self, function: Any, output_type: TypeInformation | None) -> DataStream:
        return self._operator(
            type(function).__name__, checks.output_type_of(output_type), None, function, self._input_type
        )

    def _trigger(self) -> Trigger:
        """What the program set, or the assigner's own. A count window that fired gets no records any more."""
        if self._window_trigger is not None:
            return self._window_trigger
        trigger = self._window_assigner.get_default_trigger(self.get_execution_environment())
        if isinstance(self._window_assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError(_NO_MERGE)
        return PurgingTrigger.of(trigger) if isinstance(self._window_assigner, _COUNT_ASSIGNERS) else trigger

    def _operator(
        self,
        description: str,
        output_type: TypeInformation | None,
        aggregation: Any,
        function: Any,
        content_type: TypeInformation | None,
    ) -> DataStream:
        from flinkpy.datastream.base_stream import DataStream

        keyed, assigner, trigger = self._keyed_stream, self._window_assigner, self._trigger()
        spec = WindowSpec(
            keyed.key_selector,
            assigner,
            trigger,
            aggregation,
            function,
            self._evictor,
            self._allowed_lateness,
            None if self._late_data_output_tag is None else self._late_data_output_tag.tag_id,
            content_type,
            input_types=(self._input_type,),
            output_type=output_type,
            key_type=keyed.key_type,
        )
        operator = OperatorTransformation(type(assigner).__name__, spec, (keyed.transformation,))
        operator.description = f"{self._description}({assigner}, {type(trigger).__name__}, {description})"
        self._settle(operator)
        environment = self.get_execution_environment()
        environment.add_operator(operator)
        return DataStream(operator, environment)

    def _settle(self, operator: OperatorTransformation) -> None:
        """What else is to be said of the operator."""
        return


class WindowedStream(_Windows[WindowFunction, ProcessWindowFunction]):
    """Windows of each key of a stream."""

    _apply_class = WindowFunction
    _process_class = ProcessWindowFunction
    _description = "Window"


class AllWindowedStream(_Windows[AllWindowFunction, ProcessAllWindowFunction]):
    """Windows of a whole stream, which one subtask does."""

    _apply_class = AllWindowFunction
    _process_class = ProcessAllWindowFunction
    _description = "AllWindow"
    _calls_to_here = 4

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner) -> None:
        super().__init__(data_stream.key_by(_NullByteKeySelector()), window_assigner)

    def _settle(self, operator: OperatorTransformation) -> None:
        operator.force_non_parallel()


class _NullByteKeySelector(KeySelector):
    """One key for all records."""

    def get_key(self, value: Any) -> int:
        return 0


def _names(*functions: Any) -> str:
    return ", ".join(type(function).__name__ for function in functions if function is not None)
