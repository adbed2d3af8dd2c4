"""PhysicalBuilder: chooses the operators for a logical plan and inserts exchanges between them.

It also decides where time attributes become regular timestamps: in calls of functions, before regular joins and before
aggregations.

Source: org.apache.flink.table.planner.plan.rules.physical.stream, RelTimeIndicatorConverter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatchmethod

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError, ValidationError
from flinkpy.configuration import read_option
from flinkpy.configuration.table_options import (
    ASYNC_LOOKUP_BUFFER_CAPACITY,
    ASYNC_LOOKUP_OUTPUT_MODE,
    ASYNC_LOOKUP_TIMEOUT,
)
from flinkpy.graph.table_specs import AsyncLookupOptions, JoinType, MultiJoinStep
from flinkpy.sql.rex import AggregateCall, FieldAccess, InputRef, Literal, RexCall, RexNode, rewrite, walk
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import is_proctime, is_rowtime, is_time_attribute
from flinkpy.table.connectors.table_source import LookupTableSource, ScanTableSource
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.binder.hints import LEFT, RIGHT
from flinkpy.table.planner.changelog.keys import smallest, unique_keys, upsert_keys
from flinkpy.table.planner.changelog.modes import UpdateKind, update_kind_of
from flinkpy.table.planner.context import PlannerContext
from flinkpy.table.planner.hints import LookupHint, duration_ms
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OuterRef
from flinkpy.table.planner.logical.time import as_regular, is_source_watermark
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.accumulators import accumulator_fields, local_window_type
from flinkpy.table.planner.physical.async_calls import split_async_calls
from flinkpy.table.planner.physical.emit_strategy import NO_EMIT, EmitStrategy, check_no_emit, emit_strategy
from flinkpy.table.planner.physical.interval_joins import IntervalBounds, interval_bounds
from flinkpy.table.planner.physical.match_orders import check_match_order
from flinkpy.table.planner.physical.multi_joins import JoinChain, join_chain
from flinkpy.table.planner.physical.temporal_joins import check_version_keys, versions_time
from flinkpy.table.planner.rules.expressions import is_inlinable, substituted
from flinkpy.table.planner.rules.grouping_sets import column_of
from flinkpy.table.planner.rules.windows import WindowJoinColumns, equal_columns, window_join, window_properties

#: The rows of the input of a query without inputs.
_NO_ROWS = rel.row_of(("start",), (lt.BooleanType(),))


class PhysicalBuilder:
    """Builds the physical plan of one or more queries. A logical node that is used twice becomes one physical node."""

    def __init__(self, context: PlannerContext) -> None:
        self._context = context
        self._built: dict[int, tuple[rel.RelNode, ph.PhysicalNode]] = {}

    def build(self, node: rel.RelNode) -> ph.PhysicalNode:
        """Returns the physical node. Raises: TableProgramError for what streams cannot compute."""
        known = self._built.get(id(node))
        if known is None:
            known = (node, self._build(node))
            self._built[id(node)] = known
        return known[1]

    @singledispatchmethod
    def _build(self, node: rel.RelNode) -> ph.PhysicalNode:
        raise UnsupportedOperationError(f"{type(node).__name__} is not supported in a plan yet")

    # -- sources -----------------------------------------------------------------------------------------------------

    @_build.register
    def _(self, node: rel.Scan) -> ph.PhysicalNode:
        name = node.table.identifier.as_summary_string()
        if not isinstance(node.source, ScanTableSource):
            raise TableProgramError(
                f"The source of table '{name}' can only be used in lookup joins (FOR SYSTEM_TIME AS OF)."
            )
        scan = ph.TableSourceScan(
            [], node.row_type, node.table, node.source, node.pushed, node.abilities, node.watermarks
        )
        if update_kind_of(node.source.changelog_mode) is not UpdateKind.ONLY_UPDATE_AFTER:
            return scan
        keys = smallest(unique_keys(scan))
        if keys is None:
            raise TableProgramError(
                f"Table '{name}' produces a changelog stream contains UPDATE_AFTER, no UPDATE_BEFORE. This requires to "
                "define primary key constraint on the table."
            )
        return ph.ChangelogNormalize([self._exchange(scan, keys)], node.row_type, keys)

    @_build.register
    def _(self, node: rel.Values) -> ph.PhysicalNode:
        return ph.Values([], node.row_type, node.rows)

    @_build.register
    def _(self, node: rel.EngineQuery) -> ph.PhysicalNode:
        below = [self.build(each) for each in node.parts] or [ph.Values([], _NO_ROWS, ())]
        parts = (node.query, node.tables, node.files, node.functions, node.scans, node.is_ordered)
        return ph.EngineQuery(below, node.row_type, node.engine, *parts)

    @_build.register
    def _(self, node: rel.WatermarkAssigner) -> ph.PhysicalNode:
        below = self.build(node.input)
        if is_source_watermark(node.watermark) and self._context.is_streaming:
            raise TableProgramError(
                f"The watermark of column '{node.names[node.rowtime]}' is SOURCE_WATERMARK(), but the source of the "
                "table has no watermarks of its own, or the column is computed. Declare a watermark such as "
                f"{node.names[node.rowtime]} - INTERVAL '5' SECOND."
            )
        if node.params.alignment is not None and self._context.is_streaming:
            scans = [each.table.identifier for each in rel.walk(node) if isinstance(each, rel.Scan)]
            raise TableProgramError(
                f"Table '{scans[0].as_summary_string()}' has options 'scan.watermark.alignment.*', but its source "
                "makes no watermarks. They need a connector such as kafka, one of its columns as event time, and "
                "'scan.watermark.emit.strategy' = 'on-periodic'."
            )
        return ph.WatermarkAssigner([below], node.row_type, node.rowtime, node.watermark, node.params)

    # -- Calc --------------------------------------------------------------------------------------------------------

    @_build.register
    def _(self, node: rel.Project) -> ph.PhysicalNode:
        if isinstance(node.input, rel.Filter):
            below = self.build(node.input.input)
            return self._calc(below, node.expressions, node.names, node.input.condition)
        return self._calc(self.build(node.input), node.expressions, node.names, None)

    @_build.register
    def _(self, node: rel.Filter) -> ph.PhysicalNode:
        below = self.build(node.input)
        return self._calc(below, node.references(), below.names, node.condition)

    def _calc(
        self,
        below: ph.PhysicalNode,
        expressions: tuple[RexNode, ...],
        names: tuple[str, ...],
        condition: RexNode | None,
    ) -> ph.PhysicalNode:
        """Returns a Calc; the input itself if it would change nothing, and one Calc for two where possible."""
        expressions = tuple(self._regular_calls(_retyped(each, below)) for each in expressions)
        condition = None if condition is None else self._regular_calls(_retyped(condition, below))
        if condition is None and expressions == _references(below):
            return below
        if isinstance(below, ph.Calc) and is_inlinable(below.projection):
            expressions = tuple(substituted(each, below.projection) for each in expressions)
            parts = operators.conjuncts(below.condition)
            if condition is not None:
                parts += operators.conjuncts(substituted(condition, below.projection))
            condition = operators.and_(parts) if parts else None
            below = below.input
        split = split_async_calls(below, expressions, condition)
        if split is not None:
            asynchronous, expressions, condition = split
            return self._calc(asynchronous, expressions, names, condition)
        row_type = rel.row_of(names, tuple(each.type for each in expressions))
        return ph.Calc([below], row_type, expressions, condition)

    def _regular_calls(self, node: RexNode) -> RexNode:
        """Returns the expression with time attributes cast to regular timestamps inside of calls."""
        if isinstance(node, (InputRef, Literal, FieldAccess)):
            return node
        if isinstance(node, RexCall) and node.function == "CAST" and _is_attribute(node.arguments[0]):
            return node
        operands = tuple(
            _cast_attribute(each) if _is_attribute(each) else self._regular_calls(each) for each in node.operands
        )
        if all(new is old for new, old in zip(operands, node.operands, strict=True)):
            return node
        return node.with_operands(operands)

    def _materialised(self, below: ph.PhysicalNode, columns: set[int] | None = None) -> ph.PhysicalNode:
        """Returns the node with time attributes (of the columns, or all) as regular timestamps."""
        expressions = tuple(
            _cast_attribute(each) if _is_attribute(each) and (columns is None or place in columns) else each
            for place, each in enumerate(_references(below))
        )
        return self._calc(below, expressions, below.names, None)

    def _exchange(self, below: ph.PhysicalNode, keys: tuple[int, ...]) -> ph.PhysicalNode:
        return ph.Exchange([below], below.row_type, keys)

    # -- aggregations ------------------------------------------------------------------------------------------------

    @_build.register
    def _(self, node: rel.Aggregate) -> ph.PhysicalNode:
        below = self._materialised(self.build(node.input))
        row_type = _aggregate_type(below, node.grouping, node.aggregates)
        return ph.GroupAggregate(
            [self._exchange(below, node.grouping)],
            row_type,
            node.grouping,
            node.aggregates,
            state_ttl_ms=node.state_ttl_ms,
            partial_final=node.partial_final,
        )

    @_build.register
    def _(self, node: rel.TableAggregate) -> ph.PhysicalNode:
        below = self._materialised(self.build(node.input))
        row_type = rel.table_aggregate_type(below.row_type, node.grouping, node.rows)
        return ph.GroupTableAggregate([self._exchange(below, node.grouping)], row_type, node.grouping, (node.call,))

    @_build.register
    def _(self, node: rel.Expand) -> ph.PhysicalNode:
        below = self._materialised(self.build(node.input), _changed_columns(node))
        projections = tuple(tuple(_retyped(each, below) for each in row) for row in node.projections)
        types = [
            each.type if isinstance(node.projections[0][place], Literal) or place >= len(below.names) else known.type
            for place, (each, known) in enumerate(
                zip(
                    node.row_type.fields,
                    (*below.row_type.fields, *node.row_type.fields[len(below.names) :]),
                    strict=True,
                )
            )
        ]
        types = [
            kind.as_nullable(kind.nullable or field.type.nullable)
            for kind, field in zip(types, node.row_type.fields, strict=True)
        ]
        return ph.Expand([below], rel.row_of(node.names, tuple(types)), projections)

    @_build.register
    def _(self, node: rel.WindowAggregate) -> ph.PhysicalNode:
        if self._context.is_streaming:
            check_no_emit(self._context.configuration)
        kept = set() if node.time_column is None else {node.time_column}
        below = self.build(node.input)
        below = self._materialised(below, set(range(len(below.names))) - kept)
        is_event_time = not is_proctime(node.time_type)
        if node.window.kind == "SESSION" and node.bounds is not None:
            return self._sessions_of_input(node, node.bounds, below)
        rest = (node.window, node.time_column, node.bounds, is_event_time, node.properties)
        fields = [accumulator_fields(call, below.row_type, place) for place, call in _numbered(node.aggregates)]
        in_two_phases = is_event_time and node.window.kind != "SESSION" and all(each is not None for each in fields)
        if not in_two_phases:
            keys = tuple(dict.fromkeys((*node.window.partition, *node.grouping)))
            exchange = self._exchange(below, keys)
            return ph.WindowAggregate([exchange], node.row_type, node.grouping, node.aggregates, *rest)
        columns = [each for each in fields if each is not None]
        accumulators = tuple(tuple(name for name, _ in each) for each in columns)
        local_type = local_window_type(below.row_type, node.grouping, node.aggregates)
        local = ph.LocalWindowAggregate([below], local_type, node.grouping, node.aggregates, *rest, accumulators)
        keys = tuple(range(len(node.grouping)))
        return ph.GlobalWindowAggregate(
            [self._exchange(local, keys)], node.row_type, keys, node.aggregates, *rest, accumulators, below.row_type
        )

    def _sessions_of_input(
        self, node: rel.WindowAggregate, bounds: tuple[int, int], below: ph.PhysicalNode
    ) -> ph.PhysicalNode:
        """Returns the aggregate of sessions whose bounds the input has. Their start is a key, as ends may be equal."""
        keys = (*node.grouping, bounds[0])
        fields, first = node.row_type.fields, len(node.grouping)
        ends = tuple(each for each in node.properties if each != "window_start")
        start = below.row_type.fields[bounds[0]]
        place = {name: first + len(node.aggregates) + at for at, name in enumerate(node.properties)}
        kept = [*fields[first : first + len(node.aggregates)], *(fields[place[each]] for each in ends)]
        names = (*(each.name for each in fields[:first]), start.name, *(each.name for each in kept))
        types = (*(each.type for each in fields[:first]), start.type, *(each.type for each in kept))
        aggregate = ph.WindowAggregate(
            [self._exchange(below, keys)],
            rel.row_of(names, types),
            keys,
            node.aggregates,
            node.window,
            None,
            bounds,
            not is_proctime(node.time_type),
            ends,
        )
        made = _references(aggregate)
        columns = [*made[:first], *made[first + 1 : first + 1 + len(node.aggregates)]]
        after = first + 1 + len(node.aggregates)
        columns += [
            made[first] if each == "window_start" else made[after + ends.index(each)] for each in node.properties
        ]
        return self._calc(aggregate, tuple(columns), node.names, None)

    @_build.register
    def _(self, node: rel.WindowTableFunction) -> ph.PhysicalNode:
        below = self.build(node.input)
        is_event_time = not is_proctime(node.input.type_of(node.time_column))
        if node.window.kind == "SESSION":
            below = self._exchange(below, node.window.partition)
        return ph.WindowTableFunction([below], node.row_type, node.window, node.time_column, is_event_time)

    @_build.register
    def _(self, node: rel.GroupWindowAggregate) -> ph.PhysicalNode:
        below = self.build(node.input)
        is_event_time = not is_proctime(below.row_type.fields[node.time_column].type)
        below = self._materialised(below, set(range(len(below.names))) - {node.time_column})
        return ph.GroupWindowAggregate(
            [self._exchange(below, node.grouping)],
            node.row_type,
            node.grouping,
            node.aggregates,
            node.window,
            node.time_column,
            is_event_time,
            tuple(name for name, _ in node.properties),
            emit=self._emit_strategy(node.window.kind, is_event_time),
        )

    def _emit_strategy(self, kind: str, is_event_time: bool) -> EmitStrategy:
        if not self._context.is_streaming:
            return NO_EMIT
        return emit_strategy(self._context.configuration, kind, is_event_time)

    @_build.register
    def _(self, node: rel.OverAggregate) -> ph.PhysicalNode:
        below = self.build(node.input)
        partitions = {group.partition for group in node.groups}
        if len(partitions) > 1:
            raise TableProgramError("All aggregates must be computed on the same window.")
        if self._context.is_streaming:
            _check_over(node, below)
        exchange = self._exchange(below, next(iter(partitions)))
        return ph.OverAggregate([exchange], _with_attributes(node.row_type, below), node.groups)

    # -- joins -------------------------------------------------------------------------------------------------------

    @_build.register
    def _(self, node: rel.Join) -> ph.PhysicalNode:
        if isinstance(node.right, rel.Snapshot):
            return self._snapshot_join(node, node.right)
        chain = join_chain(node)
        if chain is not None:
            return self._multi_join(chain, node.names)
        windows = window_join(node)
        left, right = self.build(node.left), self.build(node.right)
        if windows is not None:
            return self._window_join(node, left, right, windows)
        bounds = interval_bounds(node)
        if bounds is not None:
            return self._interval_join(node, left, right, bounds)
        keys, rest = _join_keys(operators.conjuncts(node.condition), node.left.width)
        left, right = self._materialised(left), self._materialised(right)
        joined = rel.join_row_type(left.row_type, right.row_type, JoinType.INNER)
        condition = _retyped_by(node.condition, joined)
        left_keys, right_keys, filters = _split_keys(keys)
        # A unique key that an exchange below has spread does not identify the row that a change belongs to.
        left_unique, right_unique = upsert_keys(left), upsert_keys(right)
        left_in_key = [key for key in left_unique if key <= set(left_keys)]
        right_in_key = [key for key in right_unique if key <= set(right_keys)]
        ttl = _state_ttl(node)
        return ph.Join(
            [self._exchange(left, left_keys), self._exchange(right, right_keys)],
            rel.join_row_type(left.row_type, right.row_type, node.join_type),
            node.join_type,
            left_keys,
            right_keys,
            filters,
            condition,
            operators.and_([_retyped_by(each, joined) for each in rest]) if rest else None,
            smallest(frozenset(left_in_key) or left_unique),
            smallest(frozenset(right_in_key) or right_unique),
            bool(left_in_key),
            bool(right_in_key),
            *ttl,
        )

    def _multi_join(self, chain: JoinChain, names: tuple[str, ...]) -> ph.PhysicalNode:
        inputs = [self._materialised(self.build(each)) for each in chain.inputs]
        keys = chain.keys()
        row_type = inputs[0].row_type
        conditions: list[RexNode] = []
        steps: list[MultiJoinStep] = []
        for number, below in enumerate(inputs[1:], 1):
            joined = rel.join_row_type(row_type, below.row_type, JoinType.INNER)
            step = chain.step(number, keys)
            conditions.append(_retyped_by(chain.conditions[number - 1], joined))
            rest = None if step.condition is None else _retyped_by(step.condition, joined)
            steps.append(replace(step, condition=rest))
            row_type = rel.join_row_type(row_type, below.row_type, step.join_type)
        made = ph.MultiJoin(
            [self._exchange(below, key) for below, key in zip(inputs, keys, strict=True)],
            row_type,
            keys,
            tuple(steps),
            tuple(conditions),
            tuple(smallest(unique_keys(each)) for each in inputs),
            tuple(smallest(upsert_keys(each)) for each in inputs),
            chain.ttls,
        )
        references = _references(made)
        return self._calc(made, tuple(references[each] for each in chain.columns), names, None)

    def _window_join(
        self, node: rel.Join, left: ph.PhysicalNode, right: ph.PhysicalNode, found: WindowJoinColumns
    ) -> ph.PhysicalNode:
        keys, rest = _join_keys(found.rest, node.left.width)
        if found.left.window.kind == "SESSION":
            # Sessions that end at one time may have begun at different ones.
            keys.append((found.left_bounds[0], found.right_bounds[0], True))
        left_keys, right_keys, filters = _split_keys(keys)
        return ph.WindowJoin(
            [self._exchange(left, left_keys), self._exchange(right, right_keys)],
            rel.join_row_type(left.row_type, right.row_type, node.join_type),
            node.join_type,
            left_keys,
            right_keys,
            filters,
            operators.and_(list(found.rest)),
            operators.and_(rest) if rest else None,
            found.left.window,
            found.right.window,
            found.left_bounds,
            found.right_bounds,
            not is_proctime(found.left.time_type),
        )

    def _interval_join(
        self, node: rel.Join, left: ph.PhysicalNode, right: ph.PhysicalNode, bounds: IntervalBounds
    ) -> ph.PhysicalNode:
        keys, rest = _join_keys(bounds.rest, node.left.width)
        left_keys, right_keys, filters = _split_keys(keys)
        joined = rel.join_row_type(left.row_type, right.row_type, JoinType.INNER)
        return ph.IntervalJoin(
            [self._exchange(left, left_keys), self._exchange(right, right_keys)],
            rel.join_row_type(left.row_type, right.row_type, node.join_type),
            node.join_type,
            left_keys,
            right_keys,
            filters,
            node.condition,
            operators.and_([self._regular_calls(_retyped_by(each, joined)) for each in rest]) if rest else None,
            is_rowtime(left.row_type.fields[bounds.left_time].type),
            bounds.lower_ms,
            bounds.upper_ms,
            bounds.left_time,
            bounds.right_time,
        )

    def _snapshot_join(self, node: rel.Join, snapshot: rel.Snapshot) -> ph.PhysicalNode:
        period = snapshot.period
        if not isinstance(period, OuterRef) or not is_time_attribute(period.type):
            raise ValidationError(
                "Temporal table join currently only supports 'FOR SYSTEM_TIME AS OF' left table's time attribute field"
            )
        if node.join_type not in (JoinType.INNER, JoinType.LEFT):
            raise TableProgramError(
                "Temporal table join currently only support INNER JOIN and LEFT JOIN, but was "
                f"{node.join_type.name} JOIN."
            )
        left = self.build(node.left)
        if is_rowtime(period.type) or snapshot.key is not None:
            return self._temporal_join(node, left, snapshot, period)
        scan, projection, condition = _lookup_table(snapshot.input)
        if scan is not None and isinstance(scan.source, LookupTableSource):
            return self._lookup_join(node, left, scan, projection, condition)
        name = "" if scan is None else f" Table '{scan.table.identifier.as_summary_string()}' cannot be looked up."
        raise TableProgramError(
            f"Processing-time temporal join is not supported yet.{name} Use a table whose connector has lookups, or "
            "join by event time."
        )

    def _temporal_join(
        self, node: rel.Join, left: ph.PhysicalNode, snapshot: rel.Snapshot, period: OuterRef
    ) -> ph.PhysicalNode:
        right = self.build(snapshot.input)
        is_event_time = is_rowtime(period.type)
        times = (period.index, versions_time(left, right, period.index)) if is_event_time else (-1, -1)
        keys, rest = _join_keys(operators.conjuncts(node.condition), node.left.width)
        check_version_keys(left, right, [(a, b) for a, b, _ in keys], snapshot.key)
        left_keys, right_keys, _ = _split_keys(keys)
        joined = rel.join_row_type(left.row_type, right.row_type, JoinType.INNER)
        return ph.TemporalJoin(
            [self._exchange(left, left_keys), self._exchange(right, right_keys)],
            rel.join_row_type(left.row_type, right.row_type, node.join_type),
            node.join_type,
            left_keys,
            right_keys,
            # Flink finds the version of a NULL key for a NULL key, though `=` is unknown for them.
            (False,) * len(keys),
            node.condition,
            operators.and_([self._regular_calls(_retyped_by(each, joined)) for each in rest]) if rest else None,
            *times,
            is_event_time,
        )

    def _lookup_join(
        self,
        node: rel.Join,
        left: ph.PhysicalNode,
        scan: rel.Scan,
        projection: tuple[RexNode, ...],
        condition: RexNode | None,
    ) -> ph.PhysicalNode:
        width = node.left.width
        keys: list[tuple[int, RexNode]] = []
        rest: list[RexNode] = []
        for each in operators.conjuncts(node.condition):
            pair = equal_columns(each, width)
            column = None if pair is None else projection[pair[1]]
            if pair is not None and isinstance(column, InputRef):
                keys.append((column.index, InputRef(left.row_type.fields[pair[0]].type, pair[0])))
            else:
                rest.append(each)
        remaining: list[RexNode] = []
        for each in operators.conjuncts(condition):
            constant = _constant_key(each)
            if constant is not None:
                keys.append(constant)
            else:
                remaining.append(each)
        if not keys:
            raise TableProgramError(
                f"Temporal table join requires an equality condition on fields of table "
                f"[{scan.table.identifier.as_summary_string()}]."
            )
        nullable = node.join_type is JoinType.LEFT
        # The operator emits the whole row of the table; a Calc above it takes what the query needs.
        looked_up = rel.join_row_type(left.row_type, scan.row_type, node.join_type)
        hints = [options for name, options in node.hints if name == "LOOKUP"]
        hint = LookupHint.of(hints[-1]) if hints else LookupHint()
        columns_of_keys = tuple(value.index for _, value in keys if isinstance(value, InputRef))
        lookup = ph.LookupJoin(
            [self._exchange(left, columns_of_keys) if hint.shuffle and columns_of_keys else left],
            looked_up,
            scan.table,
            scan.source,
            node.join_type,
            tuple(keys),
            scan.row_type,
            operators.and_(remaining) if remaining else None,
            _over_lookup(rest, width, projection),
            self._async_options(hint, scan.source, tuple(column for column, _ in keys)),
            hint.retry,
            hint.shuffle,
        )
        references = list(_references(lookup))
        columns = references[:width]
        for each in projection:
            moved = rewrite(
                each,
                lambda ref: (
                    InputRef(ref.type.as_nullable(ref.type.nullable or nullable), ref.index + width)
                    if isinstance(ref, InputRef)
                    else None
                ),
            )
            columns.append(moved)
        return self._calc(lookup, tuple(columns), node.names, None)

    def _async_options(
        self, hint: LookupHint, source: LookupTableSource, columns: tuple[int, ...]
    ) -> AsyncLookupOptions | None:
        """Returns how rows are looked up side by side; None if they are not."""
        if hint.is_async is False or source.async_lookup_function(columns) is None:
            return None
        configuration = self._context.configuration
        ordered = read_option(configuration, ASYNC_LOOKUP_OUTPUT_MODE) == "ORDERED"
        return AsyncLookupOptions(
            ordered if hint.is_ordered is None else hint.is_ordered,
            hint.capacity or read_option(configuration, ASYNC_LOOKUP_BUFFER_CAPACITY),
            hint.timeout_ms or read_option(configuration, ASYNC_LOOKUP_TIMEOUT),
        )

    @_build.register
    def _(self, node: rel.Correlate) -> ph.PhysicalNode:
        below = self.build(node.input)
        row_type = rel.join_row_type(below.row_type, node.function_type, node.join_type)
        call = self._regular_calls(_retyped(node.call, below))
        kind = _FUNCTION_CALLS.get(type(node), ph.Correlate)
        return kind([below], row_type, call, node.join_type, node.function_type, node.condition)

    @_build.register
    def _(self, node: rel.ProcessTableFunction) -> ph.PhysicalNode:
        below = self.build(node.input)
        kind = ph.RowLevelChange if isinstance(node, rel.RowLevelChange) else ph.ProcessTableFunction
        return kind([below], node.row_type, node.function, node.invocation, node.takes_changes, node.emits_changes)

    # -- ranks, order, sets ------------------------------------------------------------------------------------------

    @_build.register
    def _(self, node: rel.Rank) -> ph.PhysicalNode:
        below = self.build(node.input)
        found = window_properties(node.input)
        if found is not None and node.end is not None:
            starts, ends = found.starts & set(node.partition), found.ends & set(node.partition)
            if starts and ends:
                bounds = (min(starts), min(ends))
                keys = tuple(each for each in node.partition if each not in found.starts | found.ends | found.times)
                if is_proctime(found.time_type):
                    by_time = is_time_attribute(below.row_type.fields[node.order[0].column].type)
                    kind = "Deduplication" if by_time and node.end == 1 and node.rank_name is None else "TopN"
                    raise TableProgramError(f"Processing time Window {kind} is not supported yet.")
                return self._window_rank(node, below, found.window, bounds, keys)
        if self._context.is_streaming and node.function != "ROW_NUMBER":
            raise TableProgramError(f"{node.function}() on streaming table is not supported currently")
        row_type = below.row_type
        if node.rank_name is not None:
            names = rel.unique_names((*below.names, node.rank_name))
            row_type = rel.row_of(names, (*(each.type for each in below.row_type.fields), node.rank_type))
        return ph.Rank(
            [self._exchange(below, node.partition)],
            row_type,
            node.function,
            node.partition,
            node.order,
            node.start,
            node.end,
            node.end_column,
            node.rank_name is not None,
        )

    def _window_rank(
        self,
        node: rel.Rank,
        below: ph.PhysicalNode,
        window: rel.Window,
        bounds: tuple[int, int],
        keys: tuple[int, ...],
    ) -> ph.PhysicalNode:
        if node.function != "ROW_NUMBER":
            raise TableProgramError(
                f"{node.function}() function is not supported on Window TopN currently, only ROW_NUMBER() is supported."
            )
        exchange = self._exchange(below, keys)
        assert node.end is not None
        by_rowtime = len(node.order) == 1 and is_rowtime(below.row_type.fields[node.order[0].column].type)
        if by_rowtime and node.end == 1 and node.rank_name is None:
            order = node.order[0]
            return ph.WindowDeduplicate(
                [exchange], below.row_type, window, bounds, keys, order.column, not order.ascending
            )
        row_type = below.row_type if node.rank_name is None else node.row_type
        return ph.WindowRank(
            [exchange],
            row_type,
            window,
            bounds,
            node.function,
            keys,
            node.order,
            node.start,
            node.end,
            node.rank_name is not None,
        )

    @_build.register
    def _(self, node: rel.Sort) -> ph.PhysicalNode:
        below = self._exchange(self.build(node.input), ())
        if node.order and node.limit is not None:
            return ph.SortLimit([below], below.row_type, node.order, node.offset, node.limit)
        if not node.order:
            return ph.Limit([below], below.row_type, node.offset, node.limit)
        first = below.row_type.fields[node.order[0].column].type
        if self._context.is_streaming:
            if not is_time_attribute(first) or node.offset:
                raise TableProgramError(
                    "Sort on a non-time-attribute field is not supported. In streaming mode ORDER BY must begin with "
                    "an ascending time attribute, or have a LIMIT."
                )
            if not node.order[0].ascending:
                raise TableProgramError(
                    "Sort: Primary sort order of a streaming table must be ascending on time. Order by "
                    f"{below.names[node.order[0].column]} ASC, or add a LIMIT."
                )
            return ph.TemporalSort([below], below.row_type, node.order, is_rowtime(first))
        sort = ph.Sort([below], below.row_type, node.order)
        if not node.offset:
            return sort
        return ph.Limit([self._exchange(sort, ())], sort.row_type, node.offset, None)

    @_build.register
    def _(self, node: rel.Match) -> ph.PhysicalNode:
        below = self.build(node.input)
        is_streaming = self._context.is_streaming
        check_match_order(node.order, below.row_type, is_streaming=is_streaming)
        is_event_time = not is_streaming or is_rowtime(below.row_type.fields[node.order[0].column].type)
        row_type = rel.row_of(
            node.names,
            (
                *(as_regular(below.row_type.fields[each].type) for each in node.partition),
                *(value.type for _, value in node.measures),
            ),
        )
        exchange = self._exchange(below, node.partition)
        rest = (node.partition, node.order, node.pattern, node.definitions, node.measures, is_event_time)
        return ph.Match([exchange], row_type, *rest)

    @_build.register
    def _(self, node: rel.SetOperation) -> ph.PhysicalNode:
        if node.kind != "UNION" or not node.all:
            raise UnsupportedOperationError(f"{node.kind}{' ALL' if node.all else ''} is not supported yet")
        parts = [self.build(each) for each in node.parts]
        types = {tuple(field.type.as_nullable() for field in each.row_type.fields) for each in parts}
        if len(types) > 1:
            parts = [self._materialised(each) for each in parts]
        fields = tuple(
            replace(each, type=each.type.as_nullable(any(part.row_type.fields[place].type.nullable for part in parts)))
            for place, each in enumerate(parts[0].row_type.fields)
        )
        return ph.Union(parts, lt.RowType(fields, nullable=False))

    @_build.register
    def _(self, node: rel.ReplicateRows) -> ph.PhysicalNode:
        return ph.ReplicateRows([self.build(node.input)], node.row_type)

    @_build.register
    def _(self, node: rel.Sink) -> ph.PhysicalNode:
        below = self.build(node.input)
        proctimes = {place for place, each in enumerate(below.row_type.fields) if is_proctime(each.type)}
        below = self._materialised(below, proctimes)
        return ph.Sink(
            [below],
            below.row_type,
            node.table,
            node.sink,
            node.name,
            node.primary_key,
            False,
            node.on_conflict,
            node.sink_type if node.sink_type.fields else None,
            node.abilities,
        )


# -- expressions and types -------------------------------------------------------------------------------------------


def _references(node: ph.PhysicalNode) -> tuple[RexNode, ...]:
    return tuple(InputRef(each.type, place) for place, each in enumerate(node.row_type.fields))


def _changed_columns(node: rel.Expand) -> set[int]:
    """Returns the columns that an Expand does not pass on in each projection."""
    return {place for place in range(node.input.width) if column_of(node, place) is None}


def _check_over(node: rel.OverAggregate, below: ph.PhysicalNode) -> None:
    """Raises: TableProgramError for OVER in the order of time that streams cannot compute."""
    for group in node.groups:
        if not group.order or not is_time_attribute(below.row_type.fields[group.order[0].column].type):
            continue
        if len(group.order) > 1:
            raise TableProgramError("The window can only be ordered by a single time column.")
        if not group.order[0].ascending:
            raise TableProgramError("The window can only be ordered in ASCENDING mode.")
        if any(each.order != group.order for each in node.groups):
            raise TableProgramError("All aggregates must be computed on the same window.")
        for call in group.aggregates:
            if call.function in _NOT_IN_STREAMS:
                raise TableProgramError(f"{call.function} Function is not supported in stream mode.")
        if group.upper != 0:
            raise TableProgramError("OVER RANGE FOLLOWING windows are not supported yet.")


#: Functions of OVER that need rows after the current one.
_NOT_IN_STREAMS = frozenset({"LEAD", "NTILE", "CUME_DIST", "PERCENT_RANK"})


def _retyped(node: RexNode, below: ph.PhysicalNode) -> RexNode:
    return _retyped_by(node, below.row_type)


def _retyped_by(node: RexNode, row_type: lt.RowType) -> RexNode:
    """Returns the expression whose columns have the types of the rows, time attributes included."""

    def change(each: RexNode) -> RexNode | None:
        return InputRef(row_type.fields[each.index].type, each.index) if isinstance(each, InputRef) else None

    return rewrite(node, change)


def _is_attribute(node: RexNode) -> bool:
    return is_time_attribute(node.type) and not (isinstance(node, RexCall) and node.function == "PROCTIME")


def _cast_attribute(node: RexNode) -> RexNode:
    name = "PROCTIME_MATERIALIZE" if is_proctime(node.type) else "CAST"
    return RexCall(as_regular(node.type), name, (node,))


def _aggregate_type(
    below: ph.PhysicalNode, grouping: tuple[int, ...], aggregates: tuple[AggregateCall, ...]
) -> lt.RowType:
    fields = below.row_type.fields
    names = [fields[place].name for place in grouping] + [each.name for each in aggregates]
    types = [fields[place].type for place in grouping] + [each.type for each in aggregates]
    return rel.row_of(tuple(names), tuple(types))


def _with_attributes(row_type: lt.RowType, below: ph.PhysicalNode) -> lt.RowType:
    """Returns the row type whose first columns have the types of the input."""
    types = [each.type for each in below.row_type.fields]
    types += [each.type for each in row_type.fields[len(types) :]]
    return rel.row_of((*below.names, *row_type.names[len(below.names) :]), tuple(types))


def _numbered(calls: tuple[AggregateCall, ...]) -> list[tuple[int, AggregateCall]]:
    """Returns the calls with the number of their first accumulator."""
    result, place = [], 0
    for call in calls:
        result.append((place, call))
        place += 2 if call.function == "AVG" else 1
    return result


def _join_keys(conditions: Iterable[RexNode], width: int) -> tuple[list[tuple[int, int, bool]], list[RexNode]]:
    """Returns the key columns of both sides, whether NULL joins nothing, and the rest of the conditions.

    Args:
        width: the number of columns of the left input.
    """
    keys, rest = [], []
    for each in conditions:
        pair = equal_columns(each, width)
        if pair is None:
            rest.append(each)
        else:
            assert isinstance(each, RexCall)
            keys.append((*pair, each.function == "="))
    return keys, rest


def _split_keys(
    keys: list[tuple[int, int, bool]],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...]]:
    return tuple(a for a, _, _ in keys), tuple(b for _, b, _ in keys), tuple(each for _, _, each in keys)


def _state_ttl(node: rel.Join) -> tuple[int | None, int | None]:
    """Returns the time-to-live of both sides as STATE_TTL hints say it."""
    options = [option for name, options in node.hints if name == "STATE_TTL" for option in options]
    by_side = {side: duration_ms(value) for side, value in options}
    return by_side.get(LEFT), by_side.get(RIGHT)


#: The nodes of function calls that are no Correlate in plans.
_FUNCTION_CALLS: dict[type[rel.RelNode], type[ph.Correlate]] = {
    rel.MLPredict: ph.MLPredictTableFunction,
    rel.VectorSearch: ph.VectorSearchTableFunction,
}


def _lookup_table(node: rel.RelNode) -> tuple[rel.Scan | None, tuple[RexNode, ...], RexNode | None]:
    """Returns the scan below projections and filters, with their expressions over its columns; None for others."""
    if isinstance(node, rel.Scan):
        return node, node.references(), None
    if isinstance(node, rel.WatermarkAssigner):
        return _lookup_table(node.input)
    if isinstance(node, rel.Project):
        scan, projection, condition = _lookup_table(node.input)
        return scan, tuple(substituted(each, projection) for each in node.expressions), condition
    if isinstance(node, rel.Filter):
        scan, projection, condition = _lookup_table(node.input)
        own = substituted(node.condition, projection)
        return scan, projection, operators.and_([*operators.conjuncts(condition), own])
    return None, (), None


def _constant_key(condition: RexNode) -> tuple[int, RexNode] | None:
    if isinstance(condition, RexCall) and condition.function == "=":
        left, right = condition.arguments
        if isinstance(left, InputRef) and isinstance(right, Literal):
            return left.index, right
    return None


def _over_lookup(conditions: list[RexNode], width: int, projection: tuple[RexNode, ...]) -> RexNode | None:
    """Returns the conditions over the input's columns and then all columns of the looked up table."""
    if not conditions:
        return None

    def change(each: RexNode) -> RexNode | None:
        if not isinstance(each, InputRef) or each.index < width:
            return None
        value = projection[each.index - width]
        return rewrite(value, lambda ref: InputRef(ref.type, ref.index + width) if isinstance(ref, InputRef) else None)

    return operators.and_([rewrite(each, change) for each in conditions])


def uses_proctime(node: RexNode) -> bool:
    return any(is_proctime(each.type) for each in walk(node))
