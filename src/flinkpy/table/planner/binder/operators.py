"""The types of SQL's operators and the casts that they imply.

Source: org.apache.flink.table.planner.calcite.FlinkTypeSystem, org.apache.calcite.sql.type.ReturnTypes,
org.apache.calcite.sql.validate.implicit.TypeCoercionImpl.
"""

from __future__ import annotations

from decimal import Context, Decimal

from flinkpy.common.errors import ValidationError
from flinkpy.sql.rex import Literal, RexCall, RexNode
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types import merging
from flinkpy.sql.types.casting import class_of
from flinkpy.sql.types.logical_types import TypeRoot
from flinkpy.table.planner.logical.time import as_regular

BOOLEAN = lt.BooleanType()
#: Literals have at most 38 digits, and as many zeros are appended.
_WIDE = Context(prec=2 * lt.MAX_DECIMAL_PRECISION)
TRUE = Literal(lt.BooleanType(nullable=False), True)
FALSE = Literal(lt.BooleanType(nullable=False), False)
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
#: The comparison that holds where the given one does not.
NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
#: The comparison with its sides exchanged.
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

#: The sizes of integers.
_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}


def boolean(*operands: RexNode) -> lt.LogicalType:
    return lt.BooleanType(nullable=any(each.type.nullable for each in operands))


def and_(operands: list[RexNode] | tuple[RexNode, ...]) -> RexNode:
    """Returns the conjunction, flat and without repetitions; TRUE for none."""
    return _junction("AND", operands, TRUE, FALSE)


def or_(operands: list[RexNode] | tuple[RexNode, ...]) -> RexNode:
    """Returns the disjunction, flat and without repetitions; FALSE for none."""
    return _junction("OR", operands, FALSE, TRUE)


def _junction(
    name: str, operands: list[RexNode] | tuple[RexNode, ...], neutral: Literal, absorbing: Literal
) -> RexNode:
    flat: list[RexNode] = []
    for operand in operands:
        parts = operand.operands if isinstance(operand, RexCall) and operand.function == name else (operand,)
        for part in parts:
            if isinstance(part, Literal) and part.value is absorbing.value:
                return absorbing
            if not (isinstance(part, Literal) and part.value is neutral.value) and part not in flat:
                flat.append(part)
    if not flat:
        return neutral
    return flat[0] if len(flat) == 1 else RexCall(boolean(*flat), name, tuple(flat))


def not_(operand: RexNode) -> RexNode:
    """Returns the negation, pushed into comparisons and null tests."""
    if isinstance(operand, Literal):
        return operand if operand.value is None else (FALSE if operand.value else TRUE)
    if isinstance(operand, RexCall):
        if operand.function == "NOT":
            return operand.arguments[0]
        if operand.function in NEGATED:
            return RexCall(operand.type, NEGATED[operand.function], operand.arguments)
        if operand.function in ("AND", "OR"):
            parts = [not_(each) for each in operand.arguments]
            return or_(parts) if operand.function == "AND" else and_(parts)
        if operand.function.startswith("IS ") and "DISTINCT" not in operand.function:
            name = operand.function
            negated = (
                name.replace("IS NOT ", "IS ", 1) if name.startswith("IS NOT ") else name.replace("IS ", "IS NOT ")
            )
            return RexCall(operand.type, negated, operand.arguments)
    return RexCall(boolean(operand), "NOT", (operand,))


def conjuncts(condition: RexNode | None) -> list[RexNode]:
    """Returns the operands of AND, or the condition itself; nothing for TRUE and None."""
    if condition is None or condition == TRUE:
        return []
    if isinstance(condition, RexCall) and condition.function == "AND":
        return list(condition.arguments)
    return [condition]


def plain(kind: lt.LogicalType) -> lt.LogicalType:
    """Returns the type without nullability and without the role of a time attribute."""
    return as_regular(kind).as_nullable()


def same_type(left: lt.LogicalType, right: lt.LogicalType) -> bool:
    """True if values of one type are values of the other, nullability and time attributes aside."""
    if isinstance(left, lt.RowType) and isinstance(right, lt.RowType):
        pairs = zip(left.fields, right.fields)
        if class_of(left) != class_of(right):
            return False
        return len(left.fields) == len(right.fields) and all(same_type(a.type, b.type) for a, b in pairs)
    if left.root is right.root and left.children and not isinstance(left, lt.RowType):
        return all(same_type(a, b) for a, b in zip(left.children, right.children))
    return plain(left) == plain(right)


