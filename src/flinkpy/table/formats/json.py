"""The format `json`. Source: org.apache.flink.formats.json.{JsonFormatFactory, JsonFormatOptions}."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory, JsonBulkWriterFactory
from flinkpy.formats.json_format import JsonFormat
from flinkpy.formats.json_values import JsonReadOptions
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import RowTypeInfo
    from flinkpy.formats.file_format import FileFormat
    from flinkpy.table.connectors.table_options import TableOptions

FAIL_ON_MISSING_FIELD = ConfigOption(
    "fail-on-missing-field", OptionType.BOOL, False, "True to fail if a field is missing; else it is null."
)
IGNORE_PARSE_ERRORS = ConfigOption(
    "ignore-parse-errors", OptionType.BOOL, False, "True to set fields that cannot be read to null, and skip such rows."
)


class JsonTableFormat(TableFormat):
    """Rows as JSON objects, one per line in files."""

    identifier = "json"
    optional_options: tuple[ConfigOption[Any], ...] = (FAIL_ON_MISSING_FIELD, IGNORE_PARSE_ERRORS)

    def file_format(self, row_type: RowTypeInfo, options: TableOptions) -> FileFormat:
        ignores = options.get(IGNORE_PARSE_ERRORS)
        if ignores and options.get(FAIL_ON_MISSING_FIELD):
            raise ValidationError("fail-on-missing-field and ignore-parse-errors shouldn't both be true.")
        found = JsonFormat(row_type, JsonReadOptions(options.get(FAIL_ON_MISSING_FIELD), ignores))
        if ignores:
            skipping: FileFormat = found.with_on_error("skip")
            return skipping
        return found

    def file_writer(self, row_type: RowTypeInfo, options: TableOptions) -> ColumnBulkWriterFactory:
        return JsonBulkWriterFactory(row_type)
