"""JsonParser: parses JSON objects to rows of a declared type.

pyarrow's reader parses many objects into columns, if the types allow it. It is stricter than Flink's and does not
report errors per object. So objects that it refuses are parsed one by one with `json_values`. Both return the same
rows; pyarrow is faster.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from flinkpy.common import typeinfo as ti
from flinkpy.common.typeinfo import BasicType, RowTypeInfo, TypeInformation
from flinkpy.common.types import row_of
from flinkpy.formats.json_values import JsonReadOptions, JsonValueError, parse_json, row_converter
from flinkpy.formats.schema import DecodedBatch, MessageError
from flinkpy.records.lanes import arrow_schema, columns_of

#: Types for which pyarrow returns the same values as `json_values`, or refuses the object.
_FAST_TYPES = frozenset(
    {
        BasicType.STRING,
        BasicType.BOOLEAN,
        BasicType.BYTE,
        BasicType.SHORT,
        BasicType.INT,
        BasicType.LONG,
        BasicType.DOUBLE,
    }
)


class JsonParser:
    """Parses JSON objects to rows of a type. Thread: any, one at a time."""

    def __init__(self, row_type: RowTypeInfo, options: JsonReadOptions) -> None:
        self._row_type = row_type
        self._names = row_type.get_field_names()
        self._options = options
        self._convert = row_converter(row_type, options)
        self._schema = arrow_schema(row_type) if self._names and _is_fast(row_type) else None
        self._read_options = pa_json.ReadOptions(use_threads=False)
        self._parse_options = pa_json.ParseOptions(
            explicit_schema=self._schema, newlines_in_values=False, unexpected_field_behavior="ignore"
        )

    @property
    def reads_columns(self) -> bool:
        """True if `parse_columns` supports the type."""
        return self._schema is not None

    def parse_one(self, message: bytes) -> Any:
        """Returns the Row of a message; None for null. Raises: JsonValueError."""
        value = parse_json(message)
        return None if value is None else row_of(self._convert(value), self._names)

    def parse_messages(self, messages: Sequence[bytes | None]) -> DecodedBatch:
        """Parses messages of one object each. None has no record."""
        present = messages if None not in messages else [message for message in messages if message is not None]
        columns = None
        if self._schema is not None and all(present):
            data = b"\n".join(present)  # type: ignore[arg-type]
            if data.count(b"\n") == len(present) - 1:
                columns = self.parse_columns(data, len(present))
        if columns is None:
            return self._parse_each(messages)
        if present is messages:
            return DecodedBatch(columns)
        positions = np.array([index for index, message in enumerate(messages) if message is not None], np.int64)
        return DecodedBatch(columns, positions)

    def parse_columns(self, data: bytes, rows: int) -> pa.RecordBatch | None:
        """Parses `rows` objects, one per line, to columns. None if they must be parsed one by one."""
        if self._schema is None or not rows or b"NaN" in data or b"Inf" in data:
            return None  # pyarrow accepts them as numbers
        self._read_options.block_size = len(data) + 1
        try:
            str(data, "utf-8")  # pyarrow does not check the encoding
            table = pa_json.read_json(pa.BufferReader(data), self._read_options, self._parse_options)
        except (pa.ArrowException, UnicodeDecodeError, OverflowError):
            return None
        if table.num_rows != rows or table.schema.names != self._names:
            return None
        columns = table.combine_chunks().to_batches()[0]
        nulls = [column.null_count for column in columns.columns]
        if self._options.fail_on_missing_field and any(nulls):
            return None  # a null or a missing field
        if all(nulls) and pc.any(functools.reduce(pc.and_, map(pc.is_null, columns.columns))).as_py():
            return None  # an empty object or a null
        return columns if columns.schema.equals(self._schema) else columns.cast(self._schema)

    def rows_to_columns(self, values: list[list[Any]]) -> pa.RecordBatch:
        """Returns rows of `parse_each` as columns. Raises: TypeMismatchError."""
        return columns_of(values, self._row_type)

    def parse_each(self, texts: Sequence[bytes]) -> list[list[Any]]:
        """Returns the field values of each object. It skips null and, if errors are ignored, malformed objects.

        Raises:
            JsonValueError: an object is malformed.
        """
        rows = []
        for text in texts:
            try:
                value = parse_json(text)
                if value is not None:
                    rows.append(self._convert(value))
            except JsonValueError:
                if not self._options.ignore_parse_errors:
                    raise
        return rows

    def _parse_each(self, messages: Sequence[bytes | None]) -> DecodedBatch:
        values, positions, errors = [], [], []
        for index, message in enumerate(messages):
            if message is None:
                continue
            try:
                row = self.parse_one(message)
            except JsonValueError as error:
                # As in Flink, a message that is not an object is skipped if errors are ignored.
                if not self._options.ignore_parse_errors:
                    errors.append(MessageError(index, str(error)))
                continue
            if row is not None:
                values.append(row)
                positions.append(index)
        return DecodedBatch(values, np.array(positions, np.int64), errors)


def _is_fast(type_info: TypeInformation) -> bool:
    if isinstance(type_info, ti.BasicTypeInfo):
        return type_info.basic_type in _FAST_TYPES
    if isinstance(type_info, RowTypeInfo):
        return bool(type_info.get_field_names()) and all(map(_is_fast, type_info.get_field_types()))
    if isinstance(type_info, (ti.ListTypeInfo, ti.BasicArrayTypeInfo, ti.ObjectArrayTypeInfo)):
        return _is_fast(type_info.element_type)
    if isinstance(type_info, ti.PrimitiveArrayTypeInfo):
        element = type_info.element_type
        return _is_fast(element) and getattr(element, "basic_type", None) is not BasicType.BYTE
    return False
