"""AvroColumns: plain Avro values as columns of a row type, and back.

Records are dicts of the numbers, texts and bytes of the encoding, without logical types: a timestamp is an int. They
become columns of such values first, which are then cast as a whole.

Source: org.apache.flink.formats.avro.{AvroToRowDataConverters, RowDataToAvroConverters}. As there, the type of the
table says what a number means, also if the schema of the writer has another unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import arrow_type_of, schema_of
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.formats.avro_schemas import value_type_of

Convert = Callable[[Any], Any]

#: Moves the point of the longest decimal without rounding.
_EXACT = Context(prec=2 * types.MAX_DECIMAL_PRECISION)


class _Form(NamedTuple):
    """The plain form of values of a type.

    Attributes:
        plain: the Arrow type of the plain values. It can be cast to the Arrow type of the logical type, and back.
        read: converts an Avro value to a value of `plain`; None if they are equal.
        write: converts a value of `plain` to an Avro value; None if they are equal.
    """

    plain: pa.DataType
    read: Convert | None = None
    write: Convert | None = None


class AvroColumns:
    """Converts records of a row type.

    Example:
        >>> columns = AvroColumns(RowType.of(("at", TimestampType(3))))
        >>> columns.batch_of([{"at": 1_000}]).to_pylist()
        [{'at': datetime.datetime(1970, 1, 1, 0, 0, 1)}]
    """

    def __init__(self, row_type: RowType) -> None:
        self._schema = schema_of(row_type)
        self._forms = [(field.name, _form_of(field.type)) for field in row_type.fields]

    def batch_of(self, records: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        """Returns the records as columns. A field that a record does not have is null.

        Raises: errors of pyarrow, ValueError, TypeError, AttributeError if a value does not fit its column.
        """
        arrays = []
        for (name, form), field in zip(self._forms, self._schema):
            values = [record.get(name) for record in records]
            arrays.append(pa.array(_mapped(form.read, values), form.plain).cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def records_of(self, rows: pa.RecordBatch) -> list[dict[str, Any]]:
        """Returns the rows as records."""
        lists = []
        for (_, form), column in zip(self._forms, rows.columns):
            lists.append(_mapped(form.write, column.cast(form.plain, safe=False).to_pylist()))
        names = [name for name, _ in self._forms]
        return [dict(zip(names, values)) for values in zip(*lists)]


def _mapped(convert: Convert | None, values: list[Any]) -> list[Any]:
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _form_of(kind: LogicalType) -> _Form:
    match kind:
        case types.TimestampType() | types.LocalZonedTimestampType():
            return _Form(pa.int64())
        case types.DateType() | types.TimeType():
            return _Form(pa.int32())
        case types.DecimalType():
            return _decimal(kind)
        case types.CharType() | types.VarCharType():
            return _Form(pa.string(), _text)
        case RowType():
            return _row(kind)
        case types.ArrayType():
            element = _form_of(kind.element)
            return _Form(
                pa.list_(element.plain),
                element.read and (lambda values: _mapped(element.read, values)),
                element.write and (lambda values: _mapped(element.write, values)),
            )
        case types.MapType() | types.MultisetType():
            value = _form_of(value_type_of(kind))
            return _Form(
                pa.map_(pa.string(), value.plain),
                lambda found: list(zip(found, _mapped(value.read, list(found.values())))),
                lambda found: dict(zip((key for key, _ in found), _mapped(value.write, [each for _, each in found]))),
            )
    return _Form(arrow_type_of(kind))


def _text(value: Any) -> Any:
    # A writer may have bytes where the reader has a text.
    return value.decode() if isinstance(value, bytes) else value


def _decimal(kind: types.DecimalType) -> _Form:
    scale = kind.scale

    def read(value: bytes) -> Decimal:
        return _EXACT.scaleb(Decimal(int.from_bytes(value, "big", signed=True)), -scale)

    def write(value: Decimal) -> bytes:
        number = int(_EXACT.scaleb(value, scale))
        # One bit more than the number has, for its sign.
        return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)

    return _Form(arrow_type_of(kind), read, write)


def _row(kind: RowType) -> _Form:
    forms = [(field.name, _form_of(field.type)) for field in kind.fields]

    def converted(value: dict[str, Any], converters: list[tuple[str, Convert | None]]) -> dict[str, Any]:
        found = {}
        for name, convert in converters:
            each = value.get(name)
            found[name] = each if each is None or convert is None else convert(each)
        return found

    reads = [(name, form.read) for name, form in forms]
    writes = [(name, form.write) for name, form in forms]
    return _Form(
        pa.struct([pa.field(name, form.plain) for name, form in forms]),
        (lambda value: converted(value, reads)) if any(read for _, read in reads) else None,
        (lambda value: converted(value, writes)) if any(write for _, write in writes) else None,
    )
