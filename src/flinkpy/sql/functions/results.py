"""Result types that many functions share.

Source: org.apache.flink.table.types.inference.TypeStrategies.
"""

from __future__ import annotations

from flinkpy.sql.functions.definition import Inference, Returns
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.merging import find_common_type

STRING = lt.VarCharType()
BOOLEAN = lt.BooleanType()
INT = lt.IntType()
BIGINT = lt.BigIntType()
DOUBLE = lt.DoubleType()
BYTES = lt.VarBinaryType()


def exactly(kind: lt.LogicalType) -> Returns:
    """Returns a result type whose nullability does not depend on the arguments."""
    return lambda call: kind


def nullable(kind: lt.LogicalType) -> Returns:
    return lambda call: kind.as_nullable()


def argument(index: int) -> Returns:
    """The type of an argument, nullable if any argument is."""
    return lambda call: call.types[index].as_nullable(call.any_nullable)


def text_of_argument(call: Inference) -> lt.LogicalType:
    """VARCHAR of the length of the first argument, nullable if any argument is."""
    length = call.types[0].length  # type: ignore[attr-defined]
    return lt.VarCharType(length, nullable=call.any_nullable)


def part_of_argument(call: Inference) -> lt.LogicalType:
    """VARCHAR of the length of the first argument, always nullable."""
    return text_of_argument(call).as_nullable()


def common_type(types: tuple[lt.LogicalType, ...]) -> lt.LogicalType:
    """Returns the type of arithmetic with numbers that are no decimals, or of a choice between values."""
    has_decimal = any(kind.root is lt.TypeRoot.DECIMAL for kind in types)
    if has_decimal and any(kind.root in of.APPROXIMATE_NUMERIC for kind in types):
        return lt.DoubleType(nullable=any(kind.nullable for kind in types))
    approximate = [kind for kind in types if kind.root in of.APPROXIMATE_NUMERIC]
    if len(approximate) == len(types):  # the first one decides, unlike in find_common_type
        return types[0].as_nullable(any(kind.nullable for kind in types))
    found = find_common_type(types)
    assert found is not None, types
    return found


def common(call: Inference) -> lt.LogicalType:
    """The common type of all arguments, nullable if one of them is."""
    return common_type(call.types)
