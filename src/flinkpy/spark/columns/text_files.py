"""Spark's readers of CSV and JSON lines, for sources that ask for them.

Options of Spark are chosen so that delimiters, quotes, headers, nulls and decimals are those of flinkpy. What is left
are texts that the parsers of values take otherwise; docs/spark.md names them. A record that Spark cannot parse fails
the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import types as t

from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.csv_format import CsvFormat, CsvOptions, HeaderMode
from flinkpy.formats.file_format import FileFormat, FileSourceSplit
from flinkpy.formats.json_format import JsonFormat
from flinkpy.spark.columns.functions import F
from flinkpy.spark.columns.names import NotExpressible, column, column_types

if TYPE_CHECKING:
    from pyspark.sql import Column

    from flinkpy.common.typeinfo import RowTypeInfo

#: The types of CSV columns that both readers have.
_CSV_TYPES = (
    t.StringType,
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.DateType,
    t.TimestampNTZType,
)


@dataclass(frozen=True)
class TextReader:
    """Describes how Spark reads a format.

    Attributes:
        kind: Spark's name of the format.
        row_type: the columns to read.
        csv: the dialect of CSV files; None for JSON.
        options: Spark's options of the format.
    """

    kind: str
    row_type: RowTypeInfo
    csv: CsvOptions | None = None
    options: dict[str, str] = field(default_factory=dict)

    def fields(self, files: Sequence[tuple[str, int]]) -> list[t.StructField]:
        """Returns the columns of the files in their order. Those of CSV files follow from their headers.

        Args:
            files: the paths and sizes of files that are not empty.

        Raises: NotExpressible, InputFormatError.
        """
        kinds = column_types(self.row_type)
        if self.csv is None:
            return [t.StructField(name, kind) for name, kind in kinds.items()]
        names = list(self.csv.file_columns) or list(kinds)
        if self.csv.header is HeaderMode.USE:
            names = self._names_in_headers(files)
        # Spark finds columns by their position. Those that nobody reads need a name of their own.
        found = [name if name in kinds else f"__column_{place}" for place, name in enumerate(names)]
        return [t.StructField(name, kinds.get(name, t.StringType())) for name in found]

    def _names_in_headers(self, files: Sequence[tuple[str, int]]) -> list[str]:
        from flinkpy.formats.csv_reader import look_at_head

        assert self.csv is not None
        first: list[str] | None = None
        for path, size in files:
            names, _ = look_at_head(FileSourceSplit("header", path, 0, size, size), self.row_type, self.csv)
            if first is not None and names != first:
                raise NotExpressible(f"{path} has the header {names}, and another file {first}")
            first = names
        return first or list(column_types(self.row_type))

    def value(self, name: str, kind: t.DataType) -> Column:
        """Returns the value of a column as flinkpy has it."""
        if self.csv is not None and not self.csv.null_values and isinstance(kind, t.StringType):
            # For Spark an empty field is null.
            return F.coalesce(column(name), F.lit("")).alias(name)
        return column(name)


def text_reader_of(content: FileFormat) -> TextReader:
    """Returns how Spark reads a format. Raises: NotExpressible, which says why it cannot."""
    if content.on_error != FAIL:
        raise NotExpressible("skipping records that cannot be read")
    if isinstance(content, CsvFormat):
        return _csv_reader(content)
    if type(content) is JsonFormat:
        return TextReader("json", content.row_type, options={"mode": "FAILFAST", "encoding": "UTF-8", "lineSep": "\n"})
    raise NotExpressible(f"files of {type(content).__name__}")


def _csv_reader(content: CsvFormat) -> TextReader:
    options = content.options
    if options.escape_char:
        raise NotExpressible("CSV files with an escape character")
    if options.header is HeaderMode.STRICT:
        raise NotExpressible("CSV files whose headers are compared")
    if options.skip_first_data_row:
        raise NotExpressible("CSV files whose first row is skipped")
    texts = [text for text in options.null_values if text]
    if len(texts) > 1 or (texts and "" not in options.null_values):
        raise NotExpressible(f"CSV files with the texts {', '.join(map(repr, options.null_values))} for null")
    for name, kind in column_types(content.row_type).items():
        if not isinstance(kind, _CSV_TYPES):
            raise NotExpressible(f"CSV column {name!r} of type {kind.simpleString()}")
    return TextReader(
        "csv",
        content.row_type,
        options,
        {
            "mode": "FAILFAST",
            "encoding": "UTF-8",
            "sep": options.delimiter,
            "quote": options.quote_char,
            # A quote inside quotes is doubled.
            "escape": options.quote_char or "\0",
            "header": str(options.header is not HeaderMode.NONE).lower(),
            "comment": "#" if options.allow_comments else "\0",
            "nullValue": texts[0] if texts else "",
            "emptyValue": "",
            "multiLine": str(options.newlines_in_values).lower(),
            "enforceSchema": "true",
        },
    )
