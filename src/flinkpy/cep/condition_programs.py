"""Programs of conditions over the rows of a partial match, and the stack machine that runs them.

A program is a sequence of instructions of five numbers: an Op and its operands. Values are int64 (also BOOLEAN, times,
and the ranks of texts) or float64, and each may be NULL. A condition is true if its last value is neither 0 nor NULL.

Rows of a variable are those that it has matched so far and, for the variable whose condition it is, the current row.
The variable -1 stands for all rows from the first one to the current one. Columns have one more row than the data: a
row of NULLs, which is read where a variable has no such row.
"""

from __future__ import annotations

from enum import IntEnum
from types import FunctionType
from typing import Any

import numpy as np

#: The number of values that fit on the stack.
STACK_SIZE = 64


class Op(IntEnum):
    """Instructions. Operands in brackets; I and F say whether values are int64 or float64."""

    #: [column, variable, 1 from the first row or 0 from the last one, offset]: a value of a row of a variable.
    REF_I = 0
    REF_F = 1
    #: [index of the constant]
    CONST_I = 2
    CONST_F = 3
    NULL = 4
    TO_F = 5
    ADD_I = 6
    SUB_I = 7
    MUL_I = 8
    NEG_I = 9
    #: [number of bits]: overflow as in Java.
    WRAP = 10
    ADD_F = 11
    SUB_F = 12
    MUL_F = 13
    DIV_F = 14
    NEG_F = 15
    EQ_I = 16
    NE_I = 17
    LT_I = 18
    LE_I = 19
    GT_I = 20
    GE_I = 21
    EQ_F = 22
    NE_F = 23
    LT_F = 24
    LE_F = 25
    GT_F = 26
    GE_F = 27
    AND = 28
    OR = 29
    NOT = 30
    IS_NULL = 31
    IS_NOT_NULL = 32
    IS_TRUE = 33
    IS_FALSE = 34
    #: [variable]
    COUNT_ROWS = 40
    #: [column, variable]
    COUNT_I = 41
    COUNT_F = 42
    SUM_I = 43
    SUM_F = 44
    #: The quotient is cut off.
    AVG_I = 45
    AVG_F = 46
    MIN_I = 47
    MAX_I = 48
    MIN_F = 49
    MAX_F = 50


_REF_F, _WRAP, _ADD_F, _EQ_I, _EQ_F, _AND, _COUNT_ROWS = map(
    int, (Op.REF_F, Op.WRAP, Op.ADD_F, Op.EQ_I, Op.EQ_F, Op.AND, Op.COUNT_ROWS)
)


def _row_at(place: Any, variable: Any, current: Any, row: Any, start: Any, counts: Any, at: Any, missing: Any) -> Any:
    """Returns the row at a place among those of a variable, counted from the end if it is negative.

    Args:
        current: the variable whose condition is evaluated for `row`.
        missing: returned if there is none.
    """
    begin, length = start, 0
    if variable < 0:
        length = row - start
    else:
        for v in range(variable):
            begin += counts[at + v]
        length = counts[at + variable]
    total = length + 1 if variable in (-1, current) else length
    if place < 0:
        place += total
    if place < 0 or place >= total:
        return missing
    return begin + place if place < length else row


def _num_rows(variable: Any, current: Any, row: Any, start: Any, counts: Any, at: Any) -> Any:
    if variable < 0:
        return row - start + 1
    return counts[at + variable] + (1 if variable == current else 0)


