"""ExpressionRenderer: bound expressions as text of DuckDB.

Only calls whose results are those of flinkpy's kernels to the last digit have an own text; a test compares both. Each
other call becomes a function that the engine calls with columns and that a kernel computes (`EngineFunction`), so that
results, errors and overflows are Flink's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinkpy.graph.table_specs import EngineFunction
from flinkpy.sql.functions.definition import FunctionDefinition
from flinkpy.sql.functions.registry import find_function
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode, walk
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.families import precision_of, scale_of
from flinkpy.table.planner.batch.engine_types import (
    INTEGER_BITS,
    MAX_DIGITS,
    MAX_SHORT_DIGITS,
    engine_type,
    literal_text,
)

R = lt.TypeRoot
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_TESTS = frozenset({"IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"})
_DISTINCT = frozenset({"IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
#: Units of EXTRACT that are the same numbers, for dates and timestamps.
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "DAY"})


class NotInEngine(Exception):
    """An expression or a query cannot be computed by the engine. The planner catches it and cuts the plan there."""


class ExpressionRenderer:
    """Renders the expressions of one region.

    Attributes:
        functions: the kernels that the texts call, in the order of their numbers.
    """

    def __init__(self) -> None:
        self.functions: list[EngineFunction] = []
        self._names: dict[tuple[RexNode, tuple[lt.LogicalType, ...]], str] = {}

    def render(self, node: RexNode, columns: Sequence[str]) -> str:
        """Returns the text of an expression, whose type in the engine is that of the node.

        Args:
            node: the expression.
            columns: the texts of the columns that it refers to.

        Raises:
            NotInEngine: it calls a user's function, is not deterministic, or has a type that the engine lacks.
        """
        if isinstance(node, InputRef):
            return columns[node.index]
        if isinstance(node, Literal):
            text = literal_text(node)
            if text is None:
                raise NotInEngine(f"a literal of type {node.type}")
            return text
        if not isinstance(node, RexCall) or engine_type(node.type) is None:
            raise NotInEngine(str(node))
        own = _OWN.get(node.function)
        text = None if own is None else own(node, [_Operand(self, each, columns) for each in node.arguments])
        return text if text is not None else self._kernel_call(node, columns)

    def condition(self, node: RexNode, columns: Sequence[str]) -> str:
        """Returns the text of a condition of WHERE or ON.

        The engine evaluates the parts of a condition in any order, so no part may be one that fails for some values.

        Raises: NotInEngine.
        """
        for each in walk(node):
            if isinstance(each, RexCall) and _definition(each).may_fail and not _never_fails(each):
                raise NotInEngine(f"{each.function} may fail, and a condition before it may exclude that")
        return self.render(node, columns)

    def call_kernel(self, expression: RexNode, types: tuple[lt.LogicalType, ...], arguments: Sequence[str]) -> str:
        """Returns a call of a kernel. `expression` refers to its arguments, which have these types, as columns.

        Raises: NotInEngine if the engine cannot hold an argument.
        """
        if any(engine_type(each) is None for each in (*types, expression.type)):
            raise NotInEngine(f"a type of {expression}")
        name = self._names.get((expression, types))
        if name is None:
            name = f"kernel_{len(self.functions)}"
            self._names[expression, types] = name
            engine_types = tuple(str(engine_type(each)) for each in types)
            self.functions.append(
                EngineFunction(name, expression, types, engine_types, str(engine_type(expression.type)))
            )
        return f"{name}({', '.join(arguments)})"

    def _kernel_call(self, node: RexCall, columns: Sequence[str]) -> str:
        definition = _definition(node)
        if definition.kernel is None or not definition.is_deterministic or definition.is_dynamic:
            raise NotInEngine(node.function)
        arguments: list[str] = []
        operands: list[RexNode] = []
        types: list[lt.LogicalType] = []
        for each in node.arguments:
            if isinstance(each, Literal):
                operands.append(each)
                continue
            operands.append(InputRef(each.type, len(arguments)))
            arguments.append(self.render(each, columns))
            types.append(each.type)
        if not arguments:
            raise NotInEngine(f"the constant {node}")
        return self.call_kernel(node.with_operands(tuple(operands)), tuple(types), arguments)


def _definition(node: RexCall) -> FunctionDefinition:
    found = find_function(node.function)
    if found is None:
        raise NotInEngine(node.function)
    return found


class _Operand:
    """An operand of a call, rendered when it is needed."""

    def __init__(self, renderer: ExpressionRenderer, node: RexNode, columns: Sequence[str]) -> None:
        self._renderer = renderer
        self._columns = columns
        self.node = node
        self.type = node.type

    @property
    def text(self) -> str:
        return self._renderer.render(self.node, self._columns)

    @property
    def may_fail(self) -> bool:
        calls = [each for each in walk(self.node) if isinstance(each, RexCall)]
        return any(_definition(each).may_fail and not _never_fails(each) for each in calls)


def _never_fails(node: RexCall) -> bool:
    """True for a call of a function that may fail, with arguments for which it cannot."""
    return node.function == "CAST" and _is_lossless(node.arguments[0].type, node.type)


_Own = Callable[[RexCall, list[_Operand]], "str | None"]


def _junction(node: RexCall, operands: list[_Operand]) -> str:
    if any(each.may_fail for each in operands[1:]):
        # The engine computes all operands for all rows, or in another order.
        raise NotInEngine(f"an operand of {node.function} may fail, and one before it may exclude that")
    as_list = _in_list(node, operands) if node.function == "OR" else None
    return as_list or "(" + f" {node.function} ".join(each.text for each in operands) + ")"


def _in_list(node: RexCall, operands: list[_Operand]) -> str | None:
    """Returns `a IN (1, 2)` for `a = 1 OR a = 2`; None for other conditions."""
    left: RexNode | None = None
    values = []
    for each in node.arguments:
        if not isinstance(each, RexCall) or each.function != "=" or not isinstance(each.arguments[1], Literal):
            return None
        if each.arguments[0].type.root in of.APPROXIMATE_NUMERIC or left not in (None, each.arguments[0]):
            return None
        text = literal_text(each.arguments[1])
        if text is None:
            return None
        left = each.arguments[0]
        values.append(text)
    assert left is not None
    column = operands[0]._renderer.render(left, operands[0]._columns)
    return f"({column} IN ({', '.join(values)}))"


def _test(node: RexCall, operands: list[_Operand]) -> str:
    return f"({operands[0].text} {node.function})"


def _comparison(node: RexCall, operands: list[_Operand]) -> str | None:
    left, right = operands
    name = node.function
    if of.APPROXIMATE_NUMERIC.isdisjoint({left.type.root, right.type.root}):
        return f"({left.text} {name} {right.text})" if _are_comparable(left.type, right.type) else None
    if name in _DISTINCT or left.type.root is not right.type.root:
        return None
    # For the engine NaN equals itself and is above all numbers. For Flink comparisons with it are false, as in Java.
    if isinstance(right.node, Literal) and right.node.value is not None and right.node.value == right.node.value:
        if name in ("<", "<=", "=", "<>"):
            return f"({left.text} {name} {right.text})"
        return f"({left.text} {name} {right.text} AND NOT isnan({left.text}))"
    return None


def _are_comparable(left: lt.LogicalType, right: lt.LogicalType) -> bool:
    """True if the engine compares values of both types without loss."""
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


def _case(node: RexCall, operands: list[_Operand]) -> str:
    *pairs, otherwise = operands
    branches = [
        f"WHEN {condition.text} THEN {result.text}" for condition, result in zip(pairs[0::2], pairs[1::2], strict=True)
    ]
    return f"CAST(CASE {' '.join(branches)} ELSE {otherwise.text} END AS {engine_type(node.type)})"


def _coalesce(node: RexCall, operands: list[_Operand]) -> str:
    return f"CAST(COALESCE({', '.join(each.text for each in operands)}) AS {engine_type(node.type)})"


def wrapped(text: str, bits: int) -> str:
    """Returns a HUGEINT as an integer with this number of bits. Values that are too large wrap around, as in Java."""
    half = 1 << (bits - 1)
    name = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}[bits]
    return f"CAST((({text} + {half}::HUGEINT) & {(1 << bits) - 1}::HUGEINT) - {half}::HUGEINT AS {name})"


def _arithmetic(node: RexCall, operands: list[_Operand]) -> str | None:
    if len(operands) != 2:
        return None
    left, right = operands
    roots = {left.type.root, right.type.root}
    if node.type.root in INTEGER_BITS and roots <= INTEGER_BITS.keys():
        text = f"(CAST({left.text} AS HUGEINT) {node.function} CAST({right.text} AS HUGEINT))"
        return wrapped(text, INTEGER_BITS[node.type.root])
    if isinstance(node.type, lt.DecimalType) and roots <= of.EXACT_NUMERIC:
        return _decimal_arithmetic(node, left, right, node.type)
    if node.type.root is R.DOUBLE and roots == {R.DOUBLE}:
        return f"({left.text} {node.function} {right.text})"
    return None


def _decimal_arithmetic(node: RexCall, left: _Operand, right: _Operand, kind: lt.DecimalType) -> str | None:
    """Returns exact arithmetic; None if the result is rounded. As in Flink an overflow is NULL."""
    p1, s1, p2, s2 = precision_of(left.type), scale_of(left.type), precision_of(right.type), scale_of(right.type)
    if node.function == "*":
        digits, scale = p1 + p2, s1 + s2
    else:
        scale = max(s1, s2)
        digits = max(p1 - s1, p2 - s2) + scale + 1
    if scale != kind.scale:
        return None
    first = _as_decimal(left)
    if digits > MAX_SHORT_DIGITS and max(p1, p2) <= MAX_SHORT_DIGITS:
        # Otherwise the engine computes with 64 bits, and fails where the result needs more.
        first = f"CAST({first} AS DECIMAL({MAX_SHORT_DIGITS + 1}, {s1}))"
    text = f"CAST({first} {node.function} {_as_decimal(right)} AS {engine_type(kind)})"
    if digits <= kind.precision:
        return text
    return None if left.may_fail or right.may_fail else f"TRY({text})"


def _as_decimal(operand: _Operand) -> str:
    if isinstance(operand.type, lt.DecimalType):
        return operand.text
    return f"CAST({operand.text} AS DECIMAL({precision_of(operand.type)}, 0))"


def _cast(node: RexCall, operands: list[_Operand]) -> str | None:
    source = operands[0].type
    if not _is_lossless(source, node.type):
        return None
    name = engine_type(node.type)
    return operands[0].text if engine_type(source) == name else f"CAST({operands[0].text} AS {name})"


def _is_lossless(source: lt.LogicalType, target: lt.LogicalType) -> bool:
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


def _like(node: RexCall, operands: list[_Operand]) -> str | None:
    if len(operands) != 2 or not isinstance(node.arguments[1], Literal):
        return None
    pattern = node.arguments[1].value
    if pattern is None or "\\" in pattern or "\0" in pattern:
        return None
    return f"({operands[0].text} {node.function} {operands[1].text})"


def _extract(node: RexCall, operands: list[_Operand]) -> str | None:
    unit = node.arguments[0]
    if not isinstance(unit, Literal) or unit.value not in _UNITS:
        return None
    if operands[1].type.root not in (R.DATE, R.TIMESTAMP_WITHOUT_TIME_ZONE):
        return None
    return f"CAST({str(unit.value).lower()}({operands[1].text}) AS BIGINT)"


def _substring(node: RexCall, operands: list[_Operand]) -> str | None:
    if operands[0].type.root not in of.CHARACTER_STRING:
        return None
    for each, least in zip(node.arguments[1:], (1, 0)):
        if not isinstance(each, Literal) or not isinstance(each.value, int) or each.value < least:
            return None
    return f"substring({', '.join(each.text for each in operands)})"


def _concat(node: RexCall, operands: list[_Operand]) -> str | None:
    if any(each.type.root not in of.CHARACTER_STRING for each in operands):
        return None
    return "(" + " || ".join(each.text for each in operands) + ")"


_OWN: dict[str, _Own] = {
    "AND": _junction,
    "OR": _junction,
    "NOT": lambda node, operands: f"(NOT {operands[0].text})",
    "CASE": _case,
    "IF": _case,
    "COALESCE": _coalesce,
    "IFNULL": _coalesce,
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "CAST": _cast,
    "LIKE": _like,
    "NOT LIKE": _like,
    "EXTRACT": _extract,
    "SUBSTRING": _substring,
    "CHAR_LENGTH": lambda node, operands: f"CAST(length({operands[0].text}) AS INTEGER)",
    "||": _concat,
    **dict.fromkeys(_TESTS, _test),
    **dict.fromkeys(_COMPARISONS | _DISTINCT, _comparison),
}
