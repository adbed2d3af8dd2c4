"""Translates physical nodes into Transformations with the specs of their operators.

Source: org.apache.flink.table.planner.plan.nodes.exec.ExecNode.translateToPlan.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.graph import table_specs as specs
from flinkpy.graph.operator_specs import FieldKeySelector, OperatorSpec, SourceSpec
from flinkpy.graph.partitioning import BROADCAST, HASH, Partitioning
from flinkpy.graph.transformation import (
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
    UnionTransformation,
)
from flinkpy.sql.rex import Literal
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.connectors.stream_table import StreamTableSource
from flinkpy.table.planner.batch.spark_dialect import SPARK
from flinkpy.table.planner.changelog.inference import deduplication
from flinkpy.table.planner.changelog.keys import smallest, upsert_keys
from flinkpy.table.planner.changelog.modes import INSERT_ONLY, ModifyKind, UpdateKind
from flinkpy.table.planner.hints import duration_ms
from flinkpy.table.planner.logical.nodes import Window, row_of
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.match_orders import complete_order
from flinkpy.table.planner.physical.sinks import SinkTranslator, is_alone
from flinkpy.table.planner.physical.split_local_aggregates import SplitLocalAggregate, split_local_aggregate
from flinkpy.table.planner.physical.translation_settings import AsyncScalarSettings as AsyncScalarSettings
from flinkpy.table.planner.physical.translation_settings import TranslationSettings as TranslationSettings
from flinkpy.table.planner.plans.uids import Uids

#: The limit of OFFSET alone, in batch mode.
_ALL_ROWS = 1 << 60


class Translator:
    """Translates plans of one job. A node that has two consumers becomes one Transformation.

    Args:
        uids: sets the uids of operators; None to leave them without.
    """

    def __init__(self, settings: TranslationSettings, uids: Uids | None = None) -> None:
        self._settings = settings
        self._uids = uids
        self._translated: dict[int, tuple[ph.PhysicalNode, Transformation]] = {}

    def translate(self, node: ph.PhysicalNode) -> Transformation:
        """Returns the Transformation. Raises: UnsupportedOperationError if there is no operator for a node yet."""
        known = self._translated.get(id(node))
        if known is None:
            known = (node, self._translate(node))
            self._translated[id(node)] = known
            if self._uids is not None:
                below = [self.translate(each) for each in node.inputs]
                stream = getattr(getattr(node, "source", None), "transformation", None)
                self._uids.assign(node, known[1], below if stream is None else [*below, stream])
        return known[1]

    # -- building blocks ---------------------------------------------------------------------------------------------

    def _operator(self, node: ph.PhysicalNode, spec: OperatorSpec, name: str = "") -> OperatorTransformation:
        inputs = [self.translate(each) for each in node.inputs]
        made = OperatorTransformation(name or node.name, spec, inputs)
        made.description = node.description(infix=True)
        if any(isinstance(each, ph.Exchange) and each.keys == () for each in node.inputs) or is_alone(inputs):
            made.force_non_parallel()
        return made

    @staticmethod
    def _types(node: ph.PhysicalNode) -> dict[str, Any]:
        return {
            "input_types": tuple(InternalTypeInfo(each.row_type) for each in node.inputs),
            "output_type": InternalTypeInfo(node.row_type),
        }

    @staticmethod
    def _selector(node: ph.PhysicalNode, place: int = 0) -> FieldKeySelector:
        """Returns the key by which the exchange below the node partitions rows."""
        exchange = node.inputs[place]
        assert isinstance(exchange, ph.Exchange)
        return FieldKeySelector(tuple(exchange.names[each] for each in exchange.keys or ()))

    def _ttl(self, hint_ms: int | None) -> int:
        """Returns the time-to-live of state: that of a hint, or of the session."""
        return self._settings.state_ttl_ms if hint_ms is None else hint_ms

    def _window(self, node: Any, place: int | None = None) -> specs.WindowSlices:
        window: Window = node.window
        bounds = node.bounds or (None, None)
        return _slices(window, node.is_event_time, node.time_column, *bounds)

    @singledispatchmethod
    def _translate(self, node: ph.PhysicalNode) -> Transformation:
        raise UnsupportedOperationError(f"there is no operator for {node.name} in a job yet: {node.description()}")

    # -- sources, sinks, exchanges -----------------------------------------------------------------------------------

    @_translate.register
    def _(self, node: ph.TableSourceScan) -> Transformation:
        if isinstance(node.source, StreamTableSource):
            return self._stream_input(node, node.source)
        source = node.source.source()
        spec = SourceSpec(source, self._watermark_strategy(node), output_type=InternalTypeInfo(node.row_type))
        made = OperatorTransformation(f"{node.table.identifier.object_name}[{node.name}]", spec, [])
        made.description = node.description(infix=True)
        if node.source.parallelism is not None:
            made.set_parallelism(node.source.parallelism)
        return made

    def _watermark_strategy(self, node: ph.TableSourceScan) -> WatermarkStrategy:
        if node.watermarks is None:
            return WatermarkStrategy.no_watermarks()
        params = node.watermarks.params
        if params.idle_timeout_ms is None:
            params = replace(params, idle_timeout_ms=self._settings.idle_timeout_ms)
        made = replace(node.watermarks, params=params, settings=self._settings.session)
        return WatermarkStrategy.for_columns(made)

    @staticmethod
    def _stream_input(node: ph.TableSourceScan, source: StreamTableSource) -> Transformation:
        """Returns the operator that turns the records of a DataStream into rows."""
        spec = specs.StreamInputSpec(
            source.has_rowtime,
            input_types=(source.transformation.output_type,),
            output_type=InternalTypeInfo(node.row_type),
        )
        made = OperatorTransformation("DataStreamScan", spec, [source.transformation])
        made.description = node.description(infix=True)
        return made

    @_translate.register
    def _(self, node: ph.Values) -> Transformation:
        from flinkpy.table.planner.physical.values_source import values_source

        spec = SourceSpec(
            values_source(node.rows, node.row_type),
            WatermarkStrategy.no_watermarks(),
            output_type=InternalTypeInfo(node.row_type),
        )
        made = OperatorTransformation("Values", spec, [], max_allowed_parallelism=1)
        made.description = node.description(infix=True)
        return made

    @_translate.register
    def _(self, node: ph.Exchange) -> Transformation:
        below = self.translate(node.input)
        if node.keys is None:
            return PartitionTransformation(below, Partitioning(BROADCAST))
        selector = FieldKeySelector(tuple(node.names[each] for each in node.keys))
        return PartitionTransformation(below, Partitioning(HASH, selector))

    @_translate.register
    def _(self, node: ph.Union) -> Transformation:
        return UnionTransformation([self.renamed(each, node.names) for each in node.inputs])

    def renamed(self, node: ph.PhysicalNode, names: tuple[str, ...]) -> Transformation:
        """Returns the rows under other names: rules drop projections that only rename, and a union has one set."""
        if node.names == names:
            return self.translate(node)
        references = tuple(ph_reference(node, place) for place in range(len(names)))
        row_type = row_of(names, tuple(each.type for each in node.row_type.fields))
        return self._operator(ph.Calc([node], row_type, references), self._calc_spec(node, references, None, row_type))

    @_translate.register
    def _(self, node: ph.Sink) -> Transformation:
        return SinkTranslator(node, self._settings).translate(self.translate(node.input))

    # -- rows one by one ---------------------------------------------------------------------------------------------

    def _calc_spec(
        self, below: ph.PhysicalNode, projection: tuple[Any, ...], condition: Any, row_type: RowType
    ) -> specs.CalcSpec:
        return specs.CalcSpec(
            projection,
            condition,
            self._settings.session,
            input_types=(InternalTypeInfo(below.row_type),),
            output_type=InternalTypeInfo(row_type),
        )

    @_translate.register
    def _(self, node: ph.Calc) -> Transformation:
        return self._operator(node, self._calc_spec(node.input, node.projection, node.condition, node.row_type))

    @_translate.register
    def _(self, node: ph.AsyncCalc) -> Transformation:
        options = self._settings.async_scalar
        spec = specs.AsyncCalcSpec(
            node.calls,
            options.capacity,
            options.timeout_ms,
            options.max_attempts,
            options.retry_delay_ms,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.WatermarkAssigner) -> Transformation:
        if self._settings.is_batch:
            # Event time does not advance before the end of the input, and no row is late.
            references = tuple(ph_reference(node.input, place) for place in range(len(node.names)))
            return self._operator(node, self._calc_spec(node.input, references, None, node.row_type))
        params = node.params
        spec = specs.WatermarkAssignerSpec(
            node.rowtime,
            node.watermark,
            self._settings.idle_timeout_ms if params.idle_timeout_ms is None else params.idle_timeout_ms,
            params.emits_on_event,
            settings=self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.EngineQuery) -> Transformation:
        if node.engine == SPARK.name:
            of_spark = specs.SparkQuerySpec(
                node.query, node.tables, node.functions, self._settings.session, **self._types(node)
            )
            made = self._operator(node, of_spark)
            made.set_batch_backend("spark")
            if node.is_ordered:
                made.force_non_parallel()
            return made
        spec = specs.EngineQuerySpec(
            node.query,
            node.tables,
            node.files,
            node.functions,
            self._settings.engine_threads,
            self._settings.session,
            **self._types(node),
        )
        made = self._operator(node, spec)
        made.force_non_parallel()
        return made

    @_translate.register
    def _(self, node: ph.FinalRows) -> Transformation:
        made = self._operator(node, specs.FinalRowsSpec((), node.if_empty, **self._types(node)))
        if node.if_empty is not None:
            made.force_non_parallel()
        return made

    @_translate.register
    def _(self, node: ph.DropUpdateBefore) -> Transformation:
        return self._operator(node, specs.DropUpdateBeforeSpec(**self._types(node)))

    @_translate.register
    def _(self, node: ph.Expand) -> Transformation:
        return self._operator(node, specs.ExpandSpec(node.projections, self._settings.session, **self._types(node)))

    @_translate.register
    def _(self, node: ph.ReplicateRows) -> Transformation:
        return self._operator(node, specs.ReplicateRowsSpec(**self._types(node)))

    @_translate.register
    def _(self, node: ph.ProcessTableFunction) -> Transformation:
        return self._operator(node, specs.ProcessTableFunctionSpec(node.function, **self._types(node)))

    @_translate.register
    def _(self, node: ph.Correlate) -> Transformation:
        spec = specs.CorrelateSpec(
            node.call, node.join_type, node.condition, self._settings.session, **self._types(node)
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.WindowTableFunction) -> Transformation:
        window = _slices(node.window, node.is_event_time, node.time_column)
        settings, types = self._settings.session, self._types(node)
        if node.window.kind == "SESSION":
            return self._operator(node, specs.SessionTableFunctionSpec(self._selector(node), window, settings, **types))
        return self._operator(node, specs.WindowTableFunctionSpec(window, settings, **types))

    @_translate.register
    def _(self, node: ph.ChangelogNormalize) -> Transformation:
        spec = specs.ChangelogNormalizeSpec(
            self._selector(node),
            node.unique_key,
            _sends_before(node),
            None,
            self._settings.state_ttl_ms,
            self._settings.mini_batch,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    # -- aggregations ------------------------------------------------------------------------------------------------

    @_translate.register
    def _(self, node: ph.GroupAggregate) -> Transformation:
        spec = specs.GroupAggregateSpec(
            self._selector(node),
            node.grouping,
            node.aggregates,
            node.needs_retraction,
            _sends_before(node),
            self._settings.mini_batch,
            self._ttl(node.state_ttl_ms),
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.GroupTableAggregate) -> Transformation:
        spec = specs.GroupTableAggregateSpec(
            self._selector(node),
            node.grouping,
            node.aggregates,
            node.needs_retraction,
            generate_update_before=True,
            state_ttl_ms=self._ttl(node.state_ttl_ms),
            settings=self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.LocalGroupAggregate) -> Transformation:
        assert self._settings.mini_batch is not None
        found = split_local_aggregate(node)
        if found is not None:
            return self._split_local(node, found)
        spec = specs.LocalGroupAggregateSpec(
            node.grouping, node.aggregates, node.needs_retraction, self._settings.mini_batch, **self._types(node)
        )
        return self._operator(node, spec)

    def _split_local(self, node: ph.LocalGroupAggregate, found: SplitLocalAggregate) -> Transformation:
        """Returns the first phase over the rows before an Expand, which then does not run."""
        assert self._settings.mini_batch is not None
        spec = specs.SplitLocalGroupAggregateSpec(
            found.grouping,
            found.buckets,
            found.bucket_of,
            found.aggregates,
            self._settings.mini_batch,
            input_types=(InternalTypeInfo(found.below.row_type),),
            output_type=InternalTypeInfo(node.row_type),
        )
        made = OperatorTransformation(node.name, spec, [self.translate(found.below)])
        made.description = node.description(infix=True)
        return made

    @_translate.register
    def _(self, node: ph.GlobalGroupAggregate) -> Transformation:
        assert self._settings.mini_batch is not None
        spec = specs.GlobalGroupAggregateSpec(
            self._selector(node),
            node.grouping,
            node.aggregates,
            InternalTypeInfo(node.local_input_type),
            node.needs_retraction,
            _sends_before(node),
            self._settings.mini_batch,
            self._ttl(node.state_ttl_ms),
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.IncrementalGroupAggregate) -> Transformation:
        assert self._settings.mini_batch is not None
        spec = specs.IncrementalGroupAggregateSpec(
            self._selector(node),
            node.grouping,
            node.aggregates,
            InternalTypeInfo(node.local_input_type),
            False,
            False,
            self._settings.mini_batch,
            self._ttl(node.state_ttl_ms),
            partial_type=InternalTypeInfo(node.partial_type),
            final_grouping=node.final_grouping,
            final_aggregates=node.final_aggregates,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.WindowAggregate) -> Transformation:
        spec = specs.WindowAggregateSpec(
            self._selector(node),
            node.grouping,
            node.aggregates,
            self._window(node),
            node.properties,
            node.needs_retraction,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.LocalWindowAggregate) -> Transformation:
        spec = specs.LocalWindowAggregateSpec(
            node.grouping, node.aggregates, self._window(node), self._settings.session, **self._types(node)
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.GlobalWindowAggregate) -> Transformation:
        spec = specs.GlobalWindowAggregateSpec(
            self._selector(node),
            node.grouping,
            node.aggregates,
            InternalTypeInfo(node.local_input_type),
            self._window(node),
            node.properties,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.GroupWindowAggregate) -> Transformation:
        spec = specs.GroupWindowAggregateSpec(
            self._selector(node),
            node.grouping,
            node.aggregates,
            _slices(node.window, node.is_event_time, node.time_column),
            node.properties,
            node.needs_retraction,
            _sends_before(node),
            node.emit.early_ms,
            node.emit.late_ms if node.is_event_time else None,
            node.emit.allow_lateness_ms,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.OverAggregate) -> Transformation:
        windows = tuple(
            specs.OverWindow(each.partition, each.order, each.is_rows, each.lower, each.upper, each.aggregates)
            for each in node.groups
        )
        spec = specs.OverAggregateSpec(
            self._selector(node),
            windows,
            node.needs_retraction,
            _sends_before(node),
            self._settings.state_ttl_ms,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    # -- joins -------------------------------------------------------------------------------------------------------

    def _selectors(self, node: ph.PhysicalNode) -> tuple[FieldKeySelector, FieldKeySelector]:
        return self._selector(node, 0), self._selector(node, 1)

    @_translate.register
    def _(self, node: ph.Join) -> Transformation:
        spec = specs.JoinSpec(
            self._selectors(node),
            node.join_type,
            node.left_keys,
            node.right_keys,
            node.filter_nulls,
            node.rest,
            specs.JoinInput(node.left_unique, node.left_key_is_unique),
            specs.JoinInput(node.right_unique, node.right_key_is_unique),
            self._ttl(node.left_ttl_ms),
            self._ttl(node.right_ttl_ms),
            self._settings.mini_batch if node.is_mini_batch else None,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.MultiJoin) -> Transformation:
        ttls = tuple(self._ttl(None if each is None else duration_ms(each)) for each in node.ttls)
        spec = specs.MultiJoinSpec(
            tuple(self._selector(node, place) for place in range(len(node.inputs))),
            node.keys,
            node.steps,
            tuple(
                specs.JoinInput(unique, unique is not None and set(unique) <= set(key))
                for unique, key in zip(node.upsert, node.keys, strict=True)
            ),
            ttls,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.IntervalJoin) -> Transformation:
        # The spec bounds right time minus left time.
        spec = specs.TableIntervalJoinSpec(
            self._selectors(node),
            node.join_type,
            node.left_keys,
            node.right_keys,
            node.filter_nulls,
            -node.upper_ms,
            -node.lower_ms,
            node.is_event_time,
            node.left_time,
            node.right_time,
            node.rest,
            self._settings.interval_join_min_cleanup_ms,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.TemporalJoin) -> Transformation:
        if not node.is_event_time:
            return self._process_time_temporal_join(node)
        spec = specs.TemporalJoinSpec(
            self._selectors(node),
            node.join_type,
            node.left_keys,
            node.right_keys,
            node.filter_nulls,
            node.left_time,
            node.right_time,
            node.rest,
            self._settings.state_ttl_ms,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    def _process_time_temporal_join(self, node: ph.TemporalJoin) -> Transformation:
        spec = specs.ProcessTimeTemporalJoinSpec(
            self._selectors(node),
            node.join_type,
            node.left_keys,
            node.right_keys,
            node.filter_nulls,
            node.rest,
            self._settings.state_ttl_ms,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.WindowJoin) -> Transformation:
        left = _slices(node.left_window, node.is_event_time, None, *node.left_bounds)
        right = _slices(node.right_window, node.is_event_time, None, *node.right_bounds)
        spec = specs.WindowJoinSpec(
            self._selectors(node),
            node.join_type,
            node.left_keys,
            node.right_keys,
            node.filter_nulls,
            left,
            right,
            node.rest,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.LookupJoin) -> Transformation:
        columns = tuple(column for column, _ in node.keys)
        options = node.async_options
        function = None if options is None else node.source.async_lookup_function(columns)
        spec = specs.LookupJoinSpec(
            function or node.source.lookup_function(columns),
            node.join_type,
            node.keys,
            InternalTypeInfo(node.lookup_type),
            node.lookup_condition,
            node.condition,
            options,
            node.retry,
            node.source.lookup_cache,
            self._settings.session,
            node.table.identifier.as_summary_string(),
            **self._types(node),
        )
        if node.upsert_materialize:
            return self._keyed_lookup_join(node, spec)
        return self._operator(node, spec)

    def _keyed_lookup_join(self, node: ph.LookupJoin, join: specs.LookupJoinSpec) -> Transformation:
        """Returns the lookup join that keeps what it has found, by the upsert key of the input or whole rows."""
        names = node.input.names
        key = smallest(upsert_keys(node.input)) or tuple(range(len(names)))
        selector = FieldKeySelector(tuple(names[place] for place in key))
        partitioned = PartitionTransformation(self.translate(node.input), Partitioning(HASH, selector))
        spec = specs.KeyedLookupJoinSpec(selector, key, join, self._settings.state_ttl_ms, **self._types(node))
        made = OperatorTransformation(node.name, spec, [partitioned])
        made.description = node.description(infix=True)
        return made

    # -- ranks and order ---------------------------------------------------------------------------------------------

    @_translate.register
    def _(self, node: ph.Rank) -> Transformation:
        insert_only = node.input.modify_kinds == INSERT_ONLY
        found = deduplication(node) if insert_only else None
        if found is not None:
            keep_last, time_column = found
            deduplicate = specs.DeduplicateSpec(
                self._selector(node),
                node.partition,
                keep_last,
                time_column,
                _sends_before(node),
                True,
                self._settings.mini_batch,
                self._settings.state_ttl_ms,
                **self._types(node),
            )
            return self._operator(node, deduplicate, "Deduplicate")
        spec = specs.RankSpec(
            self._selector(node),
            node.function,
            node.partition,
            node.order,
            node.start,
            node.end,
            node.end_column,
            node.outputs_rank,
            {"AppendFastStrategy": "APPEND", "UpdateFastStrategy": "UPDATE", "RetractStrategy": "RETRACT"}[
                node.strategy
            ],
            node.primary_key,
            _sends_before(node),
            self._settings.state_ttl_ms,
            self._settings.mini_batch,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.WindowRank) -> Transformation:
        spec = specs.WindowRankSpec(
            self._selector(node),
            _slices(node.window, True, None, *node.bounds),
            node.partition,
            node.order,
            node.start,
            node.end,
            node.outputs_rank,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.WindowDeduplicate) -> Transformation:
        spec = specs.WindowDeduplicateSpec(
            self._selector(node),
            _slices(node.window, True, None, *node.bounds),
            node.key,
            node.time_column,
            node.keep_last,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.Match) -> Transformation:
        spec = specs.MatchSpec(
            self._selector(node),
            node.partition,
            complete_order(node.order, node.input.row_type),
            node.pattern,
            node.definitions,
            tuple(value for _, value in node.measures),
            node.is_event_time,
            self._settings.session,
            **self._types(node),
        )
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.TemporalSort) -> Transformation:
        spec = specs.TemporalSortSpec(self._selector(node), node.order, node.is_event_time, **self._types(node))
        return self._operator(node, spec)

    @_translate.register
    def _(self, node: ph.Sort) -> Transformation:
        return self._operator(node, specs.FinalRowsSpec(node.order, **self._types(node)))

    @_translate.register
    def _(self, node: ph.SortLimit) -> Transformation:
        return self._operator(node, self._sort_spec(node, node.order, node.offset, node.limit))

    @_translate.register
    def _(self, node: ph.Limit) -> Transformation:
        limit = _ALL_ROWS if node.limit is None else node.limit
        return self._operator(node, self._sort_spec(node, (), node.offset, limit))

    def _sort_spec(
        self, node: ph.PhysicalNode, order: tuple[specs.SortField, ...], offset: int, limit: int | None
    ) -> specs.SortLimitSpec:
        selector = self._selector(node) if isinstance(node.input, ph.Exchange) else FieldKeySelector(())
        return specs.SortLimitSpec(
            selector,
            order,
            offset,
            limit,
            _sends_before(node),
            node.input.modify_kinds != INSERT_ONLY,
            self._settings.state_ttl_ms,
            self._settings.mini_batch,
            **self._types(node),
        )


def _slices(
    window: Window,
    is_event_time: bool,
    time_column: int | None,
    start_column: int | None = None,
    end_column: int | None = None,
) -> specs.WindowSlices:
    return specs.WindowSlices(
        window.kind,
        window.size_ms,
        window.slide_ms,
        window.offset_ms,
        is_event_time,
        time_column,
        start_column,
        end_column,
        window.partition,
        window.is_zoned,
    )


def _sends_before(node: ph.PhysicalNode) -> bool:
    return ModifyKind.UPDATE in node.modify_kinds and node.update_kind is UpdateKind.BEFORE_AND_AFTER


def ph_reference(node: ph.PhysicalNode, place: int) -> Any:
    """Returns an InputRef to a column of a node."""
    from flinkpy.sql.rex import InputRef

    return InputRef(node.row_type.fields[place].type, place)


def is_constant(node: Any) -> bool:
    return isinstance(node, Literal)
