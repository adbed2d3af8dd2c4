"""MatchConditions: prepares the conditions of DEFINE for the loop of pattern matching.

| condition | is computed |
|---|---|
| of the current row alone | for all rows together, as a mask |
| that compares rows, by numbers, times or texts | by a program of the loop; what depends on one row is a column |
| anything else, such as a Python function of two rows | by the loop's question, candidate by candidate |

Masks and columns are computed for all rows, also for those that no partial match asks for. An expression that fails for
such a row fails the job, which Flink would not notice.

Source: org.apache.flink.table.planner.codegen.MatchCodeGenerator.generateIterativeCondition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.cep import match_kernel
from flinkpy.cep.condition_programs import STACK_SIZE, Op
from flinkpy.common.errors import FlinkError
from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.sql.rex import (
    ALL_ROWS,
    AggregateCall,
    Literal,
    PatternAggregate,
    PatternNavigation,
    RexCall,
    RexNode,
    UserFunctionCall,
    rewrite,
    walk,
)
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.streaming.operators.table.match_values import MatchRows, PatternValues

_COMPARISONS = {"=": 0, "<>": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_ARITHMETIC = {"+": 0, "-": 1, "*": 2, "/": 3}
_TESTS = {
    "IS NULL": (Op.IS_NULL,),
    "IS NOT NULL": (Op.IS_NOT_NULL,),
    "IS TRUE": (Op.IS_TRUE,),
    "IS FALSE": (Op.IS_FALSE,),
    "IS NOT TRUE": (Op.IS_TRUE, Op.NOT),
    "IS NOT FALSE": (Op.IS_FALSE, Op.NOT),
}
_INTEGERS = {
    lt.TypeRoot.TINYINT: 8,
    lt.TypeRoot.SMALLINT: 16,
    lt.TypeRoot.INTEGER: 32,
    lt.TypeRoot.BIGINT: 64,
}
_TIMES = frozenset(
    {
        lt.TypeRoot.DATE,
        lt.TypeRoot.TIME_WITHOUT_TIME_ZONE,
        lt.TypeRoot.TIMESTAMP_WITHOUT_TIME_ZONE,
        lt.TypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE,
    }
)
_TEXTS = frozenset({lt.TypeRoot.CHAR, lt.TypeRoot.VARCHAR})
_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}


class _UnsupportedError(Exception):
    """A part of a condition has no instruction."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The arguments of the loop for some rows.

    Attributes:
        kinds: int64[number of variables]: how each condition is computed for these rows.
        masks: the answers of MASK conditions, one variable after the other.
        programs: the code of PROGRAM conditions, with their columns.
    """

    kinds: np.ndarray
    masks: np.ndarray
    programs: tuple[Any, ...]

    @property
    def has_external(self) -> bool:
        """True if a condition needs Python, and so `answer`."""
        return bool((self.kinds == match_kernel.EXTERNAL).any())


class MatchConditions:
    """The conditions of the variables of a pattern. Thread: task thread.

    Args:
        variables: the names of the variables, in the order of the pattern.
        definitions: (variable, condition) pairs.

    Attributes:
        kinds: int64[number of variables]: how each condition is computed; see match_kernel.
    """

    def __init__(
        self, variables: Sequence[str], definitions: Sequence[tuple[str, RexNode]], settings: SessionSettings
    ) -> None:
        conditions = dict(definitions)
        self.kinds = np.zeros(len(variables), dtype=np.int64)
        self._columns = _Columns()
        self._ends = np.zeros(len(variables), dtype=np.int64)
        self._external: dict[int, PatternValues] = {}
        masks: list[RexNode] = []
        self._masked: list[int] = []
        code: list[tuple[int, ...]] = []
        constants = _Constants()
        for place, name in enumerate(variables):
            condition = conditions.get(name)
            if condition is None:
                self.kinds[place] = match_kernel.ALWAYS
            elif _is_of_current_row(condition, name):
                self.kinds[place] = match_kernel.MASK
                masks.append(rewrite(condition, _column_of))
                self._masked.append(place)
            else:
                writer = _ProgramWriter(list(variables), self._columns, constants)
                known = self._columns.size
                try:
                    code += writer.program(condition)
                    self.kinds[place] = match_kernel.PROGRAM
                except _UnsupportedError:
                    self._columns.forget(known)
                    self.kinds[place] = match_kernel.EXTERNAL
                    self._external[place] = PatternValues([condition], variables, settings)
            self._ends[place] = len(code)
        self._masks = compile_expressions(masks, settings)
        self._values = compile_expressions(self._columns.expressions, settings)
        self._code = np.array(code, dtype=np.int64).reshape(-1)
        self._const_i = np.array(constants.ints or [0], dtype=np.int64)
        self._const_f = np.array(constants.floats or [0.0], dtype=np.float64)
        self._rows: pa.RecordBatch | None = None
        #: The arguments to make EXTERNAL conditions of others, and the context to open them.
        self._arguments = (conditions, list(variables), settings)
        self._context: Any = None

    @property
    def aggregates(self) -> list[AggregateCall]:
        """The aggregates that need Python, whose user-defined functions the operator opens."""
        return [call for each in self._external.values() for call in each.aggregates]

    def open(self, context: Any) -> None:
        """Opens the user-defined functions. `context` is a FunctionContext."""
        self._context = context
        for each in self._compiled():
            each.open(context)

    def close(self) -> None:
        for each in self._compiled():
            each.close()

    def _compiled(self) -> list[Any]:
        return [self._masks, self._values, *self._external.values()]

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        """Computes what conditions need of sorted rows.

        A value that cannot be computed, such as 1 / 0, is an error only if the pattern looks at its row. Then the
        conditions with such values are EXTERNAL ones for these rows, which compute one row at a time.
        """
        self._rows = rows
        num_rows = rows.num_rows
        kinds = self.kinds
        masks = np.zeros(len(kinds) * num_rows, dtype=np.int64)
        try:
            for place, mask in zip(self._masked, self._masks.evaluate(rows) if self._masked else [], strict=True):
                true = mask.fill_null(False).to_numpy(zero_copy_only=False)
                masks[place * num_rows : (place + 1) * num_rows] = true
        except FlinkError:
            kinds = self._with_external(kinds, match_kernel.MASK)
        with_nulls = rows
        if self._columns.expressions:
            missing = [pa.nulls(1, each.type) for each in rows.columns]
            table = pa.concat_arrays
            arrays = [table([column, null]) for column, null in zip(rows.columns, missing, strict=True)]
            with_nulls = pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])
        try:
            values = self._values.evaluate(with_nulls) if self._columns.expressions else []
        except FlinkError:
            kinds = self._with_external(kinds, match_kernel.PROGRAM)
            values = [pa.nulls(num_rows + 1, arrow_type_of(each.type)) for each in self._columns.expressions]
        columns = self._columns.numbers(values)
        return Prepared(kinds, masks, (self._ends, self._code, self._const_i, self._const_f, *columns, num_rows + 1))

    def _with_external(self, kinds: np.ndarray, kind: int) -> np.ndarray:
        """Returns the kinds, with EXTERNAL for all conditions of one kind."""
        conditions, variables, settings = self._arguments
        for place in np.flatnonzero(self.kinds == kind):
            if place not in self._external:
                made = PatternValues([conditions[variables[place]]], variables, settings)
                made.open(self._context)
                self._external[int(place)] = made
        return np.where(kinds == kind, match_kernel.EXTERNAL, kinds)

    def can_begin(self, transitions: Sequence[tuple[int | None, Sequence[int]]], prepared: Prepared) -> np.ndarray:
        """Returns bool[n]: False for rows with which no match can begin.

        Args:
            transitions: for each TAKE of the first row, the variable that accepts it, and those that must not.
        """
        assert self._rows is not None
        num_rows = self._rows.num_rows
        found = np.zeros(num_rows, dtype=bool)
        for accepts, rejects in transitions:
            possible = np.ones(num_rows, dtype=bool)
            for variable, wanted in [(accepts, True), *((each, False) for each in rejects)]:
                if variable is not None and prepared.kinds[variable] == match_kernel.MASK:
                    mask = prepared.masks[variable * num_rows : (variable + 1) * num_rows] != 0
                    possible &= mask if wanted else ~mask
            found |= possible
        return found

    def answer(self, variable: int, row: int, start: int, counts: Any, at: int) -> int:
        """Returns 1 if the condition of a variable is true for a row after the rows of a partial match."""
        assert self._rows is not None
        matched = np.array([counts[at : at + len(self.kinds)]], dtype=np.int64)
        matches = MatchRows(np.array([start]), matched, np.zeros(1, dtype=np.int64), current=variable, row=row)
        return int(bool(self._external[variable].evaluate(self._rows, matches)[0][0].as_py()))


def _is_of_current_row(condition: RexNode, variable: str) -> bool:
    return all(
        not isinstance(each, PatternAggregate)
        and not (
            isinstance(each, PatternNavigation)
            and (each.is_first or each.offset or each.variable not in (variable, ALL_ROWS))
        )
        for each in walk(condition)
    )


def _column_of(node: RexNode) -> RexNode | None:
    return node.column if isinstance(node, PatternNavigation) else None


class _Constants:
    def __init__(self) -> None:
        self.ints: list[int] = []
        self.floats: list[float] = []


class _Columns:
    """Expressions of one row that programs read, as numbers."""

    def __init__(self) -> None:
        self.expressions: list[RexNode] = []
        #: For each expression its form (I, F or S for texts) and its place among those of the form; texts are I.
        self._places: list[tuple[str, int]] = []

    @property
    def size(self) -> int:
        return len(self.expressions)

    def forget(self, size: int) -> None:
        """Removes the expressions from this number on."""
        del self.expressions[size:], self._places[size:]

    def place(self, node: RexNode) -> tuple[str, int]:
        if node in self.expressions:
            return self._places[self.expressions.index(node)]
        form = _form(node.type)
        count = sum(1 for other, _ in self._places if (other == "F") == (form == "F"))
        self.expressions.append(node)
        self._places.append((form, count))
        return form, count

    def numbers(self, arrays: list[pa.Array]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns the columns of integers and which are NULL, then those of floating point numbers."""
        ints, int_nulls, floats, float_nulls = [], [], [], []
        ranks = _ranks([each for each, (form, _) in zip(arrays, self._places, strict=True) if form == "S"])
        for array, (form, _) in zip(arrays, self._places, strict=True):
            nulls = array.is_null().to_numpy(zero_copy_only=False).astype(np.int64)
            if form == "F":
                floats.append(array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
                float_nulls.append(nulls)
            else:
                ints.append(next(ranks) if form == "S" else _integers(array))
                int_nulls.append(nulls)
        none, no_floats = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.float64)
        return (
            np.concatenate(ints) if ints else none,
            np.concatenate(int_nulls) if ints else none,
            np.concatenate(floats) if floats else no_floats,
            np.concatenate(float_nulls) if floats else none,
        )