def cast(node: RexNode, target: lt.LogicalType) -> RexNode:
    """Returns the value as another type: itself, a literal of the type, or a CAST. The value's nullability stays."""
    target = target.as_nullable(node.type.nullable)
    if same_type(node.type, target):
        return node
    if isinstance(node, Literal):
        folded = cast_literal(node, target)
        if folded is not None:
            return folded
    return RexCall(target, "CAST", (node,))


def cast_literal(node: Literal, target: lt.LogicalType) -> Literal | None:
    """Returns a literal of the target type if the value is the same; else None."""
    value = node.value
    if value is None:
        return Literal(target.as_nullable(), None)
    if isinstance(value, str) and target.root in of.CHARACTER_STRING:
        length = target.length  # type: ignore[attr-defined]
        fits = len(value) <= length if target.root is TypeRoot.VARCHAR else len(value) == length
        return Literal(target, value) if fits else None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or node.type.root not in of.EXACT_NUMERIC:
        return None
    if target.root in of.INTEGER_NUMERIC:
        bits = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INTEGER: 31, TypeRoot.BIGINT: 63}[target.root]
        if value == int(value) and -(1 << bits) <= value < 1 << bits:
            return Literal(target, int(value))
    if isinstance(target, lt.DecimalType):
        scaled = Decimal(value).scaleb(target.scale)
        if scaled == scaled.to_integral_value() and abs(scaled) < 10**target.precision:
            return Literal(target, Decimal(value).quantize(Decimal(1).scaleb(-target.scale), context=_WIDE))
    if target.root is TypeRoot.DOUBLE:
        return Literal(target, float(value))
    return None


def common_type(nodes: list[RexNode] | tuple[RexNode, ...]) -> lt.LogicalType | None:
    """Returns the type to which all values can be cast without loss; None if there is none."""
    if all(node.type.root is TypeRoot.NULL for node in nodes):
        return lt.NullType()
    return merging.find_common_type([as_regular(node.type) for node in nodes])


def comparison(name: str, left: RexNode, right: RexNode) -> RexNode:
    """Returns the comparison with the casts that it implies. Raises: ValidationError if the types do not fit."""
    left, right = _comparable(name, left, right)
    nullable = False if "DISTINCT" in name else left.type.nullable or right.type.nullable
    return RexCall(lt.BooleanType(nullable=nullable), name, (left, right))


def _comparable(name: str, left: RexNode, right: RexNode) -> tuple[RexNode, RexNode]:
    if same_type(left.type, right.type):
        return left, right
    roots = left.type.root, right.type.root
    if roots[0] in of.NUMERIC and roots[1] in of.NUMERIC:
        # Kernels compare numbers of different types. Equality may become a key of a join, which needs one type.
        if name not in ("=", "<>"):
            return left, right
        if isinstance(left, Literal) and (folded := cast_literal(left, right.type.as_nullable(False))):
            return folded, right
        if isinstance(right, Literal) and (folded := cast_literal(right, left.type.as_nullable(False))):
            return left, folded
    target = common_type((left, right)) or _loose_type(left.type, right.type)
    if target is None:
        raise ValidationError(
            f"Cannot apply '{name}' to arguments of type '<{left.type}> {name} <{right.type}>'. Supported form(s): "
            f"'<COMPARABLE_TYPE> {name} <COMPARABLE_TYPE>'"
        )
    return cast(left, target), cast(right, target)


def _loose_type(left: lt.LogicalType, right: lt.LogicalType) -> lt.LogicalType | None:
    """Returns the type in which SQL compares a text with a number, a point in time or a BOOLEAN."""
    for text, other in ((left, right), (right, left)):
        if text.root in of.CHARACTER_STRING:
            if other.root in of.INTEGER_NUMERIC or other.root in of.APPROXIMATE_NUMERIC:
                return lt.DoubleType() if other.root in of.APPROXIMATE_NUMERIC else lt.BigIntType()
            if other.root in of.DATETIME or other.root in (TypeRoot.BOOLEAN, TypeRoot.DECIMAL):
                return as_regular(other)
    if left.root in of.DATETIME and right.root in of.DATETIME:
        return next((as_regular(each) for each in (left, right) if each.root in of.TIMESTAMP), None)
    return None


