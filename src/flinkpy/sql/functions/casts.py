"""CAST and TRY_CAST. CAST fails if a text is no value of the type, TRY_CAST and the legacy CAST return null.

Numbers that are too large wrap around as in Java, and decimals with too many digits become null.

Source: org.apache.flink.table.planner.functions.casting.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TableRuntimeError, UnsupportedOperationError, ValidationError
from flinkpy.records.roaring_bitmap import bitmap_text
from flinkpy.sql.functions import decimals, instants
from flinkpy.sql.functions import text_values as text
from flinkpy.sql.functions.definition import FunctionDefinition, FunctionKind, Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.plain_texts import plain_dates, plain_integers, plain_numbers, plain_timestamps
from flinkpy.sql.functions.registry import register
from flinkpy.sql.functions.signatures import parse_signature
from flinkpy.sql.rex import RexCall, RexNode
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.sql.types.casting import supports_explicit_cast
from flinkpy.sql.types.logical_types import TypeRoot as R

_TEXT, _BYTES = of.CHARACTER_STRING, of.BINARY_STRING


def cast(node: RexNode, target: lt.LogicalType, is_try: bool = False) -> RexCall:
    """Returns `CAST(node AS target)` or TRY_CAST. The result is nullable if the operand is, and always for TRY_CAST.

    Raises:
        ValidationError: if there is no such cast.
    """
    source = node.type
    if source.root in of.NUMERIC and target.root in of.TIMESTAMP:
        raise ValidationError(
            "The cast from NUMERIC type to TIMESTAMP type is not allowed. It's recommended to use "
            "TO_TIMESTAMP(FROM_UNIXTIME(numeric_col)) instead, note the numeric is in seconds."
        )
    if source.root in of.TIMESTAMP and target.root in of.NUMERIC:
        raise ValidationError(
            "The cast from TIMESTAMP type to NUMERIC type is not allowed. It's recommended to use "
            "UNIX_TIMESTAMP(CAST(timestamp_col AS STRING)) instead."
        )
    if not supports_explicit_cast(source, target.as_nullable()):
        raise ValidationError(f"Cast function cannot convert value of type {source} to type {target}")
    return RexCall(target.as_nullable(source.nullable or is_try), "TRY_CAST" if is_try else "CAST", (node,))


def _kernel(is_try: bool) -> Callable[..., Any]:
    def kernel(call: KernelCall, value: Any) -> Any:
        forgiving = is_try or call.settings.legacy_cast
        cast_ = _Cast(call, forgiving)
        return cast_.convert(as_array(value, call.num_rows), call.argument_types[0], call.type)

    return kernel


def _no_inference(call: Inference) -> lt.LogicalType:
    raise ValidationError(f"{call.name} needs a target type: it is created by flinkpy.sql.functions.casts.cast")


for _name, _is_try in (("CAST", False), ("TRY_CAST", True)):
    register(
        FunctionDefinition(
            _name,
            FunctionKind.SCALAR,
            (parse_signature("ANY"),),
            _no_inference,
            _kernel(_is_try),
            null_if_null=True,
            may_fail=not _is_try,
            is_costly=True,
        )
    )


class _Cast:
    """Converts arrays of one call."""

    def __init__(self, call: KernelCall, is_forgiving: bool) -> None:
        self._call = call
        self._is_forgiving = is_forgiving
        self._zone = call.settings.time_zone

    def convert(self, array: pa.Array, source: lt.LogicalType, target: lt.LogicalType) -> pa.Array:
        """Returns the values of type `source` as values of type `target`."""
        if source.as_nullable() == target.as_nullable():
            return array
        if source.root is R.NULL:
            return pa.nulls(len(array), arrow_type_of(target))
        if target.root in _TEXT:
            return self._fitted(self._to_text(array, source, target), source, target, "utf8")
        if target.root in _BYTES:
            return self._fitted(self._to_bytes(array, source), source, target, "binary")
        if target.root in of.CONSTRUCTED:
            return self._constructed(array, source, target)
        if source.root in _TEXT:
            return self._from_text(array, target)
        if target.root in of.NUMERIC:
            return self._to_number(array, source, target)
        if target.root is R.BOOLEAN:
            return pc.not_equal(array, pa.scalar(0, pa.int8()).cast(array.type))
        if target.root in of.DATETIME and source.root in of.DATETIME:
            return self._to_datetime(array, source, target)
        if target.root in of.INTERVAL and source.root in of.INTERVAL:
            return array
        raise UnsupportedOperationError(f"flinkpy does not have CAST from {source} to {target} yet")

    # -- text -------------------------------------------------------------------------------------------------------

    def _from_text(self, array: pa.Array, target: lt.LogicalType) -> pa.Array:
        parse, finish = _parser(target, self._zone)
        wanted = arrow_type_of(target)
        if target.root in of.INTEGER_NUMERIC:
            integers = plain_integers(array, target)
            if integers is not None:
                return integers

        def compute(values: pa.Array) -> pa.Array:
            plain = _plain(values, target)
            if plain is not None:
                return plain if target.root in of.NUMERIC else finish(plain, wanted)
            results = []
            for each in values.to_pylist():
                try:
                    results.append(None if each is None else parse(each))
                except text.Unparsable as error:
                    if not self._is_forgiving:
                        raise TableRuntimeError(str(error), details={"value": each[:120]}) from None
                    results.append(None)
            return finish(results, wanted)

        return self._call.once_per_distinct(array, compute)

    def _to_text(self, array: pa.Array, source: lt.LogicalType, target: lt.LogicalType) -> pa.Array:
        root = source.root
        if root in _TEXT:
            return array
        if root in of.INTEGER_NUMERIC:
            return array.cast(pa.string())
        if root is R.BOOLEAN:
            return pc.if_else(array, "TRUE", "FALSE")
        if root is R.DATE:
            return array.cast(pa.string())
        if root in _BYTES:
            return _decoded(array)
        if root in of.TIMESTAMP or root is R.TIME_WITHOUT_TIME_ZONE:
            return self._time_text(array, source)
        if root in of.CONSTRUCTED:
            shown = [
                None if value is None else text.value_text(value, source, self._show) for value in array.to_pylist()
            ]
            return pa.array(shown, pa.string())
        show = _SHOWN.get(root)
        if show is None:
            raise UnsupportedOperationError(f"flinkpy does not have CAST from {source} to {target} yet")
        if root is R.INTERVAL_DAY_TIME:
            array = array.cast(pa.int64())
        return self._call.once_per_distinct(
            array,
            lambda values: pa.array(
                [None if each is None else show(each, source) for each in values.to_pylist()], pa.string()
            ),
        )

    def _show(self, value: Any, kind: lt.LogicalType) -> str:
        array = pa.array([value], arrow_type_of(kind))
        return self._to_text(array, kind, lt.VarCharType())[0].as_py()  # type: ignore[no-any-return]

    def _time_text(self, array: pa.Array, source: Any) -> pa.Array:
        if isinstance(source, lt.LocalZonedTimestampType):
            array = instants.to_local(array, self._zone)
        shown = array.cast(pa.string())
        whole = 8 if source.root is R.TIME_WITHOUT_TIME_ZONE else 19
        length = whole + (source.precision + 1 if source.precision else 0)
        if source.root is R.TIME_WITHOUT_TIME_ZONE:
            # A TIME(0) may hold milliseconds, which Flink shows.
            fraction = {"ms": 3, "us": 6, "ns": 9}[array.type.unit]
            if source.precision < fraction:
                has_rest = pc.not_equal(pc.utf8_slice_codeunits(shown, length), "0" * (fraction - source.precision))
                if source.precision == 0:
                    has_rest = pc.not_equal(pc.utf8_slice_codeunits(shown, whole + 1), "0" * fraction)
                return pc.if_else(has_rest, shown, pc.utf8_slice_codeunits(shown, 0, length))
        return pc.utf8_slice_codeunits(shown, 0, length)

    def _to_bytes(self, array: pa.Array, source: lt.LogicalType) -> pa.Array:
        if source.root in _TEXT or source.root in _BYTES or source.root is R.RAW:
            return array.cast(pa.binary())
        raise UnsupportedOperationError(f"flinkpy does not have CAST from {source} to bytes yet")

    def _fitted(self, array: pa.Array, source: lt.LogicalType, target: Any, family: str) -> pa.Array:
        """Cuts off what is longer than the target's length, and fills CHAR with blanks and BINARY with zeros."""
        length = target.length
        if length != lt.MAX_LENGTH and not _is_shorter(source, target):
            if family == "utf8":
                array = pc.utf8_slice_codeunits(array, 0, length)
            else:
                array = pc.binary_slice(array, 0, length)
        if target.root is R.CHAR:
            array = pc.utf8_rpad(array, length, " ")
        elif target.root is R.BINARY and (source.root is not R.BINARY or source.length != length):  # type: ignore[attr-defined]
            padded = [None if each is None else each.ljust(length, b"\0") for each in array.to_pylist()]
            array = pa.array(padded, pa.binary())
        return array

    # -- numbers ----------------------------------------------------------------------------------------------------

    def _to_number(self, array: pa.Array, source: lt.LogicalType, target: lt.LogicalType) -> pa.Array:
        wanted = arrow_type_of(target)
        if source.root is R.BOOLEAN:
            numbers = array.cast(pa.int8())
            return numbers.cast(pa.decimal128(3, 0)).cast(wanted) if target.root is R.DECIMAL else numbers.cast(wanted)
        if source.root in of.INTERVAL:
            numbers = array.cast(pa.int64())
            return self._to_number(numbers, lt.BigIntType(), target)
        if isinstance(target, lt.DecimalType):
            return self._to_decimal(array, source, target)
        if target.root in of.APPROXIMATE_NUMERIC:
            return array.cast(wanted, safe=False)
        if source.root in of.INTEGER_NUMERIC:
            return array.cast(wanted, safe=False)
        if source.root is R.DECIMAL:
            return _whole_numbers(array, wanted)
        return _truncated(array, wanted)

    def _to_decimal(self, array: pa.Array, source: lt.LogicalType, target: lt.DecimalType) -> pa.Array:
        if source.root in of.EXACT_NUMERIC:
            return decimals.fitted(decimals.as_decimal(array, source), target)

        # A double is exactly the number that its shortest text shows: BigDecimal.valueOf does the same.
        def number(value: float) -> decimal.Decimal | None:
            shortest = repr(value) if source.root is R.DOUBLE else str(np.float32(value))
            exact = decimal.Decimal(shortest)
            return text.fit_decimal(exact, target.precision, target.scale) if exact.is_finite() else None

        values = [None if each is None else number(each) for each in array.to_pylist()]
        return pa.array(values, arrow_type_of(target))

    # -- times ------------------------------------------------------------------------------------------------------

    def _to_datetime(self, array: pa.Array, source: lt.LogicalType, target: lt.LogicalType) -> pa.Array:
        wanted = arrow_type_of(target)
        is_zoned = isinstance(source, lt.LocalZonedTimestampType)
        if is_zoned and not isinstance(target, lt.LocalZonedTimestampType):
            array = instants.to_local(array, self._zone)
        numbers, valid = instants.ticks(array)
        per_day = 1 if source.root is R.DATE else instants.PER_DAY[array.type.unit]
        if target.root is R.DATE:
            return instants.from_ticks(numbers // per_day, valid, wanted)
        if target.root is R.TIME_WITHOUT_TIME_ZONE:
            return instants.from_ticks(_precise(numbers % per_day, per_day, target), valid, wanted)
        if per_day == 1:
            numbers, per_day = numbers * instants.PER_DAY[wanted.unit], instants.PER_DAY[wanted.unit]
        naive = pa.timestamp(wanted.unit)
        result = instants.from_ticks(_precise(numbers, per_day, target), valid, naive)
        if not isinstance(target, lt.LocalZonedTimestampType):
            return result
        return result.cast(wanted) if is_zoned else instants.to_instants(result, self._zone)

    # -- constructed types --------------------------------------------------------------------------------------------

    def _constructed(self, array: pa.Array, source: lt.LogicalType, target: lt.LogicalType) -> pa.Array:
        wanted = arrow_type_of(target)
        mask = array.is_null() if array.null_count else None
        if isinstance(target, lt.RowType):
            fields = array.flatten()
            cast_ = [
                self.convert(each, one, other) for each, one, other in zip(fields, source.children, target.children)
            ]
            return pa.StructArray.from_arrays(cast_, fields=list(wanted), mask=mask)
        if len(array) and array.offset:
            array = pa.concat_arrays([array, array.slice(0, 0)])
        if isinstance(target, lt.ArrayType):
            assert isinstance(source, lt.ArrayType)
            elements = self.convert(array.values, source.element, target.element)
            return pa.ListArray.from_arrays(array.offsets, elements, type=wanted, mask=mask)
        if isinstance(target, lt.MapType):
            assert isinstance(source, lt.MapType)
            keys = self.convert(array.keys, source.key, target.key)
            items = self.convert(array.items, source.value, target.value)
        else:
            assert isinstance(source, lt.MultisetType) and isinstance(target, lt.MultisetType)
            keys, items = self.convert(array.keys, source.element, target.element), array.items
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted, mask=mask)


