"""Facts about types and calls: which casts keep all values, which types are comparable, and which calls may fail."""

from __future__ import annotations

from flinkpy.sql.functions.definition import FunctionDefinition
from flinkpy.sql.functions.registry import find_function
from flinkpy.sql.rex import Literal, RexCall, RexNode, UserFunctionCall, walk
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.families import precision_of, scale_of
from flinkpy.table.planner.batch.dialect import INTEGER_BITS, NotInEngine

R = lt.TypeRoot
#: The digits of the largest decimals.
MAX_DIGITS = 38


def definition_of(node: RexCall) -> FunctionDefinition:
    """Returns the definition of a built-in function. Raises: NotInEngine."""
    found = find_function(node.function)
    if found is None:
        raise NotInEngine(node.function)
    return found


def may_fail(node: RexNode) -> bool:
    """True if the expression has no value for some operands, or calls a function of a user."""
    return failing_part(node) is not None


def failing_part(node: RexNode) -> str | None:
    """Returns the name of a function in the expression that may fail; None if there is none."""
    for each in walk(node):
        if isinstance(each, UserFunctionCall):
            return each.name
        if isinstance(each, RexCall) and definition_of(each).may_fail and not _never_fails(each):
            return each.function
    return None


def _never_fails(node: RexCall) -> bool:
    """True for a call of a function that may fail, with arguments for which it cannot."""
    if node.function in ("/", "MOD"):
        divisor = node.arguments[1]
        return isinstance(divisor, Literal) and divisor.value is not None and divisor.value != 0
    return node.function == "CAST" and is_lossless(node.arguments[0].type, node.type)


def are_comparable(left: lt.LogicalType, right: lt.LogicalType) -> bool:
    """True if engines compare values of both types without loss."""
    if left.root in of.EXACT_NUMERIC and right.root in of.EXACT_NUMERIC:
        whole = max(precision_of(left) - scale_of(left), precision_of(right) - scale_of(right))
        return whole + max(scale_of(left), scale_of(right)) <= MAX_DIGITS
    for family in (of.CHARACTER_STRING, of.BINARY_STRING):
        if left.root in family and right.root in family:
            return True
    return left.root is right.root and left.root in (
        R.BOOLEAN,
        R.DATE,
        R.TIMESTAMP_WITHOUT_TIME_ZONE,
        R.TIMESTAMP_WITH_LOCAL_TIME_ZONE,
    )


def is_lossless(source: lt.LogicalType, target: lt.LogicalType) -> bool:
    """True for casts after which the value is the same for all values of the type."""
    if source.root in INTEGER_BITS and target.root in INTEGER_BITS:
        return INTEGER_BITS[source.root] <= INTEGER_BITS[target.root]
    if source.root in of.EXACT_NUMERIC and isinstance(target, lt.DecimalType):
        whole = precision_of(source) - scale_of(source)
        return whole <= target.precision - target.scale and scale_of(source) <= target.scale
    if source.root in (R.TINYINT, R.SMALLINT, R.INTEGER) and target.root is R.DOUBLE:
        return True
    if source.root is R.FLOAT and target.root is R.DOUBLE:
        return True
    if source.root in of.CHARACTER_STRING and target.root is R.VARCHAR:
        return source.length <= target.length  # type: ignore[attr-defined]
    if isinstance(source, lt.TimestampType) and isinstance(target, lt.TimestampType):
        return source.precision <= target.precision
    return source.root is target.root and source.root in (R.BOOLEAN, R.FLOAT, R.DOUBLE, R.DATE)
