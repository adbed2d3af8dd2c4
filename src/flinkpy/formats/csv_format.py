"""CsvFormat: rows of a CSV file in columns, parsed by pyarrow in large pieces."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any

from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.file_format import FileBatchReader, FileSourceSplit, StreamFormat
from flinkpy.formats.input_files import is_compressed
from flinkpy.formats.row_types import project_row_type


class HeaderMode(enum.Enum):
    """What the first record of each file is."""

    NONE = "a row like the others"
    SKIP = "passed over unseen"
    USE = "the names of the file's columns: columns are found by name, in whatever order, others are left out"
    STRICT = "the names of the type's columns, in their order, or the file is refused"


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written.

    Attributes:
        quote_char: empty: quotes are characters like others.
        escape_char: empty: none. A quote inside quotes is doubled.
        null_values: an unquoted field that reads like one of these is null. Where any are given, an empty field is null
            in every column (`""` in quotes stays an empty string); where none are, an empty field is null except in
            STRING columns.
        newlines_in_values: quoted fields may contain newlines. A file is then read by one subtask from its start,
            because a newline no longer tells where a row ends.
        allow_comments: lines that start with `#` are passed over.
        skip_first_data_row: the first row after the header is passed over.
        array_separators: between the elements of a list, by column.
        file_columns: names of all columns of a file without a header, where not all of them are read.
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

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote_char", "escape_char"):
            value = getattr(self, name)
            if len(value.encode()) > 1 or (not value and name == "delimiter") or value in ("\n", "\r"):
                raise ValueError(f"CSV option {name} must be one ASCII character, not {value!r}")


class CsvFormat(StreamFormat):
    """Reads rows of `row_type`; the files are UTF-8.

    Every batch is `RecordBatch[n rows, schema=arrow_schema(row_type)]`.
    """

    def __init__(self, row_type: RowTypeInfo, options: CsvOptions) -> None:
        self.row_type = row_type
        self.options = options

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def projected_to(self, columns: list[str]) -> CsvFormat | None:
        """Values of other columns are not looked at; so only where one that cannot be read is not passed over."""
        if self.on_error != FAIL or self.options.header is HeaderMode.STRICT:
            return None
        options = self.options
        if options.header is not HeaderMode.USE and not options.file_columns:
            options = replace(options, file_columns=tuple(self.row_type.get_field_names()))
        return CsvFormat(project_row_type(self.row_type, columns), options)

    def is_splittable(self, path: str) -> bool:
        return not self.options.newlines_in_values and not is_compressed(path)

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        from flinkpy.formats.csv_reader import CsvBatchReader

        return CsvBatchReader(split, self.row_type, self.options, max_batch_rows, self.on_error == FAIL)
