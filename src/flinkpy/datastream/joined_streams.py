"""JoinedStreams: pairs of records of one key and window of two streams. Beyond PyFlink.

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
    def where(self, key_selector: Selector, key_type: TypeInformation | None = None) -> JoinedStreams.Where:
        """The key of the first stream's records; as of `key_by`."""
        return JoinedStreams.Where(self._where(key_selector, key_type), self._input2)

    class Where(paired.PairedKeys):
        def equal_to(self, key_selector: Selector, key_type: TypeInformation | None = None) -> JoinedStreams.EqualTo:
            """The key of the second stream's records, of the same type."""
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
            """A JoinFunction, or a callable, gives one result per pair; a FlatJoinFunction any number.

            A record without a partner in its window has no results.
            """
            if isinstance(function, FlatJoinFunction):
                return self._apply("Join", function, "FLAT_JOIN", output_type)
            return self._apply("Join", checks.join_function(function), "JOIN", output_type)
