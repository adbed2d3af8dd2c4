"""Evaluation: computes bound expressions over RecordBatches.

* An expression that occurs several times is computed once per batch. Constant ones are computed once and for all.
* A branch of CASE, COALESCE, AND or OR that may fail or is costly is computed only for the rows that need its value.
* The parts of a condition are computed one after the other, on the rows that are left, if those are few.

A row never sees other rows, so that the results do not depend on how rows are cut into batches.

Source: org.apache.flink.table.planner.codegen.ExprCodeGenerator.
"""

from __future__ import annotations

import datetime as _dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import FlinkError, TableRuntimeError, UnsupportedOperationError
from flinkpy.sql.expression_text import expression_text
from flinkpy.sql.functions.definition import FunctionDefinition
from flinkpy.sql.functions.kernel_call import Encodings, KernelCall, as_array
from flinkpy.sql.functions.registry import find_function
from flinkpy.sql.functions.user_functions import UserFunctionCaller
from flinkpy.sql.rex import FieldAccess, InputRef, Literal, RexCall, RexNode, UserFunctionCall
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.sql.types.logical_codecs import logical_codec

#: The rows that a part of a condition has left over are copied only if at most 1/N of the rows are left.
_COPIED_FROM = 2

_TRUE, _FALSE = pa.scalar(True), pa.scalar(False)
#: Errors of Arrow that a value causes. They leave as typed errors.
_VALUE_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError)


def compile_expressions(nodes: Sequence[RexNode], settings: SessionSettings | None = None) -> CompiledExpressions:
    """Returns the expressions ready to be computed.

    Raises:
        UnsupportedOperationError: if flinkpy does not have a function yet. Names it.
    """
    return CompiledExpressions(nodes, settings or SessionSettings())


class CompiledExpressions:
    """Expressions over the columns of batches of one schema. Thread: one at a time."""

    def __init__(self, nodes: Sequence[RexNode], settings: SessionSettings) -> None:
        self._program = _Program(settings)
        self._slots = [self._program.slot(node) for node in nodes]
        self._types = [arrow_type_of(node.type) if node.type.root is not lt.TypeRoot.SYMBOL else None for node in nodes]

    def open(self, context: Any) -> None:
        """Opens the user-defined functions. `context` is the FunctionContext that their `open` gets."""
        for caller in self._program.user_functions:
            caller.open(context)

    def close(self) -> None:
        """Closes the user-defined functions."""
        for caller in self._program.user_functions:
            caller.close()

    def set_watermark(self, timestamp_ms: int | None) -> None:
        """Sets the value of CURRENT_WATERMARK for the next batches; None before the first watermark."""
        self._program.watermark_ms = timestamp_ms

    def evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Returns one array per expression, with a value for each row of the batch.

        Raises:
            TableRuntimeError: if a value has no result, for example a text that is no number in CAST.
            FunctionError: if a user-defined function raises.
        """
        frame = _Frame(batch, batch.num_rows)
        arrays = []
        for slot, wanted in zip(self._slots, self._types):
            array = as_array(self._program.value(slot, frame), batch.num_rows)
            arrays.append(array if array.type == wanted else array.cast(wanted))
        return arrays

    def evaluate_condition(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Returns for which rows all expressions are true. There are no nulls in it. Raises: as `evaluate`."""
        frame = _Frame(batch, batch.num_rows)
        parts = [part for slot in self._slots for part in self._program.conjuncts(slot)]
        return self._program.all_true(parts, frame)


