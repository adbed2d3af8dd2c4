"""StreamExtensions: what a DataStream has beyond PyFlink: columns, and operations of Java's DataStream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.column_operations import ColumnOperations
from flinkpy.expressions.nodes import Expression
from flinkpy.expressions.types import result_type
from flinkpy.graph import operator_specs as specs
from flinkpy.graph import partitioning
from flinkpy.graph.partitioning import Partitioning

if TYPE_CHECKING:
    from flinkpy.common.serialization import SerializationSchema
    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.datastream.base_stream import DataStream, DataStreamSink
    from flinkpy.datastream.closeable_iterator import CloseableIterator
    from flinkpy.datastream.co_grouped_streams import CoGroupedStreams
    from flinkpy.datastream.joined_streams import JoinedStreams
    from flinkpy.datastream.partition_windowed_stream import PartitionWindowedStream
    from flinkpy.graph.transformation import Transformation


class StreamExtensions(ColumnOperations):
    """A part of DataStream."""

    _transformation: Transformation

    if TYPE_CHECKING:

        def _one_input(self, name: str, spec: specs.OperatorSpec) -> DataStream: ...
        def _partitioned(self, how: Partitioning) -> DataStream: ...
        def _sink(self, name: str, sink: SinkBase) -> DataStreamSink: ...
        def _types(self, output_type: TypeInformation | None) -> dict[str, Any]: ...

    # -- sinks -----------------------------------------------------------------------------------------------------

    def print_to_err(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints each record as `print` does, to the standard error. Beyond PyFlink (Java's `printToErr`)."""
        from flinkpy.connectors.print_sink import PrintSink

        return self._sink("Sink: Print to Std. Err", PrintSink(sink_identifier, std_err=True))

    def write_to_socket(self, hostname: str, port: int, schema: SerializationSchema) -> DataStreamSink:
        """Sends each record to a server over one TCP connection. Beyond PyFlink (Java's `writeToSocket`).

        A broken connection fails the job.

        Args:
            hostname: the host of the server.
            port: the port of the server.
            schema: serializes each record to the bytes that are sent.
        """
        from flinkpy.connectors.socket_sink import SocketSink

        return self._sink("Sink: Socket", SocketSink(hostname, port, schema)).set_parallelism(1)

    # -- columns ---------------------------------------------------------------------------------------------------

    def map_batches(self, func: Callable[[Any], Any], output_type: Any = None) -> DataStream:
        """Applies a function to batches of columns (a vectorised map). Beyond PyFlink.

        Args:
            func: `func(pyarrow.RecordBatch) -> pyarrow.RecordBatch`. The result may have any number of rows. If the
                number differs from that of the input, the records have no timestamps.
            output_type: a TypeInformation or a `pyarrow.Schema`. None means that the result has this stream's columns.

        Raises:
            TypeError: the stream has no declared type, or `func` is not a function.

        Example:
            ```
            def double(batch):
                return pa.RecordBatch.from_arrays([pc.multiply(batch["price"], 2)], names=["price"])

            prices.map_batches(double)
            ```
        """
        self._check_columns("map_batches")
        if isinstance(func, type) or not callable(func):
            raise TypeError("The input must be a callable function of a RecordBatch")
        types = self._types(_column_type(output_type, self._transformation.output_type))
        return self._one_input("Map Batches", specs.MapBatchesSpec(func, **types))

    def flat_map_batches(self, func: Callable[[Any], Any], output_type: Any = None) -> DataStream:
        """Applies a function to batches that returns any number of batches (a vectorised flat map). Beyond PyFlink.

        The resulting records have no timestamps.

        Args:
            func: a function of a `pyarrow.RecordBatch` that returns an iterable of RecordBatches or yields them.
            output_type: a TypeInformation or a `pyarrow.Schema`. None means that the results have this stream's
                columns.

        Raises:
            TypeError: the stream has no declared type, or `func` is not a function.
        """
        self._check_columns("flat_map_batches")
        if isinstance(func, type) or not callable(func):
            raise TypeError("The input must be a callable function of a RecordBatch")
        types = self._types(_column_type(output_type, self._transformation.output_type))
        return self._one_input("Flat Map Batches", specs.FlatMapBatchesSpec(func, **types))

    def map_columns(self, **columns: Any) -> DataStream:
        """Adds columns, or replaces them, with functions that numba compiles. Beyond PyFlink.

        Args:
            columns: functions of `flinkpy.datastream.compiled`, by the name of the column. All functions see the
                columns of the input.

        Example:
            ```
            orders.map_columns(total=compiled(lambda price, quantity: price * quantity, Types.DOUBLE()))
            ```
        """
        from flinkpy.datastream.compiled import AddColumns, type_with_columns

        types = self._types(type_with_columns(self._transformation.output_type, columns))
        return self._one_input("Map Columns", specs.MapBatchesSpec(AddColumns(columns), **types))

    def filter_batches(self, func: Any) -> DataStream:
        """Keeps the rows of each batch that meet a condition (a vectorised filter). Beyond PyFlink.

        Args:
            func: an expression of `flinkpy.datastream.expressions`, such as `col("price") > 10`, which can also be
                pushed down into sources; an Arrow compute expression; or a function of a `pyarrow.RecordBatch` that
                returns an Arrow compute expression, or a boolean Arrow or NumPy array with one element per row.

        Raises:
            TypeError: the stream has no declared type, or `func` is none of these.
            UserError: the expression names a missing column, or is not a BOOLEAN.
        """
        if isinstance(func, Expression):
            return self._filter_expression(func)
        self._check_columns("filter_batches")
        function = func if callable(func) and not isinstance(func, type) else _constant_expression(func)
        types = self._types(self._transformation.output_type)
        return self._one_input("Filter Batches", specs.FilterBatchesSpec(function, **types))

    def _filter_expression(self, condition: Expression) -> DataStream:
        try:
            kind = result_type(condition, self._columns("filter_batches"))
        except UserError as error:
            raise UserError(f"filter_batches: {error.message}") from None
        if kind != Types.BOOLEAN():
            raise UserError(f"filter_batches: {condition} is a {kind!r}, not a BOOLEAN")
        types = self._types(self._transformation.output_type)
        return self._beside("Filter", specs.FilterBatchesSpec(None, condition, **types))

    # -- two streams -----------------------------------------------------------------------------------------------

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Joins the records of two streams that have the same key and fall into the same window. Beyond PyFlink.

        Example:
            ```
            orders.join(payments).where(order_id).equal_to(order_id).window(assigner).apply(pair_them)
            ```
        """
        from flinkpy.datastream.joined_streams import JoinedStreams

        return JoinedStreams(self, other_stream)  # type: ignore[arg-type]

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Groups the records of two streams by key and window, for a CoGroupFunction. Beyond PyFlink.

        It is used as `join` is.
        """
        from flinkpy.datastream.co_grouped_streams import CoGroupedStreams

        return CoGroupedStreams(self, other_stream)  # type: ignore[arg-type]

    # -- partitions ------------------------------------------------------------------------------------------------

    def global_(self) -> DataStream:
        """Sends all records to the first subtask of the next operator. Beyond PyFlink (Java's `global`)."""
        return self._partitioned(Partitioning(partitioning.GLOBAL))

    def full_window_partition(self) -> PartitionWindowedStream:
        """Collects all records of each subtask into one window, which ends when the stream ends. Beyond PyFlink."""
        from flinkpy.datastream.partition_windowed_stream import NonKeyedPartitionWindowedStream

        return NonKeyedPartitionWindowedStream(self)  # type: ignore[arg-type]

    # -- what it is ------------------------------------------------------------------------------------------------

    def returns(self, type_info: TypeInformation | list[TypeInformation]) -> DataStream:
        """Declares the type of the results of the last operation, as its `output_type` does. Beyond PyFlink.

        Call it before another operation uses this stream.

        Args:
            type_info: the type. A list of types is a ROW type.

        Raises:
            TypeError: the operation determines the type of its results itself (a filter, a reduce, ...).
            UserError: another operation uses the stream already.
        """
        from flinkpy.datastream.declared_types import declare_type

        declare_type(self, type_info)  # type: ignore[arg-type]
        return self  # type: ignore[return-value]

    def get_id(self) -> int:
        """Returns the id of the stream, unique in its program. Beyond PyFlink."""
        return self._transformation.id

    def get_parallelism(self) -> int:
        """Returns the parallelism of the operator that produces the stream. Beyond PyFlink."""
        transformation = self._transformation
        while (parallelism := getattr(transformation, "parallelism", None)) is None and transformation.inputs:
            transformation = transformation.inputs[0]
        return 1 if parallelism is None else parallelism

    def collect_async(self) -> CloseableIterator:
        """Returns an iterator over the records of this stream, for a job that is started later. Beyond PyFlink.

        The records arrive after `execute_async` of the environment. Closing the iterator before its end cancels the
        job.
        """
        from flinkpy.datastream.closeable_iterator import CloseableIterator

        stream: DataStream = self  # type: ignore[assignment]
        return CloseableIterator(stream.get_execution_environment().collect_later(stream), stream.get_type())

    def _check_columns(self, method: str) -> None:
        if self._transformation.output_type is None:
            raise TypeError(f"{method} works on columns, but this stream has no declared type; pass an output_type")


def _column_type(output_type: Any, input_type: TypeInformation | None) -> TypeInformation | None:
    if output_type is None:
        return input_type
    if isinstance(output_type, (TypeInformation, list)):
        return checks.output_type_of(output_type)
    import pyarrow as pa

    if not isinstance(output_type, pa.Schema):
        raise TypeError(f"output_type must be a TypeInformation or a pyarrow.Schema, not {output_type!r}")
    from flinkpy.records.lanes import type_info_of_schema

    row_type = type_info_of_schema(output_type)
    assert isinstance(row_type, RowTypeInfo)
    return row_type


def _constant_expression(expression: Any) -> Callable[[Any], Any]:
    import pyarrow.compute as pc

    if not isinstance(expression, pc.Expression):
        raise TypeError("The input must be a callable function of a RecordBatch or a pyarrow.compute.Expression")
    return _ConstantExpression(expression)


class _ConstantExpression:
    """A function of a batch that always returns the same Arrow expression."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def __call__(self, batch: Any) -> Any:
        return self._expression
