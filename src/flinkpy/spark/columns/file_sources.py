"""Reads file sources with Spark's own readers, so that projections and predicates of the plan reach the files.

They are used if they return exactly what our readers would: for Parquet and ORC files with types that both read alike.
Our own readers parse CSV and JSON in Python workers, because Spark's accept other texts as null, numbers and times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as t

from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.file_source import FileSource
from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.input_files import is_remote
from flinkpy.formats.orc_format import OrcFormat
from flinkpy.formats.parquet_format import ParquetFormat, open_parquet
from flinkpy.graph.operator_specs import SourceSpec
from flinkpy.records.lanes import arrow_schema
from flinkpy.spark.columns.names import NotExpressible, column, column_types, name_of, without_timestamps
from flinkpy.spark.stream_frame import TIMESTAMP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from flinkpy.common.typeinfo import TypeInformation

#: File systems that Spark reaches without further configuration.
_HADOOP_SCHEMES = ("hdfs://", "viewfs://")
#: The maximum number of files whose schemas are compared. Comparing reads each footer a second time.
_MAX_CHECKED_FILES = 256


def read_files(session: SparkSession, spec: SourceSpec) -> DataFrame:
    """Returns the frame of a file source. Raises: NotExpressible, InputNotFoundError."""
    source = spec.source
    if not isinstance(source, FileSource) or source.boundedness is not Boundedness.BOUNDED:
        raise NotExpressible(f"{source!r}")
    file_format = source._format
    if file_format.on_error != FAIL:
        raise NotExpressible("skipping records that cannot be read")
    time = event_time(spec.watermark_strategy, file_format.produced_type)
    if time is None:
        time = without_timestamps()
    if type(file_format) is ParquetFormat and file_format._is_case_sensitive:
        reader, schema_of = "parquet", _parquet_schema
    elif type(file_format) is OrcFormat:
        reader, schema_of = "orc", _orc_schema
    else:
        raise NotExpressible(f"files of {type(file_format).__name__}")
    wanted = arrow_schema(file_format.row_type)
    assert wanted is not None
    files = [path for path, size_bytes in source._list_files() if size_bytes]
    if not files or len(files) > _MAX_CHECKED_FILES or not all(map(_is_reachable, files)):
        raise NotExpressible(f"{len(files)} files")
    for path in files:
        _check_file(path, schema_of(path), wanted)
    columns = column_types(file_format.row_type)
    schema = t.StructType([t.StructField(name, kind) for name, kind in columns.items()])
    frame = session.read.schema(schema).format(reader).load(files)
    return frame.select(*[column(name) for name in wanted.names], time)


def _is_reachable(path: str) -> bool:
    return not is_remote(path) or path.startswith(_HADOOP_SCHEMES)


def _parquet_schema(path: str) -> pa.Schema:
    file = open_parquet(path)
    try:
        return file.schema_arrow
    finally:
        file.close()


def _orc_schema(path: str) -> pa.Schema:
    from pyarrow import orc

    return orc.ORCFile(path).schema


def _check_file(path: str, schema: pa.Schema, wanted: pa.Schema) -> None:
    """Raises: NotExpressible if our reader would convert the columns, or fail with a better error."""
    lower = [name.lower() for name in schema.names]
    for name, kind in zip(wanted.names, wanted.types):
        if schema.names.count(name) != 1 or lower.count(name.lower()) != 1:
            raise NotExpressible(f"{path} has {schema.names.count(name)} columns {name!r}")
        stored = schema.field(name).type
        if not _is_read_alike(stored, kind):
            raise NotExpressible(f"{path} has {stored} in column {name!r}, not {kind}")


def _is_read_alike(stored: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        # Spark has no timestamps in nanoseconds.
        return (
            pa.types.is_timestamp(stored) and stored.unit in ("ms", "us") and (stored.tz is None) == (kind.tz is None)
        )
    return stored in (kind, *_ALIKE.get(kind, ()))


_ALIKE: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.string(): (pa.large_string(), pa.string_view()),
    pa.binary(): (pa.large_binary(),),
}


def event_time(strategy: WatermarkStrategy | None, type_info: TypeInformation | None) -> Column | None:
    """Returns the column `__ts`, made from a column of the stream; None if records keep their timestamps.

    Raises: NotExpressible if there is a timestamp assigner.
    """
    if strategy is None or (strategy.timestamp_column is None and strategy.timestamp_assigner is None):
        return None
    if strategy.timestamp_column is None:
        raise NotExpressible("a timestamp assigner")
    columns = column_types(type_info)
    name = name_of(columns, strategy.timestamp_column)
    kind, values = columns[name], column(name)
    if isinstance(kind, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        time = values.cast("bigint")
    elif isinstance(kind, t.TimestampType | t.TimestampNTZType):
        # The session's time zone is UTC, so a timestamp without time zone counts as UTC, as in flinkpy.
        time = F.unix_millis(values.cast("timestamp"))
    else:
        raise NotExpressible(f"event time from {kind.simpleString()}")
    message = f"no event time from column {strategy.timestamp_column!r}: a record has no value there"
    return F.coalesce(time, F.raise_error(F.lit(message)).cast("bigint")).alias(TIMESTAMP_COLUMN)