class _Frame:
    """The rows for which values are computed: those of a batch, or some rows of another frame."""

    __slots__ = ("_batch", "_columns", "_parent", "encodings", "memo", "num_rows", "rows")

    def __init__(
        self, batch: pa.RecordBatch | None, num_rows: int, parent: _Frame | None = None, rows: pa.Array | None = None
    ) -> None:
        self._batch = batch
        self._parent = parent
        self.rows = rows
        self.num_rows = num_rows
        self.memo: dict[int, Any] = {}
        self._columns: dict[int, pa.Array] = {}
        self.encodings = Encodings()

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of the batch; none while constants are computed."""
        frame: _Frame | None = self
        while frame is not None and frame._batch is None:
            frame = frame._parent
        return [] if frame is None or frame._batch is None else frame._batch.schema.names

    def column(self, index: int) -> pa.Array:
        array = self._columns.get(index)
        if array is None:
            if self._batch is not None:
                array = self._batch.column(index)
            else:
                assert self._parent is not None
                array = self._parent.column(index).take(self.rows)
            self._columns[index] = array
        return array

    def known(self, slot: int) -> Any:
        """Returns the value of a slot if it has been computed for these rows, or for those they were taken from."""
        value = self.memo.get(slot)
        if value is None and self._parent is not None:
            value = self._parent.known(slot)
            if isinstance(value, pa.Array):
                value = value.take(self.rows)
            if value is not None:
                self.memo[slot] = value
        return value

    def at(self, rows: np.ndarray) -> _Frame:
        """Returns the frame of the rows at these positions."""
        return _Frame(None, len(rows), self, pa.array(rows))


class _Step:
    """One computation. `care` is True if it may fail or is costly, `constant` if it needs no row."""

    __slots__ = ("arguments", "care", "constant", "definition", "detail", "kind", "may_fail", "node")

    def __init__(self, kind: str, node: RexNode, arguments: tuple[int, ...] = (), detail: Any = None) -> None:
        self.kind = kind
        self.node = node
        self.arguments = arguments
        self.detail = detail
        self.definition: FunctionDefinition | None = None
        self.care = False
        self.may_fail = False
        self.constant = kind == "literal"


class _Program:
    """The computations of some expressions, each in a slot. Equal ones share a slot."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._steps: list[_Step] = []
        self._slots: dict[Any, int] = {}
        self.user_functions: list[UserFunctionCaller] = []
        self.watermark_ms: int | None = None

    # -- compilation ------------------------------------------------------------------------------------------------

    def slot(self, node: RexNode) -> int:
        """Returns the slot of an expression. Adds its computations if they are not there yet."""
        if isinstance(node, InputRef):
            return self._add(("input", node.index), _Step("input", node, detail=node.index))
        key: Any
        if isinstance(node, Literal):
            key = ("literal", node.type.as_nullable(), repr(node.value))
            return self._add(key, _Step("literal", node, detail=_literal(node)))
        arguments = tuple(self.slot(operand) for operand in node.operands)
        if isinstance(node, FieldAccess):
            key = ("field", node.index, arguments)
            return self._add(key, _Step("field", node, arguments, node.index))
        if isinstance(node, UserFunctionCall):
            caller = UserFunctionCaller(node)
            is_shared = node.is_deterministic
            key = ("user", id(node.function) if is_shared else object(), arguments)
            if key not in self._slots:
                self.user_functions.append(caller)
            step = _Step("user", node, arguments, caller)
            step.care = step.may_fail = True
            return self._add(key, step)
        assert isinstance(node, RexCall), node
        definition = find_function(node.function)
        if definition is None or definition.kernel is None:
            raise UnsupportedOperationError(
                f"flinkpy does not have the function {node.function} yet", details={"function": node.function}
            )
        special = _SPECIAL.get(definition.name)
        step = _Step("special" if special else "call", node, arguments, special)
        step.definition = definition
        step.may_fail = definition.may_fail
        step.care = definition.is_costly or definition.may_fail
        step.constant = definition.is_deterministic and not definition.is_dynamic
        key = ("call", definition.name, node.type, arguments)
        return self._add(key if definition.is_deterministic else object(), step)

    def _add(self, key: Any, step: _Step) -> int:
        known = self._slots.get(key)
        if known is not None:
            return known
        below = [self._steps[slot] for slot in step.arguments]
        step.care = step.care or any(each.care for each in below)
        step.may_fail = step.may_fail or any(each.may_fail for each in below)
        if step.kind in ("call", "special", "field"):
            is_deterministic = step.definition is None or step.constant
            step.constant = is_deterministic and all(each.constant for each in below)
        slot = len(self._steps)
        self._steps.append(step)
        self._slots[key] = slot
        if step.constant and step.kind != "literal":
            self._fold(slot, step)
        return slot

    def _fold(self, slot: int, step: _Step) -> None:
        """Computes a constant. If it fails, it fails for the first row instead."""
        try:
            value = as_array(self.value(slot, _Frame(None, 1)), 1)[0]
        except FlinkError:
            step.constant = False
            return
        folded = _Step("literal", step.node, detail=value)
        self._steps[slot] = folded

    # -- computation ------------------------------------------------------------------------------------------------

    def value(self, slot: int, frame: _Frame) -> Any:
        """Returns an array with a value per row of the frame, or a scalar."""
        step = self._steps[slot]
        if step.kind == "literal":
            return step.detail
        if not frame.num_rows:
            return pa.array([], arrow_type_of(step.node.type))
        known = frame.known(slot)
        if known is not None:
            return known
        if step.kind == "input":
            value = frame.column(step.detail)
        elif step.kind == "special":
            value = step.detail(self, step, frame)
        else:
            operands = [self.value(argument, frame) for argument in step.arguments]
            if step.kind == "field":
                value = _field(operands[0], step.detail)
            elif step.kind == "user":
                value = step.detail.call(operands, frame.num_rows)
            else:
                value = self._call(step, operands, frame)
        frame.memo[slot] = value
        return value

    def _call(self, step: _Step, operands: list[Any], frame: _Frame) -> Any:
        definition, node = step.definition, step.node
        assert definition is not None and definition.kernel is not None
        are_scalars = all(isinstance(operand, pa.Scalar) for operand in operands)
        num_rows = 1 if are_scalars and operands else frame.num_rows
        types = tuple(operand.type for operand in node.operands)
        call = KernelCall(
            definition.name, node.type, types, num_rows, self._settings, frame.encodings, self.watermark_ms
        )
        if definition.null_if_null:
            for operand in operands:
                if isinstance(operand, pa.Scalar) and not operand.is_valid:
                    return call.null()
        if are_scalars and operands:
            # Kernels may rely on an array among their operands.
            place = next((i for i, kind in enumerate(types) if kind.root is not lt.TypeRoot.SYMBOL), None)
            operands = [as_array(each, 1) if i == place else each for i, each in enumerate(operands)]
        try:
            value = definition.kernel(call, *operands)
        except _VALUE_ERRORS as error:
            raise _placed(definition.failed(str(error)), node, frame) from error
        except TableRuntimeError as error:
            raise _placed(error, node, frame) from error.__cause__
        return as_array(value, 1)[0] if are_scalars and operands else value

    def condition(self, slot: int, frame: _Frame) -> pa.BooleanArray:
        """Returns a BOOLEAN value as an array."""
        return as_array(self.value(slot, frame), frame.num_rows)

    def conjuncts(self, slot: int) -> list[int]:
        """Returns the parts of a conjunction, in their order."""
        step = self._steps[slot]
        if step.definition is not None and step.kind == "special" and step.definition.name == "AND":
            return [part for argument in step.arguments for part in self.conjuncts(argument)]
        return [slot]

    def all_true(self, slots: Sequence[int], frame: _Frame) -> pa.BooleanArray:
        """Returns the rows of a frame for which all conditions are true, without nulls."""
        total = frame.num_rows
        rows: np.ndarray | None = None  # the positions of the rows of `frame` in the first one; None for all
        so_far: pa.BooleanArray | None = None  # the conditions since the last copy; None for true
        for slot in slots:
            if so_far is not None:
                left = so_far.true_count
                if self._steps[slot].may_fail or left * _COPIED_FROM <= frame.num_rows:
                    kept = np.flatnonzero(so_far.to_numpy(zero_copy_only=False))
                    rows = kept if rows is None else rows[kept]
                    if not left:
                        so_far = None
                        break
                    if left < frame.num_rows:
                        frame = frame.at(kept)
                    so_far = None
            truth = self.condition(slot, frame)
            if truth.null_count:
                truth = truth.fill_null(False)
            so_far = truth if so_far is None else pc.and_(so_far, truth)
        if rows is None:
            return pa.repeat(_TRUE, total) if so_far is None else so_far
        mask = np.zeros(total, bool)
        mask[rows if so_far is None else rows[so_far.to_numpy(zero_copy_only=False)]] = True
        return pa.array(mask)

    # -- special forms: not all of their arguments are computed for all rows -------------------------------------------

    def logical(self, step: _Step, frame: _Frame) -> Any:
        """AND and OR of three-valued logic. An argument that needs care is computed where it decides."""
        assert step.definition is not None
        is_and = step.definition.name == "AND"
        combine = pc.and_kleene if is_and else pc.or_kleene
        decided = _FALSE if is_and else _TRUE
        result = self.value(step.arguments[0], frame)
        for argument in step.arguments[1:]:
            if isinstance(result, pa.Scalar):
                if result.equals(decided):
                    return result
                result = combine(result, self.value(argument, frame))
            elif not self._steps[argument].care or frame.known(argument) is not None:
                result = combine(result, self.value(argument, frame))
            else:
                open_rows = pc.fill_null(pc.not_equal(result, decided), True)
                rows = np.flatnonzero(open_rows.to_numpy(zero_copy_only=False))
                if len(rows) == frame.num_rows:
                    result = combine(result, self.value(argument, frame))
                elif len(rows):
                    below = frame.at(rows)
                    other = pa.repeat(decided, frame.num_rows)
                    other = _scattered(other, rows, self.condition(argument, below))
                    result = combine(result, other)
        return result

    def case(self, step: _Step, frame: _Frame) -> Any:
        """CASE: condition, value, ..., else."""
        arguments = step.arguments
        conditions, values = arguments[0:-1:2], [*arguments[1:-1:2], arguments[-1]]
        return self._choose(step, frame, conditions, values)

    def coalesce(self, step: _Step, frame: _Frame) -> Any:
        """COALESCE and IFNULL: the first value that is not null."""
        arguments = step.arguments
        if not any(self._steps[argument].care for argument in arguments[1:]):
            values = [self.value(argument, frame) for argument in arguments]
            return values[0] if len(values) == 1 else pc.coalesce(*_same_type(values, step.node.type))
        pieces: list[tuple[np.ndarray, pa.Array]] = []
        rows = np.arange(frame.num_rows)
        for argument in arguments:
            below = frame if len(rows) == frame.num_rows else frame.at(rows)
            value = as_array(self.value(argument, below), len(rows))
            is_last = argument == arguments[-1]
            valid = np.ones(len(rows), bool) if is_last else value.is_valid().to_numpy(zero_copy_only=False)
            pieces.append((rows[valid], value if valid.all() else value.filter(pa.array(valid))))
            rows = rows[~valid]
            if not len(rows):
                break
        return _assembled(pieces, frame.num_rows, arrow_type_of(step.node.type))

    def _choose(self, step: _Step, frame: _Frame, conditions: Sequence[int], values: Sequence[int]) -> Any:
        wanted = arrow_type_of(step.node.type)
        if not any(self._steps[argument].care for argument in step.arguments):
            truths = [self.value(each, frame) for each in conditions]
            chosen = _same_type([self.value(each, frame) for each in values], step.node.type)
            if all(isinstance(each, pa.Scalar) for each in (*truths, *chosen)):
                for truth, value in zip(truths, chosen):
                    if truth.as_py():
                        return value
                return chosen[-1]
            if len(truths) == 1:
                truth = truths[0]
                if isinstance(truth, pa.Scalar):
                    return chosen[0] if truth.as_py() else chosen[1]
                return pc.if_else(truth.fill_null(False) if truth.null_count else truth, *chosen)
            arrays = [as_array(each, frame.num_rows) for each in truths]
            cases = pa.StructArray.from_arrays(arrays, names=[str(index) for index in range(len(arrays))])
            return pc.case_when(cases, *chosen)
        pieces: list[tuple[np.ndarray, pa.Array]] = []
        rows = np.arange(frame.num_rows)
        below = frame
        for condition, value in zip(conditions, values):
            truth = self.condition(condition, below)
            taken = truth.fill_null(False).to_numpy(zero_copy_only=False)
            if taken.all():
                pieces.append((rows, as_array(self.value(value, below), len(rows))))
                rows = rows[:0]
                break
            if taken.any():
                where = np.flatnonzero(taken)
                pieces.append((rows[where], as_array(self.value(value, below.at(where)), len(where))))
                rest = np.flatnonzero(~taken)
                rows, below = rows[rest], below.at(rest)
        if len(rows):
            pieces.append((rows, as_array(self.value(values[-1], below), len(rows))))
        return _assembled(pieces, frame.num_rows, wanted)


