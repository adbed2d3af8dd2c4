"""Parts of SQL queries that Spark plans as a whole, with flinkpy's kernels as functions over Arrow columns."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import EngineFunction, SparkQuerySpec
from flinkpy.spark.columns.names import column, column_types, without_timestamps
from flinkpy.spark.errors import worker_failure
from flinkpy.spark.stream_frame import StreamFrame
from flinkpy.sql.functions.evaluation import CompiledExpressions, compile_expressions
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types.arrow import arrow_type_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flinkpy.spark.worker_files import WorkerFiles


def run_query(
    session: SparkSession, spec: SparkQuerySpec, inputs: Sequence[StreamFrame], owner: str, files: WorkerFiles | None
) -> DataFrame:
    """Returns the frame of a query. Spark has only planned it.

    Args:
        files: the files of the job in Python workers, for functions of users.
        inputs: the frames of `spec.tables`, in the layout COLUMNS.
        owner: makes the names of the kernels unique in the session.
    """
    text = spec.query
    for function in spec.functions:
        name = f"{function.name}_of_{owner}"
        session.udf.register(name, _arrow_function(function, spec.settings, files))
        text = text.replace(f"{{{function.name}}}", name)
    frames: dict[str, Any] = {table.name: _numbered(stream) for table, stream in zip(spec.tables, inputs)}
    frame = session.sql(text, **frames)
    names = list(column_types(spec.output_type))
    kept = [column(f"c{place}").alias(name) for place, name in enumerate(names)]
    return frame.select(*kept, without_timestamps())


def _numbered(stream: StreamFrame) -> DataFrame:
    """Returns the columns of a stream as c0, c1, ..."""
    names = column_types(stream.type_info)
    return stream.frame.select(*[column(name).alias(f"c{place}") for place, name in enumerate(names)])


def _arrow_function(function: EngineFunction, settings: SessionSettings, files: WorkerFiles | None) -> Any:
    """Returns a kernel as a function of Spark."""
    import cloudpickle
    from pyspark.sql import functions

    make: Any = getattr(functions, "arrow_udf", None)
    if make is None:
        raise UnsupportedOperationError(
            "functions that Spark computes otherwise than flinkpy need Spark 4.1 or newer. Install it, or set "
            "table.exec.batch.engine to OPERATORS"
        )
    payload = cloudpickle.dumps((function, settings), protocol=pickle.HIGHEST_PROTOCOL)
    return make(_kernel(files, payload, function.name), returnType=function.result_type)


def _kernel(files: WorkerFiles | None, payload: bytes, name: str) -> Callable[..., pa.Array]:
    def call(*arguments: pa.Array) -> pa.Array:
        if files is not None:
            files.use()
        return _Kernel.of(payload, name)(arguments)

    return call


class _Kernel:
    """A kernel in a Python worker. Thread: any, one at a time."""

    _compiled: dict[bytes, _Kernel] = {}

    def __init__(self, payload: bytes, name: str) -> None:
        function, settings = pickle.loads(payload)
        self._name = name
        self._schema = pa.schema([(str(place), arrow_type_of(kind)) for place, kind in enumerate(function.types)])
        self._expressions: CompiledExpressions = compile_expressions([function.expression], settings)
        self._lock = threading.Lock()

    @classmethod
    def of(cls, payload: bytes, name: str) -> _Kernel:
        """Returns the kernel, which is made once per worker."""
        known = cls._compiled.get(payload)
        if known is None:
            known = cls._compiled[payload] = _Kernel(payload, name)
        return known

    def __call__(self, arguments: Sequence[pa.Array]) -> pa.Array:
        arrays = [each.cast(field.type) for each, field in zip(arguments, self._schema)]
        try:
            with self._lock:
                values = self._expressions.evaluate(pa.RecordBatch.from_arrays(arrays, schema=self._schema))[0]
        except Exception as error:  # noqa: BLE001 - the driver turns it into the error of the job
            raise worker_failure(error, self._name, None) from None
        return _for_spark(values)


def _for_spark(values: pa.Array) -> pa.Array:
    """Returns values in types of Spark, whose timestamps have microseconds."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz))
    return values
