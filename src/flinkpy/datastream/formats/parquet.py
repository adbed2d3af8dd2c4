"""PyFlink's `pyflink.datastream.formats.parquet`.

Differs: a row type is `Types.ROW_NAMED(names, types)`, a `pyarrow.Schema`, or a dict from name to type.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.formats.avro_parquet import AvroParquetFormat, AvroParquetWriterFactory
from flinkpy.formats.avro_schema import AvroSchema
from flinkpy.formats.bulk_writer import ParquetBulkWriterFactory
from flinkpy.formats.parquet_format import ParquetFormat
from flinkpy.formats.row_types import row_type_of

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Reads the columns of `row_type` from Parquet files. Batches stay in columns.

    Args:
        row_type: the type of the rows.
        hadoop_config: must be empty, because there is no Hadoop here.
        batch_size: the largest number of rows of a batch.
        is_utc_timestamp: has no effect: a timestamp without time zone is read as it is in the file.
        is_case_sensitive: True if `ID` and `id` are different columns.
    """

    def __init__(
        self,
        row_type: Any,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        _refuse_hadoop(hadoop_config)
        if batch_size <= 0:
            raise ValueError(f"batch_size must be positive, not {batch_size}")
        super().__init__(row_type_of(row_type), batch_size, is_case_sensitive)


class ParquetBulkWriters:
    """Writes Parquet files with a FileSink."""

    @staticmethod
    def for_row_type(row_type: Any, hadoop_config: Any = None, utc_timestamp: bool = False) -> ParquetBulkWriterFactory:
        """Returns a writer factory for `row_type`. Beyond PyFlink, None takes the columns of the stream's type."""
        _refuse_hadoop(hadoop_config)
        return ParquetBulkWriterFactory(None if row_type is None else row_type_of(row_type))


class AvroParquetReaders:
    """Reads Avro records from Parquet files, for `FileSource.for_record_stream_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroParquetFormat:
        """Returns a format whose records are dicts with the fields of `schema`."""
        return AvroParquetFormat(schema)


class AvroParquetWriters:
    """Writes Avro records to Parquet files with a FileSink."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroParquetWriterFactory:
        """Returns a writer factory. Records must be dicts that match `schema`, or Rows with its fields."""
        return AvroParquetWriterFactory(schema)


def _refuse_hadoop(hadoop_config: Any) -> None:
    entries = getattr(hadoop_config, "to_dict", lambda: hadoop_config)()
    if entries is not None and entries != {}:
        raise UnsupportedOperationError("hadoop_config: flinkpy reads and writes Parquet without Hadoop")
