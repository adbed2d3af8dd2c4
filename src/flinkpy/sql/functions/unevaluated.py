"""Functions of Flink whose types are known, but which cannot be evaluated yet. Evaluation names them in its error."""

from __future__ import annotations

from flinkpy.sql.functions.definition import FunctionKind, Inference, Returns, definition
from flinkpy.sql.functions.registry import register
from flinkpy.sql.functions.results import BYTES, INT, STRING, exactly, nullable
from flinkpy.sql.types import logical_types as lt

_BITMAP = lt.BitmapType()


def _watermark_type(call: Inference) -> lt.LogicalType:
    kind = call.types[0]
    is_zoned = isinstance(kind, lt.LocalZonedTimestampType)
    return lt.LocalZonedTimestampType(3) if is_zoned else lt.TimestampType(3)


_DEFINITIONS: dict[str, tuple[str, Returns]] = {
    "BITMAP_AND": ("BITMAP, BITMAP", _BITMAP),
    "BITMAP_ANDNOT": ("BITMAP, BITMAP", _BITMAP),
    "BITMAP_OR": ("BITMAP, BITMAP", _BITMAP),
    "BITMAP_XOR": ("BITMAP, BITMAP", _BITMAP),
    "BITMAP_BUILD": ("ARRAY<INT>", _BITMAP),
    "BITMAP_CARDINALITY": ("BITMAP", lt.BigIntType()),
    "BITMAP_FROM_BYTES": ("BINARY_STRING", _BITMAP),
    "BITMAP_TO_BYTES": ("BITMAP", BYTES),
    "BITMAP_TO_ARRAY": ("BITMAP", lt.ArrayType(INT)),
    "BITMAP_TO_STRING": ("BITMAP", STRING),
    "CURRENT_DATABASE": ("", exactly(STRING.not_null())),
    "CURRENT_WATERMARK": ("TIMESTAMP", _watermark_type),
    "JSON": ("CHARACTER_STRING", nullable(STRING)),
}

for _name, (_signature, _returns) in _DEFINITIONS.items():
    register(
        definition(_name, FunctionKind.SCALAR, [_signature], _returns, None, is_deterministic=_name[:7] != "CURRENT")
    )
