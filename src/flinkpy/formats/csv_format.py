"""CsvFormat and CsvSchema: the type and the dialect of CSV files."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation, Types
from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.file_format import FileBatchReader, FileSourceSplit, StreamFormat
from flinkpy.formats.input_files import is_compressed
from flinkpy.formats.row_types import ConvertibleType, project_row_type


class HeaderMode(enum.Enum):
    """The meaning of the first record of each file."""

    NONE = "a row like the others"
    SKIP = "skipped"
    USE = "the names of the file's columns: columns are found by name in any order, others are skipped"
    STRICT = "must be the names of the type's columns in their order"


@dataclass(frozen=True)
class CsvOptions:
    """The dialect of CSV files.

    Attributes:
        delimiter: separates fields.
        quote_char: quotes a field. A quote inside quotes is doubled. Empty: quotes have no meaning.
        escape_char: escapes a character. Empty: none.
        null_values: unquoted fields that mean null. An empty field is a text in columns of texts, lists and bytes,
            unless "" is one of these values. In columns of other types it is always null.
        header: the meaning of the first record.
        newlines_in_values: quoted fields may contain newlines. One subtask then reads a file from its start, because a
            newline does not always end a row.
        allow_comments: skip lines that start with `#`.
        skip_first_data_row: skip the first row after the header.
        array_separators: separator between the elements of a list, by column.
        file_columns: names of all columns of a file without a header, if only some of them are read.
        has_empty_fractions: timestamps of whole seconds are written with `.0`, as Java's are; Flink SQL leaves it out.
        zoned_columns: timestamps that are moments: they are written with a `Z`, and read with or without it.
    """

    delimiter: str = ","
    quote_char: str = '"'
    escape_char: str = ""
    null_values: tuple[str, ...] = ()
    header: HeaderMode = HeaderMode.NONE
    newlines_in_values: bool = False
    allow_comments: bool = False
    skip_first_data_row: bool = False
    array_separators: dict[str, str] = field(default_factory=dict)
    file_columns: tuple[str, ...] = ()
    has_empty_fractions: bool = True
    zoned_columns: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote_char", "escape_char"):
            value = getattr(self, name)
            if len(value.encode()) > 1 or (not value and name == "delimiter") or value in ("\n", "\r"):
                raise ValueError(f"CSV option {name} must be one ASCII character, not {value!r}")


class CsvFormat(StreamFormat):
    """Reads rows of `row_type` from UTF-8 files. pyarrow parses them in large pieces.

    Each batch is `RecordBatch[n rows, schema=arrow_schema(row_type)]`.
    """

    has_spark_reader = True
    offsets_are_bytes = True

    def __init__(self, row_type: RowTypeInfo, options: CsvOptions) -> None:
        self.row_type = row_type
        self.options = options

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def projected_to(self, columns: list[str]) -> CsvFormat | None:
        """Returns a format that ignores other columns. Errors in them are not found, so it needs `on_error` "fail"."""
        if self.on_error != FAIL or self.options.header is HeaderMode.STRICT:
            return None
        options = self.options
        if options.header is not HeaderMode.USE and not options.file_columns:
            options = replace(options, file_columns=tuple(self.row_type.get_field_names()))
        changed = CsvFormat(project_row_type(self.row_type, columns), options)
        return changed.with_spark_reader() if self.uses_spark_reader else changed  # type: ignore[no-any-return]

    def is_splittable(self, path: str) -> bool:
        return not self.options.newlines_in_values and not is_compressed(path)

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        from flinkpy.formats.csv_reader import CsvBatchReader

        return CsvBatchReader(split, self.row_type, self.options, max_batch_rows, self.on_error == FAIL)


_NUMBERS = frozenset(
    {
        BasicType.BYTE,
        BasicType.SHORT,
        BasicType.INT,
        BasicType.LONG,
        BasicType.FLOAT,
        BasicType.DOUBLE,
        BasicType.BIG_INT,
        BasicType.BIG_DEC,
    }
)
_DEFAULT_ELEMENT_SEPARATOR = ";"


class CsvSchema:
    """The columns and the dialect of a CSV file.

    Source: pyflink.datastream.formats.csv.{CsvSchema, CsvSchemaBuilder} (a Jackson CsvSchema underneath).

    Example:
        >>> schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
        >>> source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), "/data/in.csv").build()
    """

    def __init__(self, row_type: RowTypeInfo, options: CsvOptions, line_separator: str) -> None:
        self._row_type = row_type
        self._options = options
        self._line_separator = line_separator

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Returns a builder with commas and double quotes."""
        return CsvSchemaBuilder()

    @property
    def row_type(self) -> RowTypeInfo:
        return self._row_type

    @property
    def options(self) -> CsvOptions:
        return self._options

    @property
    def line_separator(self) -> str:
        """The separator between written rows. Reading accepts both `\\n` and `\\r\\n`."""
        return self._line_separator

    def size(self) -> int:
        """Returns the number of columns."""
        return len(self._row_type.get_field_names())

    def __len__(self) -> int:
        return self.size()

    def __str__(self) -> str:
        columns = zip(self._row_type.get_field_names(), self._row_type.get_field_types())
        return f"CsvSchema[{', '.join(f'{name}: {kind!r}' for name, kind in columns)}]"

    def __repr__(self) -> str:
        return str(self)


