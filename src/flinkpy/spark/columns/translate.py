"""Translates operators over columns: selections, filters, aggregates, windows, joins and sorting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from flinkpy.connectors.tables.table_source import TableSource
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.operator_specs import ColumnJoinSpec, SortColumnsSpec
from flinkpy.graph.spark_region import SparkNode
from flinkpy.graph.table_specs import SparkQuerySpec
from flinkpy.spark.columns.aggregates import aggregate_all, aggregate_by_key, aggregate_windows, pre_aggregate
from flinkpy.spark.columns.expressions import to_column
from flinkpy.spark.columns.file_sources import check_files, event_time, read_files
from flinkpy.spark.columns.functions import ANYTHING, Anything, F, only_checked
from flinkpy.spark.columns.names import (
    ColumnTypes,
    NotExpressible,
    column,
    column_types,
    field_types,
    name_of,
    without_timestamps,
)
from flinkpy.spark.columns.queries import run_query
from flinkpy.spark.columns.table_sources import check_table, read_table
from flinkpy.spark.stream_frame import TIMESTAMP_COLUMN, Layout, StreamFrame, natural_layout

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from flinkpy.spark.worker_files import WorkerFiles


def translate(
    node: SparkNode, inputs: Sequence[StreamFrame], session: SparkSession, files: WorkerFiles | None = None
) -> StreamFrame | None:
    """Returns the main output of a node as an operation of DataFrames; None if Python workers have to run the node.

    Args:
        inputs: the frames of `node.inputs`. Frames with the same input index are united.
        files: the files of the job in Python workers, for functions of users.

    Raises:
        InputNotFoundError: the files of a source do not exist.
    """
    try:
        return _translated(node, inputs, session, session, {}, files)
    except NotExpressible:
        return None


def _translated(
    node: SparkNode,
    inputs: Sequence[StreamFrame],
    session: SparkSession,
    running: SparkSession | None,
    conf: Mapping[str, str],
    files: WorkerFiles | None = None,
) -> StreamFrame | None:
    """Raises: NotExpressible, InputNotFoundError."""
    spec = _operator_spec(node)
    make = _TRANSLATIONS.get(type(spec))
    if make is None:
        return None
    merged = _by_input_index(node, inputs)
    frame = make(spec, merged, _Place(node, session, running, conf, files))
    output_type = node.spec.output_type or merged[0].type_info
    return StreamFrame(_conformed(frame, output_type), output_type, Layout.COLUMNS)


def _operator_spec(node: SparkNode) -> specs.OperatorSpec:
    # Joins of columns wait for the end of their inputs, as Spark does.
    return node.spec.operator if isinstance(node.spec, specs.BatchSpec) else node.spec


def obstacle_of(
    node: SparkNode, running: SparkSession | None = None, conf: Mapping[str, str] | None = None
) -> str | None:
    """Returns why `translate` cannot translate the node; None if it can.

    Only its spec and input types matter, and nothing is planned, except for tables: Spark is asked if it can read them.

    Args:
        running: the session that will run the node. It is asked for its file systems and its readers of tables.
        conf: Spark's configuration of the job, which tells about readers of tables if no session runs.

    Raises:
        InputNotFoundError: the files of a source do not exist.
    """
    if _calls_function(_operator_spec(node)):
        return "it calls a function of the program"
    inputs = [StreamFrame(ANYTHING, edge.type_info, natural_layout(edge.type_info)) for edge in node.inputs]
    try:
        with only_checked():
            translated = _translated(node, inputs, ANYTHING, running, conf or {})
        if translated is not None:
            return None
    except NotExpressible as reason:
        return f"Spark cannot do it itself: {reason}"
    return "Spark has no such operation over columns"


def is_expressible(node: SparkNode, running: SparkSession | None = None) -> bool:
    """Returns True if `translate` can translate the node. Arguments and errors are those of `obstacle_of`."""
    return obstacle_of(node, running) is None


def _calls_function(spec: specs.OperatorSpec) -> bool:
    return getattr(spec, "function", None) is not None


def _by_input_index(node: SparkNode, inputs: Sequence[StreamFrame]) -> list[StreamFrame]:
    grouped: dict[int, list[StreamFrame]] = {}
    for edge, frame in zip(node.inputs, inputs, strict=True):
        if not frame.is_columnar:
            raise NotExpressible("records without columns")
        grouped.setdefault(edge.input_index, []).append(frame)
    return [union(grouped[index]) for index in sorted(grouped)]


def union(frames: Sequence[StreamFrame]) -> StreamFrame:
    """Returns the union of streams of one type, all in the layout COLUMNS."""
    first = frames[0]
    return StreamFrame(reduce(_union, [each.frame for each in frames]), first.type_info, first.layout)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)


def _conformed(frame: DataFrame, type_info: Any) -> DataFrame:
    """Returns the frame with the column names that the stream declares."""
    names = list(column_types(type_info))
    found = [name for name in frame.columns if name != TIMESTAMP_COLUMN]
    if found == names or isinstance(frame, Anything):
        return frame
    if len(found) != len(names):
        raise NotExpressible(f"columns {found} in place of {names}")
    return frame.select(*[column(one).alias(name) for one, name in zip(found, names)], F.col(TIMESTAMP_COLUMN))


# -- per operator ------------------------------------------------------------------------------------------------------

_Inputs = list[StreamFrame]


@dataclass(frozen=True, slots=True)
class _Place:
    """The sessions for which a node is translated.

    Attributes:
        session: makes the frames; ANYTHING if nothing is planned.
        running: the session that will run the node; None if it is not known.
        conf: Spark's configuration of the job.
        files: the files of the job in Python workers; None for none.
    """

    node: SparkNode
    session: SparkSession
    running: SparkSession | None
    conf: Mapping[str, str]
    files: WorkerFiles | None = None


def _source(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    nothing: Any = at.session
    if isinstance(spec.source, TableSource):
        if isinstance(nothing, Anything):
            check_table(at.running, spec, at.conf)
            return nothing  # type: ignore[return-value]
        return read_table(at.session, spec)
    if isinstance(nothing, Anything):
        check_files(at.running, spec)
        return nothing  # type: ignore[return-value]
    return read_files(at.session, spec)


def _select(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    columns = field_types(inputs[0].type_info)
    frame = inputs[0].frame
    if spec.predicate is not None:
        frame = frame.where(to_column(spec.predicate, columns))
    return frame.select(*[to_column(each, columns) for each in spec.expressions], F.col(TIMESTAMP_COLUMN))


def _filter(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    if spec.expression is None:
        raise NotExpressible("a function")
    return inputs[0].frame.where(to_column(spec.expression, field_types(inputs[0].type_info)))


def _project(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    names = list(column_types(inputs[0].type_info))
    kept = [column(names[position]).alias(f"f{i}") for i, position in enumerate(spec.fields)]
    return inputs[0].frame.select(*kept, F.col(TIMESTAMP_COLUMN))


def _timestamps(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    time = event_time(spec.watermark_strategy, inputs[0].type_info)
    names = column_types(inputs[0].type_info)
    return inputs[0].frame.select(*map(column, names), F.col(TIMESTAMP_COLUMN) if time is None else time)


def _aggregate(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    return aggregate_by_key(inputs[0].frame, column_types(inputs[0].type_info), spec)


def _pre_aggregate(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    return pre_aggregate(inputs[0].frame, column_types(inputs[0].type_info), spec)


def _aggregate_all(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    return aggregate_all(inputs[0].frame, column_types(inputs[0].type_info), spec)


def _windows(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    if spec.late_output_tag is not None:
        raise NotExpressible("a side output")
    return aggregate_windows(inputs[0].frame, column_types(inputs[0].type_info), spec, at.node.name)


def _join(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    left, right = inputs
    return join(left.frame, column_types(left.type_info), right.frame, column_types(right.type_info), spec)


def _sort(spec: Any, inputs: _Inputs, at: _Place) -> DataFrame:
    return sort_columns(inputs[0].frame, column_types(inputs[0].type_info), spec, at.node.parallelism)


_HOW = {"inner": "inner", "left": "left", "semi": "left_semi", "anti": "left_anti"}
#: The prefix of the right side's columns during the join, so that all names differ.
_RIGHT = "__right_"


def join(
    left: DataFrame, left_types: ColumnTypes, right: DataFrame, right_types: ColumnTypes, spec: ColumnJoinSpec
) -> DataFrame:
    """Returns the left columns, then the right ones except for keys of the same name, without timestamps.

    Raises: NotExpressible.
    """
    left_keys = [name_of(left_types, field) for field in spec.key_selectors[0].fields]
    right_keys = [name_of(right_types, field) for field in spec.key_selectors[1].fields]
    for one, other in zip(left_keys, right_keys):
        kinds = left_types[one], right_types[other]
        if kinds[0] != kinds[1] or isinstance(kinds[0], t.FloatType | t.DoubleType):
            # In Spark NaN is equal to itself.
            raise NotExpressible(f"keys of {kinds[0].simpleString()} and {kinds[1].simpleString()}")
    only_left = spec.how in ("semi", "anti")
    same = {other for one, other in zip(left_keys, right_keys) if one == other}
    wanted = [] if only_left else [name for name in right_types if name not in same]
    needed = [name for name in right_types if name in wanted or name in right_keys]
    build = right.select(*[column(name).alias(_RIGHT + name) for name in needed])
    if spec.is_broadcast:
        build = build.hint("broadcast")
    conditions = [column(one) == column(_RIGHT + other) for one, other in zip(left_keys, right_keys)]
    joined = left.join(build, reduce(lambda one, other: one & other, conditions), _HOW[spec.how])
    return joined.select(
        *map(column, left_types), *[column(_RIGHT + name).alias(name) for name in wanted], without_timestamps()
    )


def sort_columns(frame: DataFrame, columns: ColumnTypes, spec: SortColumnsSpec, parallelism: int) -> DataFrame:
    """Returns all records in order, or the first ones. In both engines NaN is the largest number and null the smallest.

    Raises: NotExpressible.
    """
    records = frame.select(*map(column, columns), without_timestamps())
    if parallelism != 1:
        if spec.limit is None:
            raise NotExpressible("an order for each of several subtasks")
        # The subtasks would drop records that cannot be among the first ones. Spark does so itself.
        return records
    if spec.keys:
        records = records.orderBy(*[_order(columns, *key) for key in spec.keys])
    return records if spec.limit is None else records.limit(spec.limit)


def _order(columns: ColumnTypes, field: str, direction: str) -> Column:
    name = name_of(columns, field)
    return column(name).asc_nulls_first() if direction == "ascending" else column(name).desc_nulls_last()


def _query(spec: SparkQuerySpec, inputs: _Inputs, at: _Place) -> DataFrame:
    session: Any = at.session
    if isinstance(session, Anything):
        return session  # type: ignore[return-value]
    return run_query(at.session, spec, inputs, str(at.node.id), at.files)


_TRANSLATIONS: dict[type[specs.OperatorSpec], Callable[[Any, _Inputs, _Place], DataFrame]] = {
    specs.SourceSpec: _source,
    specs.SelectSpec: _select,
    specs.FilterBatchesSpec: _filter,
    specs.ProjectSpec: _project,
    specs.TimestampsAndWatermarksSpec: _timestamps,
    specs.ColumnAggregateSpec: _aggregate,
    specs.PreAggregateSpec: _pre_aggregate,
    specs.GlobalColumnAggregateSpec: _aggregate_all,
    specs.WindowAggregateSpec: _windows,
    specs.ColumnJoinSpec: _join,
    specs.SortColumnsSpec: _sort,
    SparkQuerySpec: _query,
}