def arithmetic(name: str, left: RexNode, right: RexNode) -> RexNode:
    """Returns `+ - * /` or MOD of two values. Raises: ValidationError if the types do not fit."""
    kind = _arithmetic_type(name, left.type, right.type)
    if kind is None:
        raise ValidationError(
            f"Cannot apply '{name}' to arguments of type '<{left.type}> {name} <{right.type}>'. Supported form(s): "
            f"'<NUMERIC> {name} <NUMERIC>'"
        )
    return RexCall(kind.as_nullable(left.type.nullable or right.type.nullable), name, (left, right))


def _arithmetic_type(name: str, left: lt.LogicalType, right: lt.LogicalType) -> lt.LogicalType | None:
    a, b = left.root, right.root
    if TypeRoot.NULL in (a, b):
        return left if b is TypeRoot.NULL else right
    if a in of.NUMERIC and b in of.NUMERIC:
        return _numeric_type(name, left, right)
    if name in ("+", "-") and a in of.INTERVAL and b is a:
        return smallest_interval(left)
    if name in ("+", "-") and a in of.DATETIME and b in of.INTERVAL:
        return _shifted(left, right)
    if name == "+" and a in of.INTERVAL and b in of.DATETIME:
        return _shifted(right, left)
    if name in ("*", "/") and a in of.INTERVAL and b in of.NUMERIC:
        return smallest_interval(left)
    if name == "*" and a in of.NUMERIC and b in of.INTERVAL:
        return smallest_interval(right)
    return None


def negated(operand: Literal, kind: lt.LogicalType) -> Literal:
    """Returns the constant with the other sign. As in Java, the smallest integer of a type stays itself."""
    bits = _BITS.get(kind.root)
    is_smallest = bits is not None and operand.value == -(1 << bits - 1)
    return Literal(kind, operand.value if is_smallest else -operand.value)


def smallest_interval(kind: lt.LogicalType) -> lt.LogicalType:
    """Returns the type that arithmetic with intervals gives: that of the smallest unit, SECOND or MONTH."""
    if kind.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return lt.YearMonthIntervalType("MONTH", nullable=kind.nullable)
    return lt.DayTimeIntervalType("SECOND", 2, 3, nullable=kind.nullable)


def _shifted(point: lt.LogicalType, distance: lt.LogicalType) -> lt.LogicalType:
    return as_regular(point)


def _numeric_type(name: str, left: lt.LogicalType, right: lt.LogicalType) -> lt.LogicalType | None:
    if name == "MOD" and TypeRoot.DECIMAL not in (left.root, right.root):
        return right
    if left.root in of.EXACT_NUMERIC and right.root in of.EXACT_NUMERIC and TypeRoot.DECIMAL in (left.root, right.root):
        find = {
            "+": merging.find_addition_decimal_type,
            "-": merging.find_addition_decimal_type,
            "*": merging.find_multiplication_decimal_type,
            "/": merging.find_division_decimal_type,
            "MOD": merging.find_modulo_decimal_type,
        }[name]
        return find(left, right)
    if TypeRoot.DECIMAL in (left.root, right.root):
        return lt.DoubleType()
    if left.root in of.APPROXIMATE_NUMERIC and right.root in of.APPROXIMATE_NUMERIC:
        return left  # the first one decides, unlike in find_common_type
    return merging.find_common_type([left, right])


def case(branches: list[tuple[RexNode, RexNode]], otherwise: RexNode) -> RexNode:
    """Returns CASE with its results cast to their common type. Raises: ValidationError if they have none."""
    results = [*(result for _, result in branches), otherwise]
    kind = common_type(results)
    if kind is None:
        types = ", ".join(str(each.type) for each in results)
        raise ValidationError(f"Illegal mixing of types in CASE or COALESCE statement: {types}")
    operands: list[RexNode] = []
    for condition, result in branches:
        operands += [condition, cast(result, kind)]
    operands.append(cast(otherwise, kind))
    return RexCall(kind.as_nullable(any(each.type.nullable for each in results)), "CASE", tuple(operands))
