"""The implementation of the column operations of DataStream and KeyedStream.

They work on streams of TUPLE or ROW types. Beyond PyFlink's DataStream; the names are those of its Table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flinkpy.datastream import aggregates as functions
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.aggregate_plan import plan_aggregates
from flinkpy.expressions.nodes import Alias, Call, ColumnReference, Expression
from flinkpy.expressions.types import output_columns, result_type
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.operator_specs import ColumnAggregate, FieldKeySelector
from flinkpy.graph.transformation import OperatorTransformation, Transformation

if TYPE_CHECKING:
    from flinkpy.datastream.base_stream import DataStream
    from flinkpy.datastream.keyed_stream import KeyedStream

_ORDERS = {"orderAsc": "ascending", "orderDesc": "descending"}
_MERGED = {functions.COUNT: functions.SUM, functions.SUM: functions.SUM}
_UNSPLIT = (functions.COUNT_DISTINCT, *functions.SPREADS)
_HOW = ("inner", "left", "semi", "anti")


# -- DataStream ----------------------------------------------------------------------------------------------------


def select(stream: DataStream, expressions: Sequence[Expression | str]) -> DataStream:
    """Implements `DataStream.select`."""
    if not expressions:
        raise ValueError("select needs at least one expression")
    named = tuple(_named(expression, place) for place, expression in enumerate(expressions))
    columns = output_columns(named, _columns(stream, "select"), "select")
    output_type = RowTypeInfo(list(columns.values()), list(columns))
    return _beside(stream, "Select", specs.SelectSpec(named, **stream._types(output_type)))


def filter_batches(stream: DataStream, func: Any) -> DataStream:
    """Implements `DataStream.filter_batches`."""
    if isinstance(func, Expression):
        return _filter_expression(stream, func)
    _check_columns(stream, "filter_batches")
    function = func if callable(func) and not isinstance(func, type) else _constant_expression(func)
    types = stream._types(stream._transformation.output_type)
    return stream._one_input("Filter Batches", specs.FilterBatchesSpec(function, **types))


def _filter_expression(stream: DataStream, condition: Expression) -> DataStream:
    """Keeps the rows for which an expression is true."""
    try:
        kind = result_type(condition, _columns(stream, "filter_batches"))
    except UserError as error:
        raise UserError(f"filter_batches: {error.message}") from None
    if kind != Types.BOOLEAN():
        raise UserError(f"filter_batches: {condition} is a {kind!r}, not a BOOLEAN")
    types = stream._types(stream._transformation.output_type)
    return _beside(stream, "Filter", specs.FilterBatchesSpec(None, condition, **types))


def map_batches(stream: DataStream, func: Callable[[Any], Any], output_type: Any) -> DataStream:
    """Implements `DataStream.map_batches`."""
    _check_columns(stream, "map_batches")
    if isinstance(func, type) or not callable(func):
        raise TypeError("The input must be a callable function of a RecordBatch")
    types = stream._types(_column_type(output_type, stream._transformation.output_type))
    return stream._one_input("Map Batches", specs.MapBatchesSpec(func, **types))


def flat_map_batches(stream: DataStream, func: Callable[[Any], Any], output_type: Any) -> DataStream:
    """Implements `DataStream.flat_map_batches`."""
    _check_columns(stream, "flat_map_batches")
    if isinstance(func, type) or not callable(func):
        raise TypeError("The input must be a callable function of a RecordBatch")
    types = stream._types(_column_type(output_type, stream._transformation.output_type))
    return stream._one_input("Flat Map Batches", specs.FlatMapBatchesSpec(func, **types))


def aggregate_columns(
    stream: DataStream, aggregates: tuple[ColumnAggregate, ...], named: dict[str, ColumnAggregate]
) -> DataStream:
    """Implements `DataStream.aggregate_columns`."""
    columns = _columns(stream, "aggregate_columns")
    _check_bounded(stream, "aggregate_columns")
    wanted = tuple(map(_mean_as_avg, functions.named(aggregates, named)))
    for aggregate in wanted:
        if aggregate.compiled is not None or aggregate.function in (functions.FIRST, functions.LAST):
            raise UnsupportedOperationError(
                f"aggregate_columns: {aggregate.name!r} is not one of count, count_distinct, sum_, min_, max_, "
                "mean, avg, var_pop, var_samp, stddev_pop and stddev_samp"
            )
    plan = plan_aggregates([], wanted, columns)
    selected = stream if plan.before is None else stream.select(*plan.before)
    if any(aggregate.function in _UNSPLIT for aggregate in plan.aggregates):
        # Partial results of these cannot be merged, so one subtask gets the aggregated columns of all records.
        names = dict.fromkeys(each.column for each in plan.aggregates if each.column is not None)
        whole = _aggregated(selected.select(*names).global_(), "Global Aggregation", plan.aggregates)
        whole.force_non_parallel()
        return whole if plan.after is None else whole.select(*plan.after)
    partial = _aggregated(selected, "Local Aggregation", plan.aggregates)
    merging = tuple(
        replace(aggregate, function=_MERGED.get(aggregate.function, aggregate.function), column=aggregate.name)
        for aggregate in plan.aggregates
    )
    types = partial._types(partial.get_type())
    total = partial.global_()._one_input("Global Aggregation", specs.GlobalColumnAggregateSpec(merging, **types))
    total.force_non_parallel()
    return total if plan.after is None else total.select(*plan.after)


def _aggregated(stream: DataStream, name: str, aggregates: tuple[ColumnAggregate, ...]) -> DataStream:
    """Adds an operator that aggregates all records of a subtask."""
    columns = _columns(stream, "aggregate_columns")
    types = [functions.result_type(aggregate, columns) for aggregate in aggregates]
    output_type = RowTypeInfo(types, [aggregate.name for aggregate in aggregates])
    return stream._one_input(name, specs.GlobalColumnAggregateSpec(aggregates, **stream._types(output_type)))


def sort_columns(stream: DataStream, keys: tuple[Expression | str, ...], limit: int | None) -> DataStream:
    """Implements `DataStream.sort_columns`."""
    columns = _columns(stream, "sort_columns")
    _check_bounded(stream, "sort_columns")
    if not keys and limit is None:
        raise ValueError("sort_columns needs a column or a limit")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"sort_columns: the limit must be a number of records of at least 1, not {limit!r}")
    order = tuple(map(_sort_key, keys))
    for name, _ in order:
        try:
            result_type(ColumnReference(name), columns)
        except UserError as error:
            raise UserError(f"sort_columns: {error.message}") from None
    spec = specs.SortColumnsSpec(order, limit, **stream._types(stream._transformation.output_type))
    if limit is None:
        ordered = stream.global_()._one_input("Sort", spec)
    else:
        ordered = stream._one_input("Local Sort", spec).global_()._one_input("Sort, Limit", spec)
    ordered.force_non_parallel()
    return ordered


def _beside(stream: DataStream, name: str, spec: specs.OperatorSpec) -> DataStream:
    """Adds an operator. It has one subtask if its input is limited to one, so that the records keep their order."""
    result = stream._one_input(name, spec)
    before = stream._transformation
    if isinstance(before, OperatorTransformation) and before.is_non_parallel:
        result.force_non_parallel()
    return result


def _check_columns(stream: DataStream, method: str) -> None:
    """Raises: TypeError if the stream has no declared type."""
    if stream._transformation.output_type is None:
        raise TypeError(f"{method} works on columns, but this stream has no declared type; pass an output_type")


def _columns(stream: DataStream, method: str) -> dict[str, TypeInformation]:
    """Returns the types of the columns by name. Raises: UserError if the stream is not of a TUPLE or ROW type."""
    columns = checks.columns_of_type(stream._transformation.output_type)
    if columns is None:
        raise UserError(f"{method} works on columns: the stream must be of a declared TUPLE or ROW type")
    return columns


def _check_bounded(stream: DataStream, method: str) -> None:
    """Raises: UnsupportedOperationError if a source of the stream is unbounded."""
    unbounded = unbounded_source([stream._transformation])
    if unbounded is not None:
        raise UnsupportedOperationError(
            f"{method} emits its result when its input ends, but the source '{unbounded}' is unbounded"
        )


def unbounded_source(transformations: Sequence[Transformation]) -> str | None:
    """Returns the name of an unbounded source that these transformations read; None if all are bounded."""
    pending = list(transformations)
    seen: set[int] = set()
    while pending:
        transformation = pending.pop()
        if transformation.id in seen:
            continue
        seen.add(transformation.id)
        pending.extend(transformation.inputs)
        if not isinstance(transformation, OperatorTransformation) or not transformation.is_source:
            continue
        if not transformation.is_bounded:
            return transformation.display_name
    return None


def _named(expression: Any, place: int) -> Alias:
    if isinstance(expression, str):
        return Alias(ColumnReference(expression), expression)
    if isinstance(expression, Alias):
        return expression
    if isinstance(expression, ColumnReference):
        return Alias(expression, expression.name)
    if isinstance(expression, Expression):
        return Alias(expression, f"_c{place}")
    raise TypeError(f"select takes expressions (col(...), lit(...)) and names of columns, not {expression!r}")


def _mean_as_avg(aggregate: ColumnAggregate) -> ColumnAggregate:
    """Returns MEAN as AVG of a DOUBLE, which gives the same result. Returns other aggregates unchanged."""
    if aggregate.function != functions.MEAN:
        return aggregate
    value: Any = aggregate.expression
    if value is None:
        assert aggregate.column is not None
        value = ColumnReference(aggregate.column)
    as_double = Call("cast", (value,), (Types.DOUBLE(),))
    return replace(aggregate, function=functions.AVG, column=None, expression=as_double)


def _sort_key(key: Any) -> tuple[str, str]:
    if isinstance(key, str):
        return key, "ascending"
    order = "ascending"
    if isinstance(key, Call) and key.function in _ORDERS:
        order = _ORDERS[key.function]
        key = key.arguments[0]
    if not isinstance(key, ColumnReference):
        raise TypeError(
            f"sort_columns takes columns, col(name).asc and col(name).desc, not {key!r}: select() it before"
        )
    return key.name, order


def _column_type(output_type: Any, input_type: TypeInformation | None) -> TypeInformation | None:
    if output_type is None:
        return input_type
    if isinstance(output_type, (TypeInformation, list)):
        return checks.output_type_of(output_type)
    import pyarrow as pa

    if not isinstance(output_type, pa.Schema):
        raise TypeError(f"output_type must be a TypeInformation or a pyarrow.Schema, not {output_type!r}")
    from flinkpy.records.lanes import type_info_of_schema

    row_type = type_info_of_schema(output_type)
    assert isinstance(row_type, RowTypeInfo)
    return row_type


def _constant_expression(expression: Any) -> Callable[[Any], Any]:
    import pyarrow.compute as pc

    if not isinstance(expression, pc.Expression):
        raise TypeError("The input must be a callable function of a RecordBatch or a pyarrow.compute.Expression")
    return _ConstantExpression(expression)


class _ConstantExpression:
    """A function of a batch that always returns the same Arrow expression."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def __call__(self, batch: Any) -> Any:
        return self._expression


