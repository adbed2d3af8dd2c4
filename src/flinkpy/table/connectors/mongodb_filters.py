"""Conditions of queries as filters of MongoDB, so that it sends fewer documents.

The query evaluates all conditions again, because MongoDB compares a missing field otherwise. A server compares values
of one type only: a document whose field has another type than the column is not found by a condition on it.

Source: org.apache.flink.connector.mongodb.table.MongoFilterPushDownVisitor.
"""

from __future__ import annotations

import datetime
from typing import Any

from flinkpy.connectors.mongodb.client import ID
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.logical_types import LogicalType, RowType

#: Comparison -> the operator of MongoDB, and the comparison with its operands exchanged.
_COMPARISONS = {
    "=": ("$eq", "="),
    "<>": ("$ne", "<>"),
    "<": ("$lt", ">"),
    "<=": ("$lte", ">="),
    ">": ("$gt", "<"),
    ">=": ("$gte", "<="),
}
_VALUES = (bool, int, float, str, datetime.datetime)
#: Reading may change values of these types: a double is rounded to the scale or the precision of the column.
_ROUNDED = (types.DecimalType, types.FloatType)


def filter_of(node: RexNode, row_type: RowType) -> dict[str, Any] | None:
    """Returns the filter of a condition; None if MongoDB has none.

    Args:
        row_type: the columns that the condition refers to.
    """
    if isinstance(node, InputRef) and isinstance(node.type, types.BooleanType):
        return {row_type.names[node.index]: {"$eq": True}}
    if not isinstance(node, RexCall):
        return None
    if node.function in ("AND", "OR"):
        parts = [filter_of(each, row_type) for each in node.arguments]
        return None if None in parts else {f"${node.function.lower()}": parts}
    if node.function in ("IS NULL", "IS NOT NULL"):
        (operand,) = node.arguments
        # A decimal that does not fit into the column is NULL here, and not in MongoDB.
        if not isinstance(operand, InputRef) or isinstance(operand.type, types.DecimalType):
            return None
        return {row_type.names[operand.index]: {"$eq" if node.function == "IS NULL" else "$ne": None}}
    return _comparison(node, row_type) if node.function in _COMPARISONS else None


def _comparison(node: RexCall, row_type: RowType) -> dict[str, Any] | None:
    left, right = node.arguments
    comparison = node.function
    if isinstance(left, Literal):
        left, right, comparison = right, left, _COMPARISONS[comparison][1]
    if not (isinstance(left, InputRef) and isinstance(right, Literal) and isinstance(right.value, _VALUES)):
        return None
    if isinstance(right.value, datetime.datetime) and right.value.microsecond % 1000:
        return None  # MongoDB has milliseconds
    name = row_type.names[left.index]
    value = right.value
    if name == ID and isinstance(value, str):
        # The text of the column may be that of an ObjectId, which MongoDB does not compare with texts.
        return {name: {"$in": key_forms(value)}} if comparison == "=" else None
    return {name: {_COMPARISONS[comparison][0]: value}} if _are_comparable(left.type, right.type) else None


def _are_comparable(column: LogicalType, literal: LogicalType) -> bool:
    """True if the order of the values is the same in MongoDB."""
    if isinstance(column, _ROUNDED) or isinstance(literal, types.DecimalType):
        return False
    return isinstance(column, types.BooleanType) == isinstance(literal, types.BooleanType)


def key_forms(text: str) -> list[Any]:
    """Returns the values of `_id` whose text is this one."""
    from bson import ObjectId

    return [text, ObjectId(text)] if ObjectId.is_valid(text) else [text]