def _evaluate(variable: Any, row: Any, start: Any, counts: Any, at: Any, programs: Any, stack: Any) -> Any:
    """Returns 1 if the condition of a variable is true for a row.

    Args:
        start: the first row of the partial match; counts[at:]: how many rows each variable has.
        programs: where the program of each variable ends; the instructions; constants; for int64 and for float64, the
            columns one after the other and which values are NULL; the length of a column.
    """
    ends, code, const_i, const_f, ints, int_nulls, floats, float_nulls, stride = programs
    values, reals, nulls = stack
    top = -1
    begin = ends[variable - 1] if variable > 0 else 0
    for pc in range(begin, ends[variable]):
        op, a, b = code[5 * pc], code[5 * pc + 1], code[5 * pc + 2]
        if op <= _REF_F:
            place = code[5 * pc + 4]
            if not code[5 * pc + 3]:
                place = -1 - place
            top += 1
            where = a * stride + row_at(place, b, variable, row, start, counts, at, stride - 1)
            if op == _REF_F:
                reals[top], nulls[top] = floats[where], float_nulls[where]
            else:
                values[top], nulls[top] = ints[where], int_nulls[where]
        elif op == 2:
            top += 1
            values[top], nulls[top] = const_i[a], 0
        elif op == 3:
            top += 1
            reals[top], nulls[top] = const_f[a], 0
        elif op == 4:
            top += 1
            values[top], reals[top], nulls[top] = 0, 0.0, 1
        elif op == 5:
            reals[top] = values[top]
        elif op < _WRAP:
            if op == 9:
                values[top] = -values[top]
            else:
                top -= 1
                if nulls[top] or nulls[top + 1]:
                    nulls[top] = 1
                elif op == 6:
                    values[top] += values[top + 1]
                elif op == 7:
                    values[top] -= values[top + 1]
                else:
                    values[top] *= values[top + 1]
        elif op == _WRAP:
            half = 1 << (a - 1)
            values[top] = ((values[top] + half) & ((1 << a) - 1)) - half
        elif op < _EQ_I:
            if op == 15:
                reals[top] = -reals[top]
            else:
                top -= 1
                if nulls[top] or nulls[top + 1]:
                    nulls[top] = 1
                elif op == _ADD_F:
                    reals[top] += reals[top + 1]
                elif op == 12:
                    reals[top] -= reals[top + 1]
                elif op == 13:
                    reals[top] *= reals[top + 1]
                else:
                    reals[top] = quotient(reals[top], reals[top + 1])
        elif op < _AND:
            top -= 1
            if nulls[top] or nulls[top + 1]:
                nulls[top] = 1
            elif op < _EQ_F:
                values[top] = compared(op - _EQ_I, values[top], values[top + 1])
            else:
                values[top] = compared(op - _EQ_F, reals[top], reals[top + 1])
        elif op < 30:
            top -= 1
            decides = 0 if op == _AND else 1
            left, right = nulls[top], nulls[top + 1]
            if (not left and (values[top] != 0) == (decides == 1)) or (
                not right and (values[top + 1] != 0) == (decides == 1)
            ):
                values[top], nulls[top] = decides, 0
            elif left or right:
                nulls[top] = 1
            else:
                values[top] = 1 - decides
        elif op == 30:
            values[top] = 0 if values[top] else 1
        elif op < _COUNT_ROWS:
            if op == 31:
                values[top] = 1 if nulls[top] else 0
            elif op == 32:
                values[top] = 0 if nulls[top] else 1
            elif op == 33:
                values[top] = 1 if not nulls[top] and values[top] else 0
            else:
                values[top] = 1 if not nulls[top] and not values[top] else 0
            nulls[top] = 0
        else:
            top += 1
            if op == _COUNT_ROWS:
                values[top], nulls[top] = num_rows(a, variable, row, start, counts, at), 0
            else:
                aggregate(op, a, b, variable, row, start, counts, at, programs, stack, top)
    return 1 if not nulls[top] and values[top] else 0


def _compared(test: Any, left: Any, right: Any) -> Any:
    if test == 0:
        return 1 if left == right else 0
    if test == 1:
        return 1 if left != right else 0
    if test == 2:
        return 1 if left < right else 0
    if test == 3:
        return 1 if left <= right else 0
    if test == 4:
        return 1 if left > right else 0
    return 1 if left >= right else 0


def _quotient(left: Any, right: Any) -> Any:
    """Divides as IEEE 754 does."""
    if right != 0.0:
        return left / right
    if left == 0.0 or left != left or right != right:
        return np.nan
    return np.inf if (left > 0.0) == (np.copysign(1.0, right) > 0.0) else -np.inf


def _aggregate(
    op: Any,
    column: Any,
    of: Any,
    variable: Any,
    row: Any,
    start: Any,
    counts: Any,
    at: Any,
    programs: Any,
    stack: Any,
    top: Any,
) -> None:
    """Puts an aggregate of a column over the rows of variable `of` on the stack."""
    ints, int_nulls, floats, float_nulls, stride = programs[4], programs[5], programs[6], programs[7], programs[8]
    values, reals, nulls = stack
    is_float = op in (42, 44, 46, 49, 50)
    total, count, total_f = 0, 0, 0.0
    for place in range(num_rows(of, variable, row, start, counts, at)):
        where = column * stride + row_at(place, of, variable, row, start, counts, at, stride - 1)
        if is_float:
            if float_nulls[where]:
                continue
            real = floats[where]
            if op == 49:
                total_f = real if count == 0 or real < total_f else total_f
            elif op == 50:
                total_f = real if count == 0 or real > total_f else total_f
            else:
                total_f += real
        else:
            if int_nulls[where]:
                continue
            value = ints[where]
            if op == 47:
                total = value if count == 0 or value < total else total
            elif op == 48:
                total = value if count == 0 or value > total else total
            else:
                total += value
        count += 1
    if op in (41, 42):
        values[top], nulls[top] = count, 0
        return
    nulls[top] = 1 if count == 0 else 0
    if op == 45 and count:
        total = total // count if total >= 0 else -((-total) // count)
    elif op == 46 and count:
        total_f /= count
    values[top] = total
    reals[top] = total_f


row_at, num_rows, compared, quotient, aggregate = _row_at, _num_rows, _compared, _quotient, _aggregate
evaluate = _evaluate
_PARTS = ("row_at", "num_rows", "compared", "quotient", "aggregate", "evaluate")


def compiled_evaluate(compiled: Any) -> Any:
    """Returns `evaluate`, compiled by this function."""
    for name in _PARTS:
        globals()[name] = compiled(globals()[f"_{name}"])
    return evaluate


def python_evaluate() -> Any:
    """Returns `evaluate` in Python, also where the parts are compiled."""
    parts: dict[str, Any] = dict(globals())
    for name in _PARTS:
        parts[name] = FunctionType(parts[f"_{name}"].__code__, parts, name)
    return parts["evaluate"]
