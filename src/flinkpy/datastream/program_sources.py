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

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> DataStream:
        """The records of a SourceFunction written in Python; in PyFlink, of one of Java's.

        It runs in one subtask, unless it is a ParallelSourceFunction or its `to_source` gives a source with splits.

        Raises: UnsupportedOperationError for the name of a Java class.
        """
        from flinkpy.datastream.source_sink_functions import ParallelSourceFunction, SourceFunction

        if isinstance(source_func, str):
            source_func = SourceFunction(source_func)
        if not isinstance(source_func, SourceFunction):
            raise TypeError(
                f"add_source needs a flinkpy.datastream.functions.SourceFunction, not {type(source_func).__name__}; "
                "other sources are for from_source"
            )
        source = source_func.to_source()
        declared = checks.output_type_of(type_info) or checks.output_type_of(source.produced_type)
        stream = self._source(source, None, source_name, declared)
        if source.source_function is not None and not isinstance(source_func, ParallelSourceFunction):
            stream.force_non_parallel()
        return stream

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
