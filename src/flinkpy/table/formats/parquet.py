"""The format `parquet`. Source: org.apache.flink.formats.parquet.ParquetFileFormatFactory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory, ParquetBulkWriterFactory
from flinkpy.formats.parquet_format import ParquetFormat
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import RowTypeInfo
    from flinkpy.formats.file_format import FileFormat
    from flinkpy.table.connectors.table_options import TableOptions


class ParquetTableFormat(TableFormat):
    """Columns in Parquet files."""

    identifier = "parquet"

    def file_format(self, row_type: RowTypeInfo, options: TableOptions) -> FileFormat:
        return ParquetFormat(row_type)

    def file_writer(self, row_type: RowTypeInfo, options: TableOptions) -> ColumnBulkWriterFactory:
        return ParquetBulkWriterFactory(row_type)
