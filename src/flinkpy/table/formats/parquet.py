"""The format `parquet`. Source: org.apache.flink.formats.parquet.ParquetFileFormatFactory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory, ParquetBulkWriterFactory
from flinkpy.formats.parquet_format import ParquetFormat
from flinkpy.table.formats.message_schemas import record_type_of
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    from flinkpy.formats.file_format import FileFormat
    from flinkpy.sql.types.logical_types import RowType
    from flinkpy.table.connectors.table_options import TableOptions


class ParquetTableFormat(TableFormat):
    """Columns in Parquet files."""

    identifier = "parquet"

    def file_format(self, row_type: RowType, options: TableOptions) -> FileFormat:
        return ParquetFormat(record_type_of(row_type))

    def file_writer(self, row_type: RowType, options: TableOptions) -> ColumnBulkWriterFactory:
        return ParquetBulkWriterFactory(record_type_of(row_type))