_SPECIAL = {
    "AND": _Program.logical,
    "OR": _Program.logical,
    "CASE": _Program.case,
    "IF": _Program.case,
    "COALESCE": _Program.coalesce,
    "IFNULL": _Program.coalesce,
}


def _placed(error: TableRuntimeError, node: RexNode, frame: _Frame) -> TableRuntimeError:
    """Returns an error that names the expression that has no result for a row."""
    names = frame.column_names
    if "expression" in error.details or not names:
        return error
    text = expression_text(node, names)
    return TableRuntimeError(f"{error.message} in the expression {text}", details={**error.details, "expression": text})


def _literal(node: Literal) -> pa.Scalar:
    """Returns a literal as an Arrow scalar of its type. A SYMBOL becomes text."""
    kind, value = node.type, node.value
    if kind.root is lt.TypeRoot.SYMBOL:
        return pa.scalar(value, pa.string())
    wanted = arrow_type_of(kind)
    if value is None:
        return pa.scalar(None, wanted)
    if isinstance(kind, lt.DayTimeIntervalType) and not isinstance(value, _dt.timedelta):
        return pa.scalar(value, wanted)
    if kind.children or isinstance(kind, lt.DecimalType | lt.VariantType | lt.RawType | lt.LocalZonedTimestampType):
        return logical_codec(kind).encode([value])[0]
    return pa.scalar(value, wanted)


