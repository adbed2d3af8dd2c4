"""JsonWriter: writes columns as JSON objects, one text per row.

Each column becomes a list of texts, and a template combines the fields of a row. So there is no Python object per row.
The texts are those of Flink: no spaces, null for null fields, base64 for bytes, times in one of three forms.

Source: org.apache.flink.formats.json.JsonRowSerializationSchema.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common import typeinfo as ti
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import BasicType, RowTypeInfo, TypeInformation
from flinkpy.formats.csv_writer import decimal_text
from flinkpy.formats.json_values import TimeForm, temporal_kind
from flinkpy.formats.text_form import float_text
from flinkpy.records.column_codecs import codec_of

Texts = Callable[[pa.Array], list[str]]

_NULL = "null"
_QUOTE = '"'
#: Encodes the texts of a column at once, each on its own line: JSON strings escape newlines.
_DUMPS = json.JSONEncoder(ensure_ascii=False, separators=("\n", ":")).encode


class JsonWriter:
    """Writes rows of a type as JSON objects. Thread: any.

    Args:
        row_type: the rows.
        form: how times are written.
        leaves_out_nulls: True to leave out fields that are null, also in nested rows.

    Raises:
        UnsupportedOperationError: JSON does not support the type of a field.
    """

    def __init__(
        self, row_type: RowTypeInfo, form: TimeForm = TimeForm.RFC_3339, leaves_out_nulls: bool = False
    ) -> None:
        self._texts = _row_texts(row_type.get_field_names(), row_type.get_field_types(), form, leaves_out_nulls)

    def texts(self, columns: pa.RecordBatch) -> list[str]:
        """Returns one JSON object per row of `RecordBatch[schema=arrow_schema(row_type)]`."""
        return self._texts(columns.columns, columns.num_rows)


def _row_texts(
    names: list[str], types: list[TypeInformation], form: TimeForm, leaves_out_nulls: bool
) -> Callable[[list[pa.Array], int], list[str]]:
    fields = [texts_of(kind, form, leaves_out_nulls) for kind in types]
    labels = [json.dumps(name, ensure_ascii=False) for name in names]
    if leaves_out_nulls:
        return lambda arrays, num_rows: _texts_of_values(labels, fields, arrays, num_rows)
    template = "{" + ",".join(label.replace("%", "%%") + ":%s" for label in labels) + "}"

    def texts(arrays: list[pa.Array], num_rows: int) -> list[str]:
        if not fields:
            return ["{}"] * num_rows
        return list(map(template.__mod__, zip(*(field(array) for field, array in zip(fields, arrays)))))

    return texts


def _texts_of_values(labels: list[str], fields: list[Texts], arrays: list[pa.Array], num_rows: int) -> list[str]:
    """Returns objects with the fields that are not null."""
    parts: list[list[str]] = [[] for _ in range(num_rows)]
    for label, field, array in zip(labels, fields, arrays):
        for row, text, is_valid in zip(parts, field(array), array.is_valid().to_pylist()):
            if is_valid:
                row.append(f"{label}:{text}")
    return [f"{{{','.join(row)}}}" for row in parts]


def texts_of(type_info: TypeInformation, form: TimeForm = TimeForm.RFC_3339, leaves_out_nulls: bool = False) -> Texts:
    """Returns a function from a column of this type to the JSON texts of its values.

    Args:
        leaves_out_nulls: as for JsonWriter.
    """
    if isinstance(type_info, ti.ExternalTypeInfo):
        return texts_of(type_info.wrapped_type, form, leaves_out_nulls)
    if isinstance(type_info, ti.BasicTypeInfo):
        if type_info.basic_type is BasicType.INSTANT:
            return lambda array: _instant_texts(array, form)
        return _BASIC[type_info.basic_type]
    if isinstance(type_info, RowTypeInfo):
        whole = _row_texts(type_info.get_field_names(), type_info.get_field_types(), form, leaves_out_nulls)
        return lambda array: _or_null(array, whole(array.flatten(), len(array)))
    if isinstance(type_info, ti.TupleTypeInfo):
        fields = [texts_of(kind, form, leaves_out_nulls) for kind in type_info.get_field_types()]
        return lambda array: _tuple_texts(array, fields)
    if isinstance(type_info, ti.MapTypeInfo):
        return _map_texts(texts_of(type_info.key_type, form), texts_of(type_info.value_type, form, leaves_out_nulls))
    if isinstance(type_info, ti.PickledBytesTypeInfo):
        codec = codec_of(type_info)
        return lambda array: [_any_text(value) for value in codec.decode(array)]
    if isinstance(type_info, ti.PrimitiveArrayTypeInfo) and pa.types.is_binary(codec_of(type_info).arrow_type):
        return lambda array: _each(array, _base64_text)
    if isinstance(
        type_info, (ti.ListTypeInfo, ti.PrimitiveArrayTypeInfo, ti.BasicArrayTypeInfo, ti.ObjectArrayTypeInfo)
    ):
        element = texts_of(type_info.element_type, form, leaves_out_nulls)
        return lambda array: _list_texts(array, element)
    match temporal_kind(type_info):
        case "DATE":
            return lambda array: _each(array, lambda value: f'"{value.isoformat()}"')
        case "TIME":
            return lambda array: _each(array, lambda value: _time_text(value, form))
        case "TIMESTAMP":
            return lambda array: _each(array, lambda value: _timestamp_text(value, form))
    raise UnsupportedOperationError(f"JSON does not support values of {type_info!r}")


def _or_null(array: pa.Array, texts: list[str]) -> list[str]:
    if not array.null_count:
        return texts
    return [text if valid else _NULL for text, valid in zip(texts, array.is_valid().to_pylist())]


def _number_texts(array: pa.Array) -> list[str]:
    return array.cast(pa.string()).fill_null(_NULL).to_pylist()  # type: ignore[no-any-return]


def _string_texts(array: pa.Array) -> list[str]:
    return _DUMPS(array.to_pylist())[1:-1].split("\n") if len(array) else []


def _float_texts(array: pa.Array) -> list[str]:
    is_float32 = pa.types.is_float32(array.type)
    magnitude = pc.abs(array)
    plain = pc.or_(pc.and_(pc.greater_equal(magnitude, 1e-3), pc.less(magnitude, 1e7)), pc.equal(magnitude, 0))
    if not is_float32 and pc.all(plain, min_count=0).as_py() is not False:
        return _string_texts(array)
    # Numbers with an exponent, written like Java, or numbers that JSON does not have.
    return [_NULL if value is None else _float_text(value, is_float32) for value in array.to_pylist()]


def _float_text(value: float, is_float32: bool) -> str:
    if not math.isfinite(value):
        return _QUOTE + float_text(value) + _QUOTE
    # The shortest digits of the 32-bit number; Python holds it as a 64-bit number.
    return float_text(value, str(np.float32(value))) if is_float32 else float_text(value)


def _base64_text(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode("ascii")}"'


def _time_text(value: datetime.time, form: TimeForm) -> str:
    zone = "Z" if form is TimeForm.RFC_3339 else ""
    return f'"{value.replace(microsecond=0).isoformat()}{_fraction(value.microsecond)}{zone}"'


def _timestamp_text(value: datetime.datetime, form: TimeForm, *, is_instant: bool = False) -> str:
    plain = value.replace(tzinfo=None)
    separator = " " if form is TimeForm.SQL else "T"
    zone = "Z" if is_instant or form is TimeForm.RFC_3339 else ""
    return f'"{plain.replace(microsecond=0).isoformat(separator)}{_fraction(plain.microsecond)}{zone}"'


def _fraction(microseconds: int) -> str:
    return "." + f"{microseconds:06d}".rstrip("0") if microseconds else ""


def _each(array: pa.Array, text: Callable[[Any], str]) -> list[str]:
    return [_NULL if value is None else text(value) for value in array.to_pylist()]


def _list_texts(array: pa.Array, element: Texts) -> list[str]:
    parts = element(array.flatten())
    texts = [f"[{','.join(part)}]" for part in _pieces(array, parts)]
    return _or_null(array, texts)


def _map_texts(key: Texts, item: Texts) -> Texts:
    def texts(array: pa.Array) -> list[str]:
        start, end = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
        keys = key(array.keys.slice(start, end - start))
        items = item(array.items.slice(start, end - start))
        pairs = [
            f"{name if name.startswith(chr(34)) else chr(34) + name + chr(34)}:{value}"
            for name, value in zip(keys, items)
        ]
        offsets = array.offsets.to_numpy() - start
        whole = [f"{{{','.join(pairs[first:last])}}}" for first, last in pairwise(offsets)]
        return _or_null(array, whole)

    return texts


def _tuple_texts(array: pa.Array, fields: list[Texts]) -> list[str]:
    columns = [field(column) for field, column in zip(fields, array.flatten())]
    return _or_null(array, [f"[{','.join(values)}]" for values in zip(*columns)])


def _pieces(array: pa.Array, parts: list[str]) -> Iterator[list[str]]:
    start = 0
    for length in array.value_lengths().fill_null(0).to_pylist():
        yield parts[start : start + length]
        start += length


def _any_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnsupportedOperationError(f"{type(value).__name__} cannot be written as JSON: {error}") from error


def _instant_texts(array: pa.Array, form: TimeForm) -> list[str]:
    # An INSTANT may be outside of Python's years.
    micros = array.cast(pa.int64()).to_pylist()
    return [_NULL if value is None else _timestamp_text(_moment(value), form, is_instant=True) for value in micros]


def _moment(micros: int) -> datetime.datetime:
    try:
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    except OverflowError:
        raise UnsupportedOperationError(
            f"the instant {micros} us after the epoch is outside of the years 1 to 9999"
        ) from None


_BASIC: dict[BasicType, Texts] = {
    BasicType.STRING: _string_texts,
    BasicType.CHAR: _string_texts,
    BasicType.BOOLEAN: _number_texts,
    BasicType.BYTE: _number_texts,
    BasicType.SHORT: _number_texts,
    BasicType.INT: _number_texts,
    BasicType.LONG: _number_texts,
    BasicType.FLOAT: _float_texts,
    BasicType.DOUBLE: _float_texts,
    BasicType.BIG_INT: lambda array: _each(array, lambda value: str(int(value))),
    BasicType.BIG_DEC: lambda array: _each(array, decimal_text),
}
