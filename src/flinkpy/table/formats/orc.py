"""The format `orc`. Source: org.apache.flink.orc.OrcFileFormatFactory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.formats.orc_format import OrcBulkWriterFactory, OrcFormat
from flinkpy.table.formats.message_schemas import record_type_of
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory
    from flinkpy.formats.file_format import FileFormat
    from flinkpy.sql.types.logical_types import RowType
    from flinkpy.table.connectors.table_options import TableOptions


class OrcTableFormat(TableFormat):
    """Columns in ORC files."""

    identifier = "orc"

    def file_format(self, row_type: RowType, options: TableOptions) -> FileFormat:
        return OrcFormat(record_type_of(row_type))

    def file_writer(self, row_type: RowType, options: TableOptions) -> ColumnBulkWriterFactory:
        return OrcBulkWriterFactory(record_type_of(row_type))
