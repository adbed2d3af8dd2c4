"""PyFlink's `pyflink.datastream.formats.csv`.

Differs: column types are TypeInformation (`Types.INT()`), not the Table API's DataTypes. Rows with too few fields,
which Jackson's CSV parser accepts, are refused as pyarrow's parser refuses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.serialization import SerializationSchema
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation
from flinkpy.datastream.formats.row_messages import RowMessageDeserializationSchema
from flinkpy.formats.bad_records import FAIL, checked_on_error
from flinkpy.formats.bulk_writer import CsvBulkWriterFactory
from flinkpy.formats.csv_format import CsvFormat, CsvOptions, CsvSchema, CsvSchemaBuilder

if TYPE_CHECKING:
    from flinkpy.formats.csv_messages import CsvMessageParser
    from flinkpy.formats.csv_writer import CsvLineWriter
    from flinkpy.records.batch import Batch

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


class CsvReaderFormat(CsvFormat):
    """Reads CSV files as rows. Batches stay in columns."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        return CsvReaderFormat(schema.row_type, schema.options)


class CsvBulkWriters:
    """Writes CSV files with a FileSink."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvBulkWriterFactory:
        return CsvBulkWriterFactory(schema.row_type, schema.options, schema.line_separator)


class CsvRowDeserializationSchema(RowMessageDeserializationSchema):
    """Deserializes messages of one CSV row each to Rows. Fields are matched by position."""

    def _make_parser(self, row_type: RowTypeInfo) -> CsvMessageParser:
        from flinkpy.formats.csv_messages import CsvMessageParser

        return CsvMessageParser(row_type, self._options)

    class Builder:
        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = _checked_row_type(type_info)
            self._changes: dict[str, Any] = {}
            self._on_error: Any = FAIL

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            return self._set(delimiter=_one_character("field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Sets if lines that start with `#` are skipped."""
            return self._set(allow_comments=allow_comments)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            return self._set(element_separator=_not_none("array element delimiter", delimiter))

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            return self._set(quote_char=_one_character("quote character", c))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            return self._set(escape_char=_one_character("escape character", c))

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the text that means null. By default no text does."""
            return self._set(null_literal=_not_none("null literal", null_literal))

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Sets if errors are ignored: malformed or missing fields are null, and malformed messages are skipped."""
            return self._set(ignore_parse_errors=ignore_parse_errors)

        def on_error(self, on_error: Any) -> CsvRowDeserializationSchema.Builder:
            """Sets how malformed messages are handled: `"fail"`, `"skip"` or an OutputTag for them. Beyond PyFlink."""
            self._on_error = checked_on_error(on_error)
            return self

        def build(self) -> CsvRowDeserializationSchema:
            from flinkpy.formats.csv_messages import CsvMessageOptions

            schema = CsvRowDeserializationSchema()
            schema._row_type = self._type_info
            schema._options = CsvMessageOptions(**self._changes)
            schema.on_error = self._on_error
            schema._row_parser()  # raises now if CSV does not support a type
            return schema

        def _set(self, **changes: Any) -> CsvRowDeserializationSchema.Builder:
            self._changes.update(changes)
            return self


class CsvRowSerializationSchema(SerializationSchema):
    """Serializes Rows to CSV lines with a line end."""

    def __init__(self, j_csv_row_serialization_schema: Any = None) -> None:
        super().__init__(j_csv_row_serialization_schema)
        self._row_type: RowTypeInfo | None = None
        self._options = CsvOptions()
        self._line_delimiter = "\n"
        self._writer: CsvLineWriter | None = None

    def serialize(self, element: Any) -> bytes:
        """Raises: TypeMismatchError."""
        from flinkpy.records.batch import Batch

        return self.serialize_batch(Batch([element]), None)[0] or b""

    def serialize_batch(self, batch: Batch, type_info: TypeInformation | None) -> list[bytes | None]:
        """Raises: TypeMismatchError, which names the record."""
        from flinkpy.formats.csv_writer import CsvLineWriter
        from flinkpy.formats.schema import columns_of_batch

        assert self._row_type is not None, "made by the builder"
        if self._writer is None:
            self._writer = CsvLineWriter(self._options, self._line_delimiter, guards_nulls=False)
        return list(self._writer.messages(columns_of_batch(batch, self._row_type, type_info)))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writer": None}

    class Builder:
        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = _checked_row_type(type_info)
            self._changes: dict[str, Any] = {}
            self._line_delimiter = "\n"
            self._element_delimiter = ";"

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._set(delimiter=_one_character("field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            r"""Sets the end of each message: `\n`, `\r`, `\r\n` or nothing."""
            if _not_none("line delimiter", delimiter) not in ("\n", "\r", "\r\n", ""):
                raise ValueError(
                    "Unsupported new line delimiter. Only \\n, \\r, \\r\\n, or empty string are supported."
                )
            self._line_delimiter = delimiter
            return self

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            self._element_delimiter = _not_none("array element delimiter", delimiter)
            return self

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            return self._set(quote_char="")

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._set(quote_char=_one_character("quote character", c))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._set(escape_char=_one_character("escape character", c))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Sets the text that is written for null; empty by default."""
            return self._set(null_values=(_not_none("null literal", s),))

        def build(self) -> CsvRowSerializationSchema:
            schema = CsvRowSerializationSchema()
            schema._row_type = self._type_info
            separators = dict.fromkeys(self._type_info.get_field_names(), self._element_delimiter)
            schema._options = CsvOptions(array_separators=separators, **self._changes)
            schema._line_delimiter = self._line_delimiter
            return schema

        def _set(self, **changes: Any) -> CsvRowSerializationSchema.Builder:
            self._changes.update(changes)
            return self


def _checked_row_type(type_info: TypeInformation) -> RowTypeInfo:
    if type_info is None:
        raise TypeError("Type information must not be None")
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"Row type information expected, not {type_info!r}")
    return type_info


def _one_character(name: str, value: str) -> str:
    if not isinstance(value, str) or len(value) != 1:
        raise ValueError(f"the {name} must be a single character, not {value!r}")
    return value


def _not_none(name: str, value: str) -> str:
    if value is None:
        raise TypeError(f"the {name} must not be None")
    return value
