"""The format `json`. Source: org.apache.flink.formats.json.{JsonFormatFactory, JsonFormatOptions}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType, without_effect
from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory, JsonBulkWriterFactory
from flinkpy.formats.json_format import JsonFormat
from flinkpy.formats.json_values import JsonReadOptions, TimeForm
from flinkpy.table.formats.message_schemas import (
    DecodedChanges,
    TableDeserializationSchema,
    TableSerializationSchema,
    changes_of,
    plain_columns,
    record_type_of,
)
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkpy.formats.file_format import FileFormat
    from flinkpy.sql.types.logical_types import RowType
    from flinkpy.table.connectors.table_options import TableOptions

FAIL_ON_MISSING_FIELD = ConfigOption(
    "fail-on-missing-field", OptionType.BOOL, False, "True to fail if a field is missing; else it is null."
)
IGNORE_PARSE_ERRORS = ConfigOption(
    "ignore-parse-errors", OptionType.BOOL, False, "True to set fields that cannot be read to null, and skip such rows."
)


TIMESTAMP_FORMAT = ConfigOption(
    "timestamp-format.standard",
    OptionType.ENUM,
    "SQL",
    "How timestamps are written: `2020-12-30 12:13:14.123` or `2020-12-30T12:13:14.123`. Both are read.",
    choices=("SQL", "ISO-8601"),
)


IGNORE_NULL_FIELDS = ConfigOption(
    "encode.ignore-null-fields", OptionType.BOOL, False, "True to leave out fields that are null."
)
_DECIMALS = without_effect(
    ConfigOption("encode.decimal-as-plain-number", OptionType.BOOL, False, "Decimals are always plain numbers.")
)
_NULL_KEY_MODE = without_effect(
    ConfigOption(
        "map-null-key.mode",
        OptionType.ENUM,
        "FAIL",
        "The keys of maps are never null.",
        choices=("FAIL", "DROP", "LITERAL"),
    )
)
_NULL_KEY_LITERAL = without_effect(
    ConfigOption("map-null-key.literal", OptionType.STRING, "null", "The keys of maps are never null.")
)
_PARSER = without_effect(ConfigOption("decode.json-parser.enabled", OptionType.BOOL, True, "There is only one parser."))
#: The options of JSON objects in all formats.
WRITE_OPTIONS: tuple[ConfigOption[Any], ...] = (
    TIMESTAMP_FORMAT,
    IGNORE_NULL_FIELDS,
    _DECIMALS,
    _NULL_KEY_MODE,
    _NULL_KEY_LITERAL,
)


class JsonTableFormat(TableFormat):
    """Rows as JSON objects, one per line in files.

    Differs: timestamps are read in both forms, whatever `timestamp-format.standard` is, and decimals are never written
    with an exponent.
    """

    identifier = "json"
    optional_options: tuple[ConfigOption[Any], ...] = (
        FAIL_ON_MISSING_FIELD,
        IGNORE_PARSE_ERRORS,
        _PARSER,
        *WRITE_OPTIONS,
    )

    def file_format(self, row_type: RowType, options: TableOptions) -> FileFormat:
        found = JsonFormat(record_type_of(row_type), _read_options(options))
        if options.get(IGNORE_PARSE_ERRORS):
            skipping: FileFormat = found.with_on_error("skip")
            return skipping
        return found

    def file_writer(self, row_type: RowType, options: TableOptions) -> ColumnBulkWriterFactory:
        form = TimeForm(options.get(TIMESTAMP_FORMAT))
        return JsonBulkWriterFactory(record_type_of(row_type), form, options.get(IGNORE_NULL_FIELDS))

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        return _JsonReader(row_type, _read_options(options))

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        return _JsonWriter(row_type, options)


def _read_options(options: TableOptions) -> JsonReadOptions:
    """Returns how objects are read. Raises: ValidationError."""
    ignores, fails = options.get(IGNORE_PARSE_ERRORS), options.get(FAIL_ON_MISSING_FIELD)
    if ignores and fails:
        raise ValidationError("fail-on-missing-field and ignore-parse-errors shouldn't both be true.")
    return JsonReadOptions(fails, ignores)


class _JsonReader(TableDeserializationSchema):
    def __init__(self, row_type: RowType, options: JsonReadOptions) -> None:
        super().__init__(row_type)
        self._options = options

    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        from flinkpy.formats.json_parser import JsonParser

        parser = JsonParser(record_type_of(self.row_type), self._options)
        return changes_of(parser.parse_messages(messages), len(messages), self.row_type)


class _JsonWriter(TableSerializationSchema):
    def __init__(self, row_type: RowType, options: TableOptions) -> None:
        super().__init__(row_type)
        self._texts = JsonTexts(row_type, options)

    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        return [text.encode() for text in self._texts(rows)]


class JsonTexts:
    """Writes rows as the texts of JSON objects. Picklable.

    Args:
        options: WRITE_OPTIONS.
    """

    def __init__(self, row_type: RowType, options: TableOptions) -> None:
        self._row_type = row_type
        self._form = TimeForm(options.get(TIMESTAMP_FORMAT))
        self._leaves_out_nulls = options.get(IGNORE_NULL_FIELDS)

    def __call__(self, rows: pa.RecordBatch) -> list[str]:
        from flinkpy.formats.json_writer import JsonWriter

        writer = JsonWriter(record_type_of(self._row_type), self._form, self._leaves_out_nulls)
        return writer.texts(plain_columns(rows, self._row_type))
