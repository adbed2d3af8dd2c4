"""The column operations of KeyedStream: `aggregate` and `join_columns`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation
from flinkpy.datastream import aggregates as functions
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.aggregate_plan import plan_aggregates
from flinkpy.datastream.column_operations import unbounded_source
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.operator_specs import ColumnAggregate, FieldKeySelector
from flinkpy.graph.transformation import OperatorTransformation

if TYPE_CHECKING:
    from flinkpy.datastream.base_stream import DataStream
    from flinkpy.datastream.keyed_stream import KeyedStream

_HOW = ("inner", "left", "semi", "anti")


def aggregate(keyed: KeyedStream, wanted: tuple[ColumnAggregate, ...], emit: str) -> DataStream:
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
        same_keys = {one for one, other in zip(left_keys, right_keys) if one == other}
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
