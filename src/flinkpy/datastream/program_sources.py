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
        """Creates a stream of the arguments, as `from_collection` does for a list of them. Beyond PyFlink.

        Raises:
            ValueError: there is no argument.
        """
        if not elements:
            raise ValueError("from_elements needs at least one element; an empty stream is from_collection([], type)")
        return self.from_collection(list(elements), type_info)

    def from_data(self, *data: Any, type_info: TypeInformation | None = None) -> DataStream:
        """Creates a stream of the elements of one list, or of the arguments themselves. Beyond PyFlink.

        Args:
            data: one list or tuple of elements; or the elements.
            type_info: the type of the elements. None pickles them.
        """
        if len(data) == 1 and isinstance(data[0], (list, tuple)):
            return self.from_collection(list(data[0]), type_info)
        return self.from_elements(*data, type_info=type_info)

    def from_parallel_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """Creates a stream of the elements of a collection, split among all subtasks. Beyond PyFlink.

        Each subtask emits its part in the order of the collection.

        Args:
            collection: a list or another iterable.
            type_info: the type of the elements. None pickles them.
        """
        from flinkpy.connectors.collection import CollectionSource

        declared = checks.output_type_of(type_info)
        source = CollectionSource(elements_of(collection, "from_parallel_collection"), declared, is_parallel=True)
        return self._source(source, None, "Parallel Collection Source", declared)

    def socket_text_stream(self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> DataStream:
        """Creates a stream of the text that a server sends over a socket. Beyond PyFlink.

        One subtask reads the socket. A socket cannot be read again: after a failure, text that was read but not
        processed is lost.

        Args:
            hostname: the host of the server.
            port: the port of the server.
            delimiter: the end of each record. It is not part of the record.
            max_retry: the number of connections, half a second apart, after which the stream ends if the server closes
                each of them. 0 connects once, -1 connects again forever.

        Returns:
            a stream of texts, decoded as UTF-8.
        """
        from flinkpy.connectors.socket_source import SocketTextStreamFunction

        return self.add_source(SocketTextStreamFunction(hostname, port, delimiter, max_retry), "Socket Stream")

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> DataStream:
        """Creates a stream of the records of a SourceFunction: a Java one in PyFlink, a Python one in flinkpy.

        The function runs in one subtask, unless it is a ParallelSourceFunction or its `to_source` returns a source with
        splits.

        Args:
            source_func: the SourceFunction.
            source_name: the name of the operator.
            type_info: the type of the records. None takes the type that the function declares.

        Raises:
            UnsupportedOperationError: `source_func` is the name of a Java class.
            TypeError: it is not a SourceFunction.
        """
        from flinkpy.datastream.source_sink_functions import SourceFunction

        if isinstance(source_func, str):
            source_func = SourceFunction(source_func)
        if not isinstance(source_func, SourceFunction):
            raise TypeError(
                f"add_source needs a flinkpy.datastream.functions.SourceFunction, not {type(source_func).__name__}; "
                "pass other sources to from_source"
            )
        source = source_func.to_source()
        declared = checks.output_type_of(type_info) or checks.output_type_of(source.produced_type)
        # The legacy functions of some connectors, such as FlinkKafkaConsumer, carry a watermark strategy.
        strategy = getattr(source_func, "watermark_strategy", None)
        return in_its_subtasks(self._source(source, strategy, source_name, declared), source)

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> DataStream:
        """Creates a stream of the records of an input format, such as AvroInputFormat.

        Args:
            input_format: an object with `to_source` and `get_produced_type`.
            type_info: the type of the records. None takes the type that the format declares.

        Raises:
            UnsupportedOperationError: it is something else. PyFlink's InputFormats are Java objects.
        """
        if not hasattr(input_format, "to_source"):
            raise UnsupportedOperationError(
                "create_input: flinkpy has no JVM and cannot run a Java InputFormat; use from_source"
            )
        declared = checks.output_type_of(type_info) or checks.output_type_of(input_format.get_produced_type())
        return self._source(input_format.to_source(), None, "Custom File Source", declared)


def in_its_subtasks(stream: DataStream, source: SourceBase) -> DataStream:
    """Runs the source in one subtask if it is a SourceFunction that is not parallel.

    Such a function would emit the same records in every subtask.
    """
    from flinkpy.datastream.source_sink_functions import ParallelSourceFunction

    if source.source_function is not None and not isinstance(source.source_function, ParallelSourceFunction):
        stream.force_non_parallel()
    return stream


def elements_of(collection: Any, method: str) -> list[Any]:
    """Returns the elements as a list. Raises: TypeError if it is not an iterable, or is a text or a dict."""
    if isinstance(collection, (str, bytes, dict)) or not hasattr(collection, "__iter__"):
        raise TypeError(f"{method} needs a list of elements, not a {type(collection).__name__}")
    return list(collection)
