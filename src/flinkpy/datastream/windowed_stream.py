"""WindowedStream and AllWindowedStream: streams grouped into windows, and the operations on each window.

Source: pyflink.datastream.{WindowedStream,AllWindowedStream}. Beyond PyFlink: `evictor`, `sum`, `min`, `max`, `min_by`,
`max_by`, and `aggregate` with column aggregates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from flinkpy.common.typeinfo import TypeInformation
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.program_checks import sources_without_watermarks
from flinkpy.functions.output_tag import OutputTag
from flinkpy.functions.stream_functions import AggregateFunction, KeySelector, ReduceFunction
from flinkpy.functions.window_assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    MergingWindowAssigner,
    WindowAssigner,
)
from flinkpy.functions.window_evictors import Evictor
from flinkpy.functions.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkpy.functions.window_triggers import PurgingTrigger, Trigger
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
    """The base of windows with and without keys. `_Apply` and `_Process` are the two kinds of window function."""

    #: The classes of the two kinds of window function, and the name of the operation in descriptions.
    _apply_class: type
    _process_class: type
    _description: str
    #: The number of frames from `__init__` to the program's call, so that a warning names the program's line.
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
                    f"{window_assigner}: these windows never end, because {source.display_name!r} has no watermarks; "
                    "give it a WatermarkStrategy, or call assign_timestamps_and_watermarks on the stream",
                    stacklevel=self._calls_to_here,
                )

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Returns the type of the stream's records."""
        return self._keyed_stream.get_type()

    # -- settings --------------------------------------------------------------------------------------------------

    def trigger(self, trigger: Trigger) -> Self:
        """Sets the trigger that decides when a window fires, in place of the assigner's default trigger.

        Raises:
            TypeError: it is not a Trigger, or it cannot merge and the windows of the assigner merge.
        """
        if not isinstance(trigger, Trigger):
            raise TypeError(f"trigger should be a Trigger, not {trigger!r}")
        if isinstance(self._window_assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError(_NO_MERGE)
        self._window_trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Sets how long an event-time window is kept after the watermark has passed its end.

        A record that arrives within this time makes its window fire again. A record that arrives later is late.

        Args:
            time_ms: the time in milliseconds; 0 by default.

        Raises:
            ValueError: it is not a number of milliseconds of at least 0.
        """
        if isinstance(time_ms, bool) or not isinstance(time_ms, int) or time_ms < 0:
            raise ValueError(f"The allowed lateness must be a number of ms and cannot be negative, not {time_ms!r}")
        self._allowed_lateness = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Sends late records to a side output of the resulting stream. By default they are dropped."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"output_tag should be an OutputTag, not {output_tag!r}")
        self._late_data_output_tag = output_tag
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Sets an evictor, which removes records from a window before or after its function. Beyond PyFlink.

        With an evictor all records of a window are kept in state, also for `reduce` and `aggregate`.
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
        """Reduces the records of each window to one as they arrive.

        Args:
            reduce_function: a function of two records that returns one of the same type, or a ReduceFunction.
            window_function: a function that gets the reduced record when the window fires. Without it the reduced
                record is the result.
            output_type: the type of the window function's results. Without a window function it is the input's type.

        Returns:
            the stream of the results.

        Raises:
            TypeError: a function is of another class.

        Example:
            ```
            keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).reduce(lambda a, b: (a[0], a[1] + b[1]))
            ```
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
        """Adds the records of each window to an accumulator as they arrive.

        Args:
            aggregate_function: the function of the accumulator.
            window_function: a function that gets the result of the aggregate function when the window fires. Without it
                that is the result.
            accumulator_type: the type of the accumulator in state. None pickles it.
            output_type: the type of the results. None pickles them.
            aggregates: beyond PyFlink, in place of a function: aggregates of `flinkpy.datastream.aggregates` by the
                name of their column, which need no Python object per row.

        Returns:
            the stream of the results. With `aggregates`, ROWs of the key columns, `window_start`, `window_end` and the
            aggregates.

        Raises:
            TypeError: a function is of another class, or there are both a function and columns.
            UserError: with `aggregates`, the stream or its key are not columns, or there is no such column.

        Example:
            ```
            flights.key_by("carrier").window(assigner).aggregate(flights=count(), delay=mean("dep_delay"))
            ```
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
        """Applies a window function to all records of each window, which are kept in state until it ends.

        Args:
            window_function: a WindowFunction; an AllWindowFunction for a stream without keys.
            output_type: the type of the results. None pickles them.
        """
        if not isinstance(window_function, self._apply_class):
            raise TypeError(f"window_function should be a {self._apply_class.__name__}")
        return self._records_operator(window_function, output_type)

    def process(self, process_window_function: _Process, output_type: TypeInformation | None = None) -> DataStream:
        """Applies a process window function to all records of each window, which are kept in state until it ends.

        Args:
            process_window_function: a ProcessWindowFunction, or a ProcessAllWindowFunction for a stream without keys.
                It has access to time, state and side outputs.
            output_type: the type of the results. None pickles them.
        """
        if not isinstance(process_window_function, self._process_class):
            raise TypeError(f"process_window_function should be a {self._process_class.__name__}")
        return self._records_operator(process_window_function, output_type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Returns the sum of a field per window. The other fields are those of the first record. Beyond PyFlink."""
        return self._field(RollingKind.SUM, "sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Returns the minimum of a field per window. The other fields are those of the first record. Beyond PyFlink."""
        return self._field(RollingKind.MIN, "min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Returns the maximum of a field per window. The other fields are those of the first record. Beyond PyFlink."""
        return self._field(RollingKind.MAX, "max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Returns the record with the smallest field per window; the first one if several are equal. Beyond PyFlink."""
        return self._field(RollingKind.MIN_BY, "min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Returns the record with the largest field per window; the first one if several are equal. Beyond PyFlink."""
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
        """Returns the trigger of the program, or the assigner's default. A count window is purged when it fires."""
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
        """Applies the settings that this kind of windows requires to the operator."""
        return


class WindowedStream(_Windows[WindowFunction, ProcessWindowFunction]):
    """A keyed stream whose records are grouped into windows per key. `KeyedStream.window` creates it."""

    _apply_class = WindowFunction
    _process_class = ProcessWindowFunction
    _description = "Window"


class AllWindowedStream(_Windows[AllWindowFunction, ProcessAllWindowFunction]):
    """A stream whose records are grouped into windows in one subtask. `DataStream.window_all` creates it."""

    _apply_class = AllWindowFunction
    _process_class = ProcessAllWindowFunction
    _description = "AllWindow"
    _calls_to_here = 4

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner) -> None:
        super().__init__(data_stream.key_by(_NullByteKeySelector()), window_assigner)

    def _settle(self, operator: OperatorTransformation) -> None:
        operator.force_non_parallel()


class _NullByteKeySelector(KeySelector):
    """A selector that gives all records the same key."""

    def get_key(self, value: Any) -> int:
        return 0


def _names(*functions: Any) -> str:
    return ", ".join(type(function).__name__ for function in functions if function is not None)
