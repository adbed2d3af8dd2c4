"""The format `raw`: a message is the value of the only column.

Source: org.apache.flink.formats.raw.RawFormatFactory.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.formats.schema import MessageError
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.formats.message_schemas import (
    DecodedChanges,
    TableDeserializationSchema,
    TableSerializationSchema,
    single_field,
)
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkpy.sql.types.logical_types import RowType
    from flinkpy.table.connectors.table_options import TableOptions

CHARSET = ConfigOption("charset", OptionType.STRING, "UTF-8", "The encoding of texts.")
ENDIANNESS = ConfigOption(
    "endianness",
    OptionType.ENUM,
    "big-endian",
    "The order of the bytes of numbers.",
    choices=("big-endian", "little-endian"),
)

#: Type -> the code of `struct`.
_CODES: dict[type, str] = {
    types.BooleanType: "?",
    types.TinyIntType: "b",
    types.SmallIntType: "h",
    types.IntType: "i",
    types.BigIntType: "q",
    types.FloatType: "f",
    types.DoubleType: "d",
}


class RawTableFormat(TableFormat):
    """Values without any structure around them."""

    identifier = "raw"
    optional_options: tuple[ConfigOption[Any], ...] = (CHARSET, ENDIANNESS)

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        return _RawReader(row_type, options.get(CHARSET), options.get(ENDIANNESS))

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        return _RawWriter(row_type, options.get(CHARSET), options.get(ENDIANNESS))


def _code_of(row_type: RowType, charset: str, endianness: str) -> tuple[type, str]:
    """Returns the type of the only column and its code; "" for texts and bytes. Raises: ValidationError."""
    kind = single_field(row_type, "raw").type
    try:
        codecs.lookup(charset)
    except LookupError as error:
        raise ValidationError(f"Unsupported 'raw.charset' name: {charset}.") from error
    if isinstance(kind, types.CharType | types.VarCharType | types.BinaryType | types.VarBinaryType):
        return type(kind), ""
    if type(kind) not in _CODES:
        raise UnsupportedOperationError(f"The 'raw' format doesn't supports '{kind}' as column type.")
    return type(kind), (">" if endianness == "big-endian" else "<") + _CODES[type(kind)]


class _RawReader(TableDeserializationSchema):
    def __init__(self, row_type: RowType, charset: str, endianness: str) -> None:
        super().__init__(row_type)
        self._charset = charset
        self._kind, self._code = _code_of(row_type, charset, endianness)

    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        import numpy as np
        import pyarrow as pa

        read = self._read()
        values, positions, errors = [], [], []
        for index, message in enumerate(messages):
            try:
                # As in Flink, a tombstone is a row with null.
                values.append(None if message is None else read(message))
                positions.append(index)
            except (struct.error, UnicodeDecodeError) as error:
                errors.append(MessageError(index, str(error)))
        schema = schema_of(self.row_type)
        rows = pa.RecordBatch.from_arrays([pa.array(values, schema.field(0).type)], schema=schema)
        return DecodedChanges(rows, None, np.array(positions, np.int64), errors)

    def _read(self) -> Callable[[bytes], Any]:
        if self._code:
            form = struct.Struct(self._code)
            return lambda message: form.unpack(message)[0]
        if issubclass(self._kind, types.CharType | types.VarCharType):
            return lambda message: message.decode(self._charset)
        return bytes


class _RawWriter(TableSerializationSchema):
    def __init__(self, row_type: RowType, charset: str, endianness: str) -> None:
        super().__init__(row_type)
        self._charset = charset
        _, self._code = _code_of(row_type, charset, endianness)

    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        return [None if value is None else self._bytes(value) for value in rows.column(0).to_pylist()]

    def _bytes(self, value: Any) -> bytes:
        if self._code:
            return struct.pack(self._code, value)
        return value.encode(self._charset) if isinstance(value, str) else bytes(value)