# -- KeyedStream ---------------------------------------------------------------------------------------------------


def aggregate_by_key(keyed: KeyedStream, wanted: tuple[ColumnAggregate, ...], emit: str) -> DataStream:
    """Implements `KeyedStream.aggregate`. Raises: UserError."""
    columns, keys = _keyed_columns(keyed, "aggregate")
    plan = plan_aggregates(keys, wanted, columns)
    if plan.before is not None:
        names = tuple(keys) if len(keys) != 1 else keys[0]
        keyed = keyed._origin_stream.select(*plan.before).key_by(names)
    selector = keyed.key_selector
    output_type = functions.output_type(keyed.transformation.output_type, selector, plan.aggregates)
    spec = specs.ColumnAggregateSpec(selector, plan.aggregates, emit, **keyed._keyed_types(output_type))
    result = keyed._one_input("Keyed Aggregation", spec)
    return result if plan.after is None else result.select(*plan.after)


def join_columns(left: KeyedStream, right: Any, how: str, broadcast: bool) -> DataStream:
    """Implements `KeyedStream.join_columns`. Raises: UserError, UnsupportedOperationError, ValueError, TypeError."""
    from flinkpy.datastream.base_stream import DataStream
    from flinkpy.datastream.keyed_stream import KeyedStream

    if not isinstance(right, KeyedStream):
        raise TypeError(f"join_columns: the other stream must be a KeyedStream, not {right!r}")
    if how not in _HOW:
        raise ValueError(f"join_columns: how must be one of {', '.join(_HOW)}, not {how!r}")
    left_columns, left_keys = _keyed_columns(left, "join_columns")
    right_columns, right_keys = _keyed_columns(right, "join_columns")
    left_types = [left_columns[key] for key in left_keys]
    right_types = [right_columns[key] for key in right_keys]
    if left_types != right_types:
        raise UserError(
            f"join_columns: the keys {left_keys} are {left_types!r}, and {right_keys} are {right_types!r}; they must "
            "be of the same types"
        )
    unbounded = unbounded_source([left.transformation, right.transformation])
    if unbounded is not None:
        raise UnsupportedOperationError(
            f"join_columns emits its result when its inputs end, but the source '{unbounded}' is unbounded"
        )
    output_type = join_type(left_columns, left_keys, right_columns, right_keys, how)
    selectors = (FieldKeySelector(tuple(left_keys)), FieldKeySelector(tuple(right_keys)))
    inputs = (left.transformation, right.transformation)
    if broadcast:
        inputs = (left._origin_stream.transformation, right._origin_stream.broadcast().transformation)
    spec = specs.ColumnJoinSpec(
        selectors,
        how=how,
        is_broadcast=broadcast,
        key_type=left.key_type,
        input_types=(inputs[0].output_type, inputs[1].output_type),
        output_type=output_type,
    )
    environment = left.get_execution_environment()
    operator = OperatorTransformation(f"Join ({how}{', broadcast' if broadcast else ''})", spec, inputs)
    environment.add_operator(operator)
    return DataStream(operator, environment)


