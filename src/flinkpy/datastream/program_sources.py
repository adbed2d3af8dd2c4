"""The sources that a StreamExecutionEnvironment makes by a method of their own, beyond those of PyFlink.

Source: org.apache.flink.streaming.api.environment.StreamExecutionEnvironment.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.datastream import function_checks as checks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.common.watermark_strategy import WatermarkStrategy
    from flinkpy.connector_api.source import SourceBase
    from flinkpy.datastream.base_stream import DataStream


class ProgramSources:
    """What StreamExecutionEnvironment inherits."""

    @abstractmethod
    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> DataStream: ...

    @abstractmethod
    def _source(
        self,
        source: SourceBase,
        watermark_strategy: WatermarkStrategy | None,
        name: str,
        type_info: TypeInformation | None,
    ) -> DataStream: ...

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        """The elements in their order, in one subtask; as `from_collection` of a list of them."""
        if not elements:
            raise ValueError("from_elements needs at least one element; an empty stream is from_collection([], type)")
        return self.from_collection(list(elements), type_info)

    def from_data(self, *data: Any, type_info: TypeInformation | None = None) -> DataStream:
        """The elements of one list, or the elements themselves where there are several or it is no list."""
        if len(data) == 1 and isinstance(data[0], (list, tuple)):
            return self.from_collection(list(data[0]), type_info)
        return self.from_elements(*data, type_info=type_info)

    def from_parallel_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """The elements of a list, shared by all subtasks: each emits a part of them in their order."""
        from flinkpy.connectors.collection import CollectionSource

        declared = checks.output_type_of(type_info)
        source = CollectionSource(elements_of(collection, "from_parallel_collection"), declared, is_parallel=True)
        return self._source(source, None, "Parallel Collection Source", declared)

    def socket_text_stream(self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> DataStream:
        """What a server sends, as text in UTF-8, cut at the delimiter; in one subtask.

        Args:
            max_retry: how often to connect altogether before the stream ends, when the server closes the connection,
                half a second apart; 0: once, -1: for ever.

        What was read and not processed when a failure comes is lost: a socket cannot be read again.
        """
        from flinkpy.connectors.socket_source import SocketTextStreamFunction

        return self.add_source(SocketTextStreamFunction(hostname, port, delimiter, max_retry), "Socket Stream")

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> DataStream:
        """The records of a SourceFunction written in Python; in PyFlink, of one of Java's.

        It runs in one subtask, unless it is a ParallelSourceFunction or its `to_source` gives a source with splits.

        Raises: UnsupportedOperationError for the name of a Java class.
        """
        from flinkpy.datastream.source_sink_functions import SourceFunction

        if isinstance(source_func, str):
            source_func = SourceFunction(source_func)
        if not isinstance(source_func, SourceFunction):
            raise TypeError(
                f"add_source needs a flinkpy.datastream.functions.SourceFunction, not {type(source_func).__name__}; "
                "other sources are for from_source"
            )
        source = source_func.to_source()
        declared = checks.output_type_of(type_info) or checks.output_type_of(source.produced_type)
        # Of connectors whose older names have watermarks of their own.
        strategy = getattr(source_func, "watermark_strategy", None)
        return in_its_subtasks(self._source(source, strategy, source_name, declared), source)

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> DataStream:
        """The records of an AvroInputFormat, or of another object with `to_source` and `get_produced_type`.

        Raises: UnsupportedOperationError for anything else: PyFlink's own InputFormats are Java objects.
        """
        if not hasattr(input_format, "to_source"):
            raise UnsupportedOperationError(
                "create_input: an InputFormat of Java cannot be used, flinkpy has no JVM; use from_source"
            )
        declared = checks.output_type_of(type_info) or checks.output_type_of(input_format.get_produced_type())
        return self._source(input_format.to_source(), None, "Custom File Source", declared)


def in_its_subtasks(stream: DataStream, source: SourceBase) -> DataStream:
    """A SourceFunction makes the same records in every subtask, unless it says that it is parallel."""
    from flinkpy.datastream.source_sink_functions import ParallelSourceFunction

    if source.source_function is not None and not isinstance(source.source_function, ParallelSourceFunction):
        stream.force_non_parallel()
    return stream


def elements_of(collection: Any, method: str) -> list[Any]:
    """Raises: TypeError where it is no list, or a text or a dict, which somebody has mistaken for one."""
    if isinstance(collection, (str, bytes, dict)) or not hasattr(collection, "__iter__"):
        raise TypeError(f"{method} needs a list of elements, not a {type(collection).__name__}")
    return list(collection)