class CsvSchemaBuilder:
    """Collects the columns, in their order in the file, and the dialect."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._types: list[TypeInformation] = []
        self._separators: dict[str, str] = {}
        self._options = CsvOptions()
        self._line_separator = "\n"
        self._use_header = False
        self._strict_headers = False

    def build(self) -> CsvSchema:
        """Returns the schema."""
        header = HeaderMode.NONE
        if self._use_header:
            # Like Jackson with declared columns: columns are found by position, whatever the header says.
            header = HeaderMode.STRICT if self._strict_headers else HeaderMode.SKIP
        options = replace(self._options, header=header, array_separators=dict(self._separators))
        return CsvSchema(RowTypeInfo(self._types, self._names), options, self._line_separator)

    def add_array_column(
        self, name: str, separator: str = _DEFAULT_ELEMENT_SEPARATOR, element_type: Any = None
    ) -> CsvSchemaBuilder:
        """Adds a column of lists.

        Args:
            name: name of the column.
            separator: separator between the elements.
            element_type: type of the elements; STRING by default.
        """
        element = Types.STRING() if element_type is None else _type_info(name, element_type)
        self._separators[name] = separator
        return self._add(name, Types.LIST(element))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Adds a column of booleans."""
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: Any = None) -> CsvSchemaBuilder:
        """Adds a column of numbers.

        Args:
            name: name of the column.
            number_type: type of the numbers; LONG by default.

        Raises:
            TypeError: the type is not a number.
        """
        number = Types.LONG() if number_type is None else _type_info(name, number_type)
        if not isinstance(number, BasicTypeInfo) or number.basic_type not in _NUMBERS:
            raise TypeError(f"column {name!r}: {number!r} is not a number")
        return self._add(name, number)

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Adds a column of texts."""
        return self._add(name, Types.STRING())

    def add_column(self, name: str, type_info: TypeInformation) -> CsvSchemaBuilder:
        """Adds a column of any type that CSV supports, e.g. dates and timestamps. Beyond PyFlink."""
        return self._add(name, _type_info(name, type_info))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Adds all columns of another schema."""
        for name, kind in zip(schema.row_type.get_field_names(), schema.row_type.get_field_types()):
            self._add(name, kind)
        self._separators.update(schema.options.array_separators)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Removes all columns."""
        self._names.clear()
        self._types.clear()
        self._separators.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Sets if lines that start with `#` are skipped."""
        return self._set(allow_comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        raise UnsupportedOperationError("CsvSchemaBuilder.set_any_property_name: rows of one type have no other fields")

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Makes each list have one element, the whole field, in the columns added so far."""
        self._separators = dict.fromkeys(self._separators, "")
        return self

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Makes the lists of one column have one element, the whole field."""
        self._separators[self._names[index]] = ""
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Sets the separator between the elements of lists, in the columns added so far."""
        self._separators = dict.fromkeys(self._separators, separator)
        return self

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Sets the separator between columns. By default it is a comma."""
        return self._set(delimiter=char)

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Removes the escape character, which is the default."""
        return self._set(escape_char="")

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Sets the escape character."""
        return self._set(escape_char=char)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Sets the separator between written rows. Reading ignores it."""
        self._line_separator = separator
        return self

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Sets the text that means null."""
        return self._set(null_values=(null_value,))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Removes the quote character: quotes then have no meaning."""
        return self._set(quote_char="")

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Sets the quote character. By default it is a double quote."""
        return self._set(quote_char=char)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Sets if the first row after the header is skipped."""
        return self._set(skip_first_data_row=skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Sets if the header must have exactly these columns in this order. Needs `set_use_header`."""
        self._strict_headers = strict
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Sets if files have a header line.

        Columns are found by position: the header is skipped, or checked with `set_strict_headers`. Written files also
        have a header.
        """
        self._use_header = use
        return self

    def set_newlines_in_values(self, allow: bool = True) -> CsvSchemaBuilder:
        """Sets if quoted fields may contain newlines. Such files are not split among subtasks. Beyond PyFlink."""
        return self._set(newlines_in_values=allow)

    def size(self) -> int:
        """Returns the number of columns."""
        return len(self._names)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, kind: TypeInformation) -> CsvSchemaBuilder:
        if name in self._names:
            raise ValueError(f"column {name!r} already exists")
        self._names.append(name)
        self._types.append(kind)
        return self

    def _set(self, **changes: Any) -> CsvSchemaBuilder:
        self._options = replace(self._options, **changes)
        return self


def _type_info(name: str, kind: Any) -> TypeInformation:
    if isinstance(kind, TypeInformation):
        return kind
    if isinstance(kind, ConvertibleType):
        return kind.to_type_info()
    raise UnsupportedOperationError(
        f"column {name!r}: give a type such as DataTypes.INT() or Types.INT(), not {kind!r}"
    )