def _is_shorter(source: lt.LogicalType, target: Any) -> bool:
    """True if no value of the source is longer than the target."""
    same = (source.root in _TEXT) == (target.root in _TEXT) and (source.root in _TEXT or source.root in _BYTES)
    return same and source.length <= target.length  # type: ignore[attr-defined,no-any-return]


def _decoded(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        values = [None if each is None else each.decode("utf-8", "replace") for each in array.to_pylist()]
        return pa.array(values, pa.string())


_SHOWN: dict[R, Callable[[Any, Any], str]] = {
    R.DECIMAL: lambda value, kind: format(value, "f"),
    R.DOUBLE: lambda value, kind: text.float_text(value, True),
    R.FLOAT: lambda value, kind: text.float_text(value, False),
    R.INTERVAL_YEAR_MONTH: lambda value, kind: text.year_month_text(value),
    R.INTERVAL_DAY_TIME: lambda value, kind: text.day_time_text(value),
    R.VARIANT: lambda value, kind: value.decode(),
    R.BITMAP: lambda value, kind: bitmap_text(value),
}

#: Creates the array from a list of the parsed values; for times also from an array of them.
_Finish = Callable[[Any, pa.DataType], pa.Array]


def _dates(values: Any, wanted: pa.DataType) -> pa.Array:
    return (values if isinstance(values, pa.Array) else pa.array(values, pa.int32())).cast(wanted)


def _listed(values: list[Any], wanted: pa.DataType) -> pa.Array:
    return pa.array(values, wanted)


def _plain(values: pa.Array, target: lt.LogicalType) -> pa.Array | None:
    """Returns numbers, or what `parse_date` and `parse_timestamp` return; None if a text has an unusual form."""
    if target.root in of.NUMERIC:
        return plain_numbers(values, target)
    if target.root is R.DATE:
        return plain_dates(values)
    return plain_timestamps(values) if target.root in of.TIMESTAMP else None


def _parser(target: Any, zone: str) -> tuple[Callable[[str], Any], _Finish]:
    """Returns the function that parses a text, and the one that creates the array of its results."""
    root = target.root
    if root in of.INTEGER_NUMERIC:
        bits = text.NUMBER_BITS[root]
        return lambda value: text.parse_integer(value, bits), _listed
    if root in of.APPROXIMATE_NUMERIC:
        return text.parse_float, _listed
    if root is R.DECIMAL:
        return lambda value: text.parse_decimal(value, target.precision, target.scale), _listed
    if root is R.BOOLEAN:
        return text.parse_boolean, _listed
    if root is R.DATE:
        return text.parse_date, _dates
    step = 10 ** (9 - target.precision) if root in of.DATETIME else 1

    def in_units(values: Any, wanted: pa.DataType) -> pa.Array:
        unit = {"ms": 1_000_000, "us": 1000, "ns": 1}[wanted.unit]
        if isinstance(values, pa.Array):
            numbers, valid = instants.ticks(values)
            array = instants.from_ticks(numbers // step * step // unit, valid, pa.int64())
        else:
            array = pa.array([None if each is None else each // step * step // unit for each in values], pa.int64())
        if pa.types.is_time32(wanted):
            return array.cast(pa.int32()).cast(wanted)
        if pa.types.is_timestamp(wanted) and wanted.tz is not None:
            return instants.to_instants(array.cast(pa.timestamp(wanted.unit)), zone)
        return array.cast(wanted)

    if root is R.TIME_WITHOUT_TIME_ZONE:
        return text.parse_time, in_units
    if root in of.TIMESTAMP:
        return text.parse_timestamp, in_units
    raise UnsupportedOperationError(f"flinkpy does not have CAST from text to {target} yet")


def _whole_numbers(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Returns decimals without their fraction as integers, which wrap around."""
    numbers = decimals.unscaled(array)
    if numbers is not None:
        divisor = 10 ** min(array.type.scale, 19)
        whole = np.zeros_like(numbers) if divisor > 1 << 62 else np.sign(numbers) * (np.abs(numbers) // divisor)
        mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        return pa.array(whole, pa.int64(), mask=mask).cast(wanted, safe=False)
    half, modulus = 1 << 63, 1 << 64
    values = [None if each is None else (int(each) + half) % modulus - half for each in array.to_pylist()]
    return pa.array(values, pa.int64()).cast(wanted, safe=False)


def _truncated(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Returns floating-point numbers as Java casts them: to the nearest int or long, which then wrap around."""
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    numbers = np.where(np.isnan(numbers), 0.0, np.trunc(numbers))
    bits = 64 if wanted == pa.int64() else 32
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)
    inside = np.where((numbers >= low) & (numbers < high), numbers, 0.0).astype(np.int64)
    whole = np.where(numbers >= high, (1 << (bits - 1)) - 1, np.where(numbers < low, -(1 << (bits - 1)), inside))
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(whole.astype(np.int64), pa.int64(), mask=mask).cast(wanted, safe=False)


def _precise(numbers: np.ndarray, per_day: int, target: Any) -> np.ndarray:
    """Returns ticks of one unit in the unit of the target, without digits beyond its precision."""
    digits = {86_400_000: 3, 86_400_000_000: 6}.get(per_day, 9)
    unit = 3 if target.precision <= 3 else 6 if target.precision <= 6 else 9
    if target.precision < digits:
        step = 10 ** (digits - target.precision)
        numbers = numbers // step * step
    return numbers // 10 ** (digits - unit) if digits >= unit else numbers * 10 ** (unit - digits)


def convert(array: pa.Array, source: lt.LogicalType, target: lt.LogicalType, call: KernelCall) -> pa.Array:
    """Returns an array cast to another type, for kernels whose operands need it."""
    return _Cast(call, False).convert(array, source, target)
