"""JoinedStreams and CoGroupedStreams: join, or group, the records of two streams by key and window. Beyond PyFlink.

```
first.join(second).where(key).equal_to(key).window(assigner).apply(function)
first.co_group(second).where(key).equal_to(key).window(assigner).apply(function)
```

Source: org.apache.flink.streaming.api.datastream.{JoinedStreams,CoGroupedStreams}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from flinkpy.common.errors import UserError
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.connected_streams import (
    Selector,
    check_same_environment,
    common_key_type,
    two_inputs,
    with_common_key_type,
)
from flinkpy.datastream.windowed_stream import WindowedStream
from flinkpy.functions.stream_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from flinkpy.graph.operator_specs import CoGroupSpec, WindowSpec

if TYPE_CHECKING:
    from flinkpy.common.time import Time
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.datastream.keyed_stream import KeyedStream
    from flinkpy.functions.window_assigners import WindowAssigner
    from flinkpy.functions.window_evictors import Evictor
    from flinkpy.functions.window_triggers import Trigger


class PairedWindows(WindowedStream):
    """The settings of the windows of both streams. It inherits the checks of WindowedStream."""

    def spec(self) -> WindowSpec:
        """Returns the spec of windows over pairs (input, record), which the operator makes of its records."""
        keyed = self._keyed_stream
        return WindowSpec(
            keyed.key_selector,
            self._window_assigner,
            self._trigger(),
            None,
            None,
            self._evictor,
            self._allowed_lateness,
            key_type=keyed.key_type,
        )


class WithWindow:
    """Two keyed streams with windows, to which a function can be applied.

    Triggers, evictors and assigners that look at records get pairs (input, record), where `input` is 0 or 1.
    """

    def __init__(self, first: KeyedStream, second: KeyedStream, window_assigner: WindowAssigner) -> None:
        self._first = first
        self._second = second
        self._windows = PairedWindows(first, window_assigner)

    def trigger(self, trigger: Trigger) -> Self:
        """Sets the trigger that decides when a window fires, in place of the assigner's default trigger."""
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Sets an evictor, which removes records from a window before or after its function."""
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, new_lateness: Time | int) -> Self:
        """Sets how long an event-time window is kept after the watermark has passed its end.

        Args:
            new_lateness: a Time, or a number of milliseconds.
        """
        lateness_ms = new_lateness if isinstance(new_lateness, int) else new_lateness.to_milliseconds()
        self._windows.allowed_lateness(lateness_ms)
        return self

    def _apply(self, name: str, function: Any, kind: str, output_type: TypeInformation | None) -> DataStream:
        first, second = with_common_key_type(self._first, self._second)
        spec = CoGroupSpec(
            (first.key_selector, second.key_selector),
            function,
            kind,
            self._windows.spec(),
            key_type=first.key_type,
            input_types=(first.transformation.output_type, second.transformation.output_type),
            output_type=checks.output_type_of(output_type),
        )
        return two_inputs(name, spec, first, second)


class PairedStreams:
    """Two streams of any types, before their keys are known."""

    def __init__(self, input1: DataStream, input2: DataStream) -> None:
        for stream in (input1, input2):
            if not isinstance(stream, DataStream):
                raise TypeError(f"the input must be a DataStream, not {stream!r}")
        check_same_environment(input1, input2)
        self._input1 = input1
        self._input2 = input2

    def _where(self, key_selector: Selector, key_type: TypeInformation | None) -> KeyedStream:
        return self._input1.key_by(key_selector, key_type)


class PairedKeys:
    """A keyed stream and a stream without keys."""

    def __init__(self, first: KeyedStream, other: DataStream) -> None:
        self._first = first
        self._other = other

    def _equal_to(self, key_selector: Selector, key_type: TypeInformation | None) -> KeyedStream:
        second = self._other.key_by(key_selector, key_type)
        try:
            common_key_type(self._first, second)
        except TypeError as error:
            raise UserError(f"The keys for the two inputs are not equal: {error}") from error
        return second


class CoGroupedStreams(PairedStreams):
    """Two streams to group by key and window. `DataStream.co_group` creates it."""

    def where(self, key_selector: Selector, key_type: TypeInformation | None = None) -> CoGroupedStreams.Where:
        """Sets the key of the first stream, as `DataStream.key_by` does."""
        return CoGroupedStreams.Where(self._where(key_selector, key_type), self._input2)

    class Where(PairedKeys):
        def equal_to(self, key_selector: Selector, key_type: TypeInformation | None = None) -> CoGroupedStreams.EqualTo:
            """Sets the key of the second stream. It must be of the same type."""
            return CoGroupedStreams.EqualTo(self._first, self._equal_to(key_selector, key_type))

    class EqualTo:
        def __init__(self, first: KeyedStream, second: KeyedStream) -> None:
            self._first = first
            self._second = second

        def window(self, assigner: WindowAssigner) -> CoGroupedStreams.WithWindow:
            return CoGroupedStreams.WithWindow(self._first, self._second, assigner)

    class WithWindow(WithWindow):
        def apply(self, function: CoGroupFunction, output_type: TypeInformation | None = None) -> DataStream:
            """Applies a CoGroupFunction to the records of each key and window, even if one stream has none.

            Args:
                function: the function.
                output_type: the type of the results. None pickles them.
            """
            if not isinstance(function, CoGroupFunction):
                raise TypeError("The input must be a CoGroupFunction")
            return self._apply("CoGroup", function, "CO_GROUP", output_type)


class JoinedStreams(PairedStreams):
    """Two streams to join by key and window. `DataStream.join` creates it."""

    def where(self, key_selector: Selector, key_type: TypeInformation | None = None) -> JoinedStreams.Where:
        """Sets the key of the first stream, as `DataStream.key_by` does."""
        return JoinedStreams.Where(self._where(key_selector, key_type), self._input2)

    class Where(PairedKeys):
        def equal_to(self, key_selector: Selector, key_type: TypeInformation | None = None) -> JoinedStreams.EqualTo:
            """Sets the key of the second stream. It must be of the same type."""
            return JoinedStreams.EqualTo(self._first, self._equal_to(key_selector, key_type))

    class EqualTo:
        def __init__(self, first: KeyedStream, second: KeyedStream) -> None:
            self._first = first
            self._second = second

        def window(self, assigner: WindowAssigner) -> JoinedStreams.WithWindow:
            return JoinedStreams.WithWindow(self._first, self._second, assigner)

    class WithWindow(WithWindow):
        def apply(
            self,
            function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
            output_type: TypeInformation | None = None,
        ) -> DataStream:
            """Applies a function to each pair of records with the same key and window.

            A record without a partner in its window has no results.

            Args:
                function: a JoinFunction or a function of two records, with one result per pair; or a FlatJoinFunction,
                    with any number of results.
                output_type: the type of the results. None pickles them.
            """
            if isinstance(function, FlatJoinFunction):
                return self._apply("Join", function, "FLAT_JOIN", output_type)
            return self._apply("Join", checks.join_function(function), "JOIN", output_type)