def _integers(array: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    values: np.ndarray = array.fill_null(0).to_numpy(zero_copy_only=False)
    return values.astype(np.int64)


def _ranks(arrays: list[pa.Array]) -> Any:
    """Yields the ranks of texts among those of all columns."""
    if not arrays:
        return
    encoded = pc.dictionary_encode(pa.concat_arrays([each.cast(pa.string()) for each in arrays]))
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank = np.zeros(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks = rank.take(encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False))
    start = 0
    for each in arrays:
        yield ranks[start : start + len(each)]
        start += len(each)


def _form(kind: lt.LogicalType) -> str:
    root = kind.root
    if root in _INTEGERS or root in _TIMES or root is lt.TypeRoot.BOOLEAN:
        return "I"
    if root is lt.TypeRoot.DOUBLE:
        return "F"
    if root in _TEXTS:
        return "S"
    raise _UnsupportedError(str(kind))


class _ProgramWriter:
    """Writes the program of one condition. Raises: _UnsupportedError if a part has no instruction."""

    def __init__(self, variables: list[str], columns: _Columns, constants: _Constants) -> None:
        self._variables = variables
        self._columns = columns
        self._constants = constants
        self._code: list[tuple[int, ...]] = []
        self._depth = 0

    def program(self, condition: RexNode) -> list[tuple[int, ...]]:
        self._value(condition)
        return self._code

    def _add(self, op: int, *operands: int, pushes: int = 0) -> None:
        self._code.append((int(op), *operands, *([0] * (4 - len(operands)))))
        self._depth += pushes
        if self._depth > STACK_SIZE:
            raise _UnsupportedError("too deep")

    def _variable(self, name: str) -> int:
        return -1 if name == ALL_ROWS else self._variables.index(name)

    def _value(self, node: RexNode) -> str:
        """Writes an expression and returns its form."""
        parts = [each for each in walk(node) if isinstance(each, (PatternNavigation, PatternAggregate))]
        navigations = {
            (each.variable, each.is_first, each.offset) for each in parts if isinstance(each, PatternNavigation)
        }
        if len(navigations) == 1 and all(isinstance(each, PatternNavigation) for each in parts):
            return self._reference(node, *next(iter(navigations)))
        if isinstance(node, Literal):
            return self._constant(node)
        if isinstance(node, PatternAggregate):
            return self._aggregate(node)
        if isinstance(node, UserFunctionCall) or not isinstance(node, RexCall):
            raise _UnsupportedError(str(node))
        return self._call(node)

    def _reference(self, node: RexNode, variable: str, is_first: bool, offset: int) -> str:
        form, place = self._columns.place(rewrite(node, _column_of))
        op = Op.REF_F if form == "F" else Op.REF_I
        self._add(op, place, self._variable(variable), int(is_first), offset, pushes=1)
        return form

    def _constant(self, node: Literal) -> str:
        if node.value is None:
            self._add(Op.NULL, pushes=1)
            return "F" if node.type.root is lt.TypeRoot.DOUBLE else "I"
        if isinstance(node.value, float):
            self._constants.floats.append(node.value)
            self._add(Op.CONST_F, len(self._constants.floats) - 1, pushes=1)
            return "F"
        if node.type.root in _INTEGERS or isinstance(node.value, bool):
            self._integer(int(node.value))
            return "I"
        raise _UnsupportedError(str(node))

    def _integer(self, value: int) -> None:
        self._constants.ints.append(value)
        self._add(Op.CONST_I, len(self._constants.ints) - 1, pushes=1)

    def _aggregate(self, node: PatternAggregate) -> str:
        variable = self._variable(node.variable)
        if node.user_function is not None:
            raise _UnsupportedError(node.function)
        if node.function == "COUNT" and not node.arguments:
            self._add(Op.COUNT_ROWS, variable, pushes=1)
            return "I"
        if node.function not in ("COUNT", "SUM", "AVG", "MIN", "MAX") or len(node.arguments) != 1:
            raise _UnsupportedError(node.function)
        form, place = self._columns.place(node.arguments[0])
        if form == "S" and node.function != "COUNT":
            raise _UnsupportedError(node.function)
        is_sum = node.function in ("SUM", "AVG")
        if is_sum and form == "I" and node.type.root not in _INTEGERS:
            raise _UnsupportedError(node.function)
        form = "I" if form == "S" else form
        self._add(Op[f"{node.function}_{form}"], place, variable, pushes=1)
        if node.function == "COUNT":
            return "I"
        if is_sum and form == "I":
            self._wrap(node.type)
        return form

    def _wrap(self, kind: lt.LogicalType) -> None:
        bits = _INTEGERS[kind.root]
        if bits < 64:
            self._add(Op.WRAP, bits)

    def _call(self, node: RexCall) -> str:
        name = node.function
        if name in ("AND", "OR"):
            for place, each in enumerate(node.arguments):
                self._boolean(each)
                if place:
                    self._add(Op.AND if name == "AND" else Op.OR, pushes=-1)
            return "I"
        if name == "NOT":
            self._boolean(node.arguments[0])
            self._add(Op.NOT)
            return "I"
        if name in _TESTS:
            self._value(node.arguments[0])
            for op in _TESTS[name]:
                self._add(op)
            return "I"
        if name in _COMPARISONS:
            form = self._pair(*node.arguments)
            self._add((Op.EQ_F if form == "F" else Op.EQ_I) + _COMPARISONS[name], pushes=-1)
            return "I"
        if name in _ARITHMETIC and len(node.arguments) == 2:
            return self._arithmetic(node)
        if name == "NEGATE" and (node.type.root in _INTEGERS or node.type.root is lt.TypeRoot.DOUBLE):
            form = self._value(node.arguments[0])
            self._add(Op.NEG_F if form == "F" else Op.NEG_I)
            return form
        if name == "CAST":
            return self._cast(node)
        raise _UnsupportedError(name)

    def _boolean(self, node: RexNode) -> None:
        if node.type.root is not lt.TypeRoot.BOOLEAN:
            raise _UnsupportedError(str(node.type))
        self._value(node)

    def _pair(self, left: RexNode, right: RexNode) -> str:
        """Writes two operands in one form, and returns it."""
        same = arrow_type_of(left.type) == arrow_type_of(right.type)
        is_number = all(each.type.root in _INTEGERS or each.type.root is lt.TypeRoot.DOUBLE for each in (left, right))
        if not same and not is_number and not all(each.type.root in _TEXTS for each in (left, right)):
            raise _UnsupportedError("operands of two types")
        forms = {_form(each.type) for each in (left, right)}
        if "S" in forms and not all(_is_text_of_row(each) for each in (left, right)):
            raise _UnsupportedError("texts")
        wanted = "F" if "F" in forms else "I"
        for each in (left, right):
            if self._value(each) == "I" and wanted == "F":
                self._add(Op.TO_F)
        return wanted

    def _arithmetic(self, node: RexCall) -> str:
        left, right = node.arguments
        if isinstance(right, Literal) and isinstance(right.type, lt.DayTimeIntervalType):
            kind = arrow_type_of(left.type)
            is_shift = node.function in ("+", "-") and arrow_type_of(node.type) == kind and right.value is not None
            if not is_shift or not pa.types.is_timestamp(kind) or kind.unit not in _PER_MILLISECOND:
                raise _UnsupportedError(str(node))
            self._value(left)
            self._integer(int(right.value) * _PER_MILLISECOND[kind.unit])
            self._add(Op.ADD_I if node.function == "+" else Op.SUB_I, pushes=-1)
            return "I"
        is_float = node.type.root is lt.TypeRoot.DOUBLE
        if not is_float and (node.type.root not in _INTEGERS or node.function == "/"):
            raise _UnsupportedError(str(node))
        form = self._pair(left, right)
        if is_float and form == "I":
            raise _UnsupportedError(str(node))
        self._add((Op.ADD_F if form == "F" else Op.ADD_I) + _ARITHMETIC[node.function], pushes=-1)
        if form == "I":
            self._wrap(node.type)
        return form

    def _cast(self, node: RexCall) -> str:
        (operand,) = node.arguments
        source, target = operand.type.root, node.type.root
        if source in _INTEGERS and target is lt.TypeRoot.DOUBLE:
            self._value(operand)
            self._add(Op.TO_F)
            return "F"
        is_wider = source in _INTEGERS and target in _INTEGERS and _INTEGERS[source] <= _INTEGERS[target]
        if is_wider or arrow_type_of(operand.type) == arrow_type_of(node.type):
            return self._value(operand)
        raise _UnsupportedError(str(node))


def _is_text_of_row(node: RexNode) -> bool:
    """True if the text depends on one row, so that it has a rank."""
    found = {(each.variable, each.is_first, each.offset) for each in walk(node) if isinstance(each, PatternNavigation)}
    return len(found) == 1 and not any(isinstance(each, PatternAggregate) for each in walk(node))