def _field(rows: Any, index: int) -> Any:
    if isinstance(rows, pa.Scalar):
        array = as_array(rows, 1)
        return _field(array, index)[0]
    return rows.field(index) if rows.null_count == 0 else rows.flatten()[index]


def _same_type(values: Sequence[Any], kind: lt.LogicalType) -> list[Any]:
    wanted = arrow_type_of(kind)
    return [each if each.type == wanted else each.cast(wanted) for each in values]


def _scattered(base: pa.Array, rows: np.ndarray, values: pa.Array) -> pa.Array:
    """Returns `base` with the values at these rows."""
    mask = np.zeros(len(base), bool)
    mask[rows] = True
    return pc.replace_with_mask(base, pa.array(mask), values)


def _assembled(pieces: list[tuple[np.ndarray, pa.Array]], num_rows: int, wanted: pa.DataType) -> pa.Array:
    """Returns the array whose values at the rows of each piece are those of the piece."""
    arrays = [array if array.type == wanted else array.cast(wanted) for _, array in pieces]
    if not arrays:
        return pa.array([], wanted)
    if len(arrays) == 1:
        return arrays[0]
    place = np.empty(num_rows, np.int64)
    place[np.concatenate([rows for rows, _ in pieces])] = np.arange(num_rows)
    return pa.concat_arrays(arrays).take(pa.array(place))
