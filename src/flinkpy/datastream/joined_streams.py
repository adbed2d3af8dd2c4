"""JoinedStreams: joins two streams by key and window. Beyond PyFlink.

```
first.join(second).where(key).equal_to(key).window(assigner).apply(function)
```

Source: org.apache.flink.streaming.api.datastream.JoinedStreams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.datastream import co_grouped_streams as paired
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.connected_streams import Selector
from flinkpy.datastream.functions import FlatJoinFunction, JoinFunction

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.datastream.keyed_stream import KeyedStream
    from flinkpy.datastream.window import WindowAssigner


class JoinedStreams(paired.PairedStreams):
    """Two streams that are to be joined by key and window. `DataStream.join` creates it."""

    def where(self, key_selector: Selector, key_type: TypeInformation | None = None) -> JoinedStreams.Where:
        """Sets the key of the first stream, as `DataStream.key_by` does."""
        return JoinedStreams.Where(self._where(key_selector, key_type), self._input2)

    class Where(paired.PairedKeys):
        def equal_to(self, key_selector: Selector, key_type: TypeInformation | None = None) -> JoinedStreams.EqualTo:
            """Sets the key of the second stream. It must be of the same type."""
            return JoinedStreams.EqualTo(self._first, self._equal_to(key_selector, key_type))

    class EqualTo:
        def __init__(self, first: KeyedStream, second: KeyedStream) -> None:
            self._first = first
            self._second = second

        def window(self, assigner: WindowAssigner) -> JoinedStreams.WithWindow:
            return JoinedStreams.WithWindow(self._first, self._second, assigner)

    class WithWindow(paired.WithWindow):
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
