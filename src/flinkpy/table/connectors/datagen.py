"""The connector `datagen`: a source of random or sequential values.

The row with a number is the same in every run with the same options, except for times, which are relative to now: a
restored job continues with the rows that it would have made.

Source: org.apache.flink.connector.datagen.table.DataGenTableSourceFactory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.connectors.datagen_columns import ColumnGenerator, RandomValues, RowGenerator, SequenceValues
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SCAN_PARALLELISM, TableOptions
from flinkpy.table.connectors.table_source import DynamicTableSource, ScanTableSource

if TYPE_CHECKING:
    from flinkpy.connector_api.source import SourceBase

ROWS_PER_SECOND: ConfigOption[int] = ConfigOption(
    "rows-per-second", OptionType.INT, 10_000, "The rows per second of all subtasks together.", minimum=1
)
NUMBER_OF_ROWS: ConfigOption[int | None] = ConfigOption(
    "number-of-rows", OptionType.INT, None, "The total number of rows; by default there is no end.", minimum=0
)
_FIELDS = "fields."
_KIND = ConfigOption("kind", OptionType.ENUM, "random", "The generator.", choices=("random", "sequence"))
_MAX_PAST: ConfigOption[int] = ConfigOption("max-past", OptionType.DURATION, 0, "The largest age of a time.")
_LENGTH: ConfigOption[int] = ConfigOption("length", OptionType.INT, 100, "The length of a text or bytes.", minimum=0)
_ELEMENTS: ConfigOption[int] = ConfigOption("length", OptionType.INT, 3, "The elements of a collection.", minimum=0)
_VAR_LEN: ConfigOption[bool] = ConfigOption("var-len", OptionType.BOOL, False, "True for lengths up to `length`.")
_NULL_RATE: ConfigOption[float] = ConfigOption(
    "null-rate", OptionType.FLOAT, 0.0, "The part of nulls.", minimum=0, maximum=1
)
_BOUND_TYPES = (
    types.TinyIntType,
    types.SmallIntType,
    types.IntType,
    types.BigIntType,
    types.FloatType,
    types.DoubleType,
    types.DecimalType,
)
_TIMES = (types.TimestampType, types.LocalZonedTimestampType)
_TEXTS = (types.CharType, types.VarCharType, types.BinaryType, types.VarBinaryType)


class DataGenTableFactory(TableFactory):
    """`'connector' = 'datagen'`."""

    identifier = "datagen"
    optional_options = (ROWS_PER_SECOND, NUMBER_OF_ROWS)
    option_prefixes = (_FIELDS,)

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        options = context.options
        row_type = context.table.resolved_schema.to_physical_row_type()
        reader = _FieldOptions(options)
        columns = tuple((place, reader.generator(each.name, each.type)) for place, each in enumerate(row_type.fields))
        reader.check_all_are_used()
        ends = [each.count for _, each in columns if isinstance(each, SequenceValues)]
        count = options.get(NUMBER_OF_ROWS)
        if ends:
            count = min([*ends, *([] if count is None else [count])])
        return DataGenTableSource(row_type, columns, options.get(ROWS_PER_SECOND), count, options.get(SCAN_PARALLELISM))


class _FieldOptions:
    """Reads the options `fields.NAME.*`, and notes which ones were read."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._used: set[str] = set()

    def _get(self, path: str, option: ConfigOption[Any]) -> Any:
        full = replace(option, key=f"{_FIELDS}{path}.{option.key}")
        self._used.add(full.key)
        return self._options.get(full)

    def check_all_are_used(self) -> None:
        unknown = sorted(key for key in self._options.raw if key.startswith(_FIELDS) and key not in self._used)
        if unknown:
            self._options.check("datagen", (), [replace(_KIND, key=key) for key in sorted(self._used)], (), ())
            raise ValidationError(f"Unsupported options found for 'datagen': {', '.join(unknown)}")

    def generator(self, path: str, kind: LogicalType) -> ColumnGenerator:
        if self._get(path, _KIND) == "sequence":
            return self._sequence(path, kind)
        null_rate = self._get(path, _NULL_RATE)
        if not kind.nullable and null_rate:
            raise ValidationError(f"datagen: {_FIELDS}{path}.null-rate must be 0, because the column is NOT NULL")
        if isinstance(kind, _BOUND_TYPES):
            return RandomValues(kind, null_rate, *self._bounds(path, kind))
        if isinstance(kind, _TIMES):
            return RandomValues(kind, null_rate, max_past_ms=self._get(path, _MAX_PAST))
        if isinstance(kind, _TEXTS):
            return self._text(path, kind, null_rate)
        if isinstance(kind, RowType):
            children = tuple(self.generator(f"{path}.{each.name}", each.type) for each in kind.fields)
        elif isinstance(kind, (types.ArrayType, types.MultisetType)):
            children = (self.generator(f"{path}.element", kind.element),)
        elif isinstance(kind, types.MapType):
            children = (self.generator(f"{path}.key", kind.key), self.generator(f"{path}.value", kind.value))
        elif isinstance(kind, (types.BooleanType, types.DateType, types.TimeType)) or not kind.children:
            return RandomValues(kind, null_rate)
        length = 0 if isinstance(kind, RowType) else self._get(path, _ELEMENTS)
        return RandomValues(kind, null_rate, length=length, children=children)

    def _bounds(self, path: str, kind: LogicalType) -> tuple[Any, Any]:
        is_whole = isinstance(kind, _BOUND_TYPES[:4])
        number = OptionType.INT if is_whole else OptionType.FLOAT
        low, high = (self._get(path, ConfigOption(name, number, None, "A bound.")) for name in ("min", "max"))
        if low is not None and high is not None and low > high:
            raise ValidationError(f"datagen: {_FIELDS}{path}.min is {low}, which is above max {high}")
        return low, high

    def _text(self, path: str, kind: LogicalType, null_rate: float) -> ColumnGenerator:
        length = self._get(path, _LENGTH)
        limit = getattr(kind, "length", types.MAX_LENGTH)
        if isinstance(kind, (types.CharType, types.BinaryType)):
            if self._options.contains(replace(_LENGTH, key=f"{_FIELDS}{path}.length")) and length != limit:
                raise ValidationError(
                    f"Custom length for fixed-length type ({kind.as_sql()}) field '{path}' is not supported."
                )
            return RandomValues(kind, null_rate, length=limit)
        if length > limit:
            raise ValidationError(
                f"Custom length '{length}' for variable-length type ({kind.as_sql()}) field '{path}' should be shorter "
                f"than '{limit}' defined in the schema."
            )
        return RandomValues(kind, null_rate, length=length, is_var_len=self._get(path, _VAR_LEN))

    def _sequence(self, path: str, kind: LogicalType) -> ColumnGenerator:
        if not isinstance(kind, (*_BOUND_TYPES, types.CharType, types.VarCharType)):
            raise ValidationError(f"datagen: a sequence of {kind.as_sql()} is not supported (field '{path}')")
        bounds = []
        for name in ("start", "end"):
            value = self._get(path, ConfigOption(name, OptionType.INT, None, "A bound of the sequence."))
            if value is None:
                raise ValidationError(
                    f"Could not find required property '{_FIELDS}{path}.{name}' for sequence generator."
                )
            bounds.append(value)
        start, end = bounds
        if end < start:
            raise ValidationError(f"datagen: {_FIELDS}{path}.end is {end}, which is before start {start}")
        return SequenceValues(kind, start, end)


@dataclass(frozen=True, slots=True)
class DataGenTableSource(ScanTableSource):
    """Generates rows. It generates only the columns that are read, and stops at a limit.

    Attributes:
        columns: for each column of `row_type` its position in the table and its generator.
    """

    row_type: RowType
    columns: tuple[tuple[int, ColumnGenerator], ...]
    rows_per_second: int
    count: int | None
    scan_parallelism: int | None = None

    @property
    def summary(self) -> str:
        return "DataGenTableSource"

    @property
    def produced_type(self) -> RowType:
        return self.row_type

    @property
    def parallelism(self) -> int | None:
        return self.scan_parallelism

    def source(self) -> SourceBase:
        return DataGeneratorSource(
            RowGenerator(self.row_type, self.columns),
            self.count,
            RateLimiterStrategy.per_second(self.rows_per_second),
            InternalTypeInfo(self.row_type),
        )

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource:
        columns = tuple(self.columns[path[0]] for path in paths)
        return replace(self, row_type=produced_type, columns=columns)

    def with_limit(self, limit: int) -> ScanTableSource:
        return replace(self, count=limit if self.count is None else min(limit, self.count))
