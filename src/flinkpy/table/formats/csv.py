"""The format `csv`. Source: org.apache.flink.formats.csv.{CsvFormatFactory, CsvFormatOptions}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory, CsvBulkWriterFactory
from flinkpy.formats.csv_format import CsvFormat, CsvOptions
from flinkpy.formats.csv_messages import CsvMessageOptions, CsvMessageParser
from flinkpy.sql.types.logical_types import LocalZonedTimestampType, RowType
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
    from flinkpy.table.connectors.table_options import TableOptions

FIELD_DELIMITER = ConfigOption("field-delimiter", OptionType.STRING, ",", "The character between fields.")
QUOTE_CHARACTER = ConfigOption("quote-character", OptionType.STRING, '"', "The character around texts.")
DISABLE_QUOTE_CHARACTER = ConfigOption(
    "disable-quote-character", OptionType.BOOL, False, "True if quotes have no meaning."
)
ESCAPE_CHARACTER = ConfigOption("escape-character", OptionType.STRING, "", "The character before an escaped one.")
NULL_LITERAL: ConfigOption[str | None] = ConfigOption("null-literal", OptionType.STRING, None, "The text for null.")
ALLOW_COMMENTS = ConfigOption("allow-comments", OptionType.BOOL, False, "True to skip lines that begin with #.")
IGNORE_PARSE_ERRORS = ConfigOption(
    "ignore-parse-errors", OptionType.BOOL, False, "True to skip rows that cannot be read."
)
ARRAY_ELEMENT_DELIMITER = ConfigOption(
    "array-element-delimiter", OptionType.STRING, ";", "The text between the elements of an array."
)


class CsvTableFormat(TableFormat):
    """Rows as lines of CSV without a header."""

    identifier = "csv"
    optional_options: tuple[ConfigOption[Any], ...] = (
        FIELD_DELIMITER,
        QUOTE_CHARACTER,
        DISABLE_QUOTE_CHARACTER,
        ESCAPE_CHARACTER,
        NULL_LITERAL,
        ALLOW_COMMENTS,
        IGNORE_PARSE_ERRORS,
        ARRAY_ELEMENT_DELIMITER,
    )

    def file_format(self, row_type: RowType, options: TableOptions) -> FileFormat:
        found = CsvFormat(record_type_of(row_type), dialect(row_type, options))
        if options.get(IGNORE_PARSE_ERRORS):
            skipping: FileFormat = found.with_on_error("skip")
            return skipping
        return found

    def file_writer(self, row_type: RowType, options: TableOptions) -> ColumnBulkWriterFactory:
        return CsvBulkWriterFactory(record_type_of(row_type), dialect(row_type, options))

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        found = dialect(row_type, options)
        return _CsvReader(
            row_type,
            CsvMessageOptions(
                found.delimiter,
                found.quote_char,
                found.escape_char,
                options.get(ARRAY_ELEMENT_DELIMITER),
                options.get(NULL_LITERAL),
                options.get(ALLOW_COMMENTS),
                options.get(IGNORE_PARSE_ERRORS),
            ),
        )

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        return _CsvWriter(row_type, dialect(row_type, options))


class _CsvReader(TableDeserializationSchema):
    def __init__(self, row_type: RowType, options: CsvMessageOptions) -> None:
        super().__init__(row_type)
        self._options = options

    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        parser = CsvMessageParser(record_type_of(self.row_type), self._options)
        return changes_of(parser.parse_messages(messages), len(messages), self.row_type)


class _CsvWriter(TableSerializationSchema):
    def __init__(self, row_type: RowType, options: CsvOptions) -> None:
        super().__init__(row_type)
        self._options = options

    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        from flinkpy.formats.csv_writer import CsvLineWriter

        # A message is a line without its end.
        writer = CsvLineWriter(self._options, "", guards_nulls=False)
        return list(writer.messages(plain_columns(rows, self.row_type)))


def dialect(row_type: RowType, options: TableOptions) -> CsvOptions:
    """Returns the dialect of the options. Raises: ValidationError for a delimiter of several characters."""
    if options.get(DISABLE_QUOTE_CHARACTER) and options.contains(QUOTE_CHARACTER):
        raise ValidationError("Format cannot define a quote character and disabled quote character at the same time.")
    null = options.get(NULL_LITERAL)
    separator = options.get(ARRAY_ELEMENT_DELIMITER)
    try:
        return CsvOptions(
            delimiter=_unescaped(options.get(FIELD_DELIMITER)),
            quote_char="" if options.get(DISABLE_QUOTE_CHARACTER) else options.get(QUOTE_CHARACTER),
            escape_char=options.get(ESCAPE_CHARACTER),
            null_values=() if null is None else (null,),
            allow_comments=options.get(ALLOW_COMMENTS),
            array_separators=dict.fromkeys(row_type.names, separator),
            has_empty_fractions=False,
            zoned_columns=frozenset(
                field.name for field in row_type.fields if isinstance(field.type, LocalZonedTimestampType)
            ),
        )
    except ValueError as error:
        raise ValidationError(f"csv: {error}") from error


def _unescaped(delimiter: str) -> str:
    r"""Returns the character of a text such as `\t` or `\u0001`."""
    if len(delimiter) > 1 and delimiter.startswith("\\"):
        return delimiter.encode("ascii", "replace").decode("unicode_escape")
    return delimiter