def join_type(
    left: dict[str, TypeInformation],
    left_keys: list[str],
    right: dict[str, TypeInformation],
    right_keys: list[str],
    how: str,
) -> RowTypeInfo:
    """Returns the type of a join's result. Raises: UserError if two of its columns would have the same name."""
    names, types = list(left), list(left.values())
    if how in ("inner", "left"):
        same_keys = {left_key for left_key, right_key in zip(left_keys, right_keys) if left_key == right_key}
        for name, kind in right.items():
            if name in same_keys:
                continue
            if name in left:
                raise UserError(f"join_columns: both streams have a column {name!r}; rename one with select()")
            names.append(name)
            types.append(kind)
    return RowTypeInfo(types, names)


def _keyed_columns(keyed: KeyedStream, method: str) -> tuple[dict[str, TypeInformation], list[str]]:
    """Returns the types of the stream's columns by name, and the names of its key columns."""
    columns = checks.columns_of_type(keyed.transformation.output_type)
    if columns is None:
        raise UserError(f"{method} works on columns: the stream must be of a declared TUPLE or ROW type")
    selector = keyed.key_selector
    if not isinstance(selector, FieldKeySelector):
        raise UserError(f'{method} works on columns: the key must be columns too, as in key_by("name")')
    return columns, [field if isinstance(field, str) else list(columns)[field] for field in selector.fields]
