"""PyFlink's `pyflink.datastream.formats.csv`.

Differs: column types are TypeInformation (`Types.INT()`), not the Table API's DataTypes. Where Jackson's CSV parser is
more lenient than pyarrow's (rows with too few fields), the stricter one counts.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.formats.bulk_writer import CsvBulkWriterFactory
from flinkpy.formats.csv_format import CsvFormat
from flinkpy.formats.csv_schema import CsvSchema, CsvSchemaBuilder

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


class CsvReaderFormat(CsvFormat):
    """Reads CSV files as rows; batches stay columns."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        return CsvReaderFormat(schema.row_type, schema.options)


class CsvBulkWriters:
    """Writes CSV files with a FileSink."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvBulkWriterFactory:
        return CsvBulkWriterFactory(schema.row_type, schema.options, schema.line_separator)


class CsvRowDeserializationSchema:
    """Bytes of a message to a row: comes with the connectors that have messages."""

    def __init__(self, *args: Any) -> None:
        raise UnsupportedOperationError("CsvRowDeserializationSchema is not there yet")


class CsvRowSerializationSchema:
    """A row to the bytes of a message: comes with the connectors that have messages."""

    def __init__(self, *args: Any) -> None:
        raise UnsupportedOperationError("CsvRowSerializationSchema is not there yet")
