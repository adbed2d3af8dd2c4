"""CsvSchema: the columns and the dialect of a CSV file, built step by step.

Source: pyflink.datastream.formats.csv.{CsvSchema, CsvSchemaBuilder} (a Jackson CsvSchema underneath).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation, Types
from flinkpy.formats.csv_format import CsvOptions, HeaderMode
from flinkpy.formats.row_types import ConvertibleType

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
    """Columns and dialect. Built by `CsvSchema.builder()`."""

    def __init__(self, row_type: RowTypeInfo, options: CsvOptions, line_separator: str) -> None:
        self._row_type = row_type
        self._options = options
        self._line_separator = line_separator

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        return CsvSchemaBuilder()

    @property
    def row_type(self) -> RowTypeInfo:
        return self._row_type

    @property
    def options(self) -> CsvOptions:
        return self._options

    @property
    def line_separator(self) -> str:
        """Between rows that are written; reading takes both `\\n` and `\\r\\n`."""
        return self._line_separator

    def size(self) -> int:
        """The number of columns."""
        return len(self._row_type.get_field_names())

    def __len__(self) -> int:
        return self.size()

    def __str__(self) -> str:
        columns = zip(self._row_type.get_field_names(), self._row_type.get_field_types())
        return f"CsvSchema[{', '.join(f'{name}: {kind!r}' for name, kind in columns)}]"

    def __repr__(self) -> str:
        return str(self)


class CsvSchemaBuilder:
    """Collects columns, in their order in the file, and the dialect; the default is commas and double quotes."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._types: list[TypeInformation] = []
        self._separators: dict[str, str] = {}
        self._options = CsvOptions()
        self._line_separator = "\n"
        self._use_header = False
        self._strict_headers = False

    def build(self) -> CsvSchema:
        header = HeaderMode.NONE
        if self._use_header:
            # As Jackson does with declared columns: they count by their positions, whatever the header says.
            header = HeaderMode.STRICT if self._strict_headers else HeaderMode.SKIP
        options = replace(self._options, header=header, array_separators=dict(self._separators))
        return CsvSchema(RowTypeInfo(self._types, self._names), options, self._line_separator)

    def add_array_column(
        self, name: str, separator: str = _DEFAULT_ELEMENT_SEPARATOR, element_type: Any = None
    ) -> CsvSchemaBuilder:
        """A list; its elements are strings unless `element_type` says otherwise."""
        element = Types.STRING() if element_type is None else _type_info(name, element_type)
        self._separators[name] = separator
        return self._add(name, Types.LIST(element))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: Any = None) -> CsvSchemaBuilder:
        """A number: LONG unless `number_type` says otherwise."""
        number = Types.LONG() if number_type is None else _type_info(name, number_type)
        if not isinstance(number, BasicTypeInfo) or number.basic_type not in _NUMBERS:
            raise TypeError(f"column {name!r}: {number!r} is not a number")
        return self._add(name, number)

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, Types.STRING())

    def add_column(self, name: str, type_info: TypeInformation) -> CsvSchemaBuilder:
        """A column of any type that CSV can hold: dates, timestamps, ... Beyond PyFlink."""
        return self._add(name, _type_info(name, type_info))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        for name, kind in zip(schema.row_type.get_field_names(), schema.row_type.get_field_types()):
            self._add(name, kind)
        self._separators.update(schema.options.array_separators)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        self._names.clear()
        self._types.clear()
        self._separators.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Lines that start with `#` are passed over."""
        return self._set(allow_comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        raise UnsupportedOperationError(
            "CsvSchemaBuilder.set_any_property_name: rows of one type have no further fields"
        )

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """A list has one element: the whole field."""
        self._separators = dict.fromkeys(self._separators, "")
        return self

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """The same for one column."""
        self._separators[self._names[index]] = ""
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Between the elements of the lists added so far."""
        self._separators = dict.fromkeys(self._separators, separator)
        return self

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        return self._set(delimiter=char)

    def disable_escape_char(self) -> CsvSchemaBuilder:
        return self._set(escape_char="")

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        return self._set(escape_char=char)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Only for writing."""
        self._line_separator = separator
        return self

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        return self._set(null_values=(null_value,))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        return self._set(quote_char="")

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        return self._set(quote_char=char)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        return self._set(skip_first_data_row=skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """The header must name exactly these columns in this order; only with `set_use_header`."""
        self._strict_headers = strict
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """The first line is a header: passed over, or looked at with `set_strict_headers`. Columns are found by their
        positions. When written, there is such a line.
        """
        self._use_header = use
        return self

    def set_newlines_in_values(self, allow: bool = True) -> CsvSchemaBuilder:
        """Quoted fields may contain newlines; such files are not split among subtasks. Beyond PyFlink."""
        return self._set(newlines_in_values=allow)

    def size(self) -> int:
        return len(self._names)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, kind: TypeInformation) -> CsvSchemaBuilder:
        if name in self._names:
            raise ValueError(f"column {name!r} is there already")
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
