"""Infers which changes each physical node sends, and refuses plans whose consumers cannot take them.

Two passes: from the sources up, which kinds of changes there are; from the sinks down, how updates are sent, where
UPDATE_AFTER alone is preferred and UPDATE_BEFORE is added only if a consumer needs it.

Source: org.apache.flink.table.planner.plan.optimize.program.FlinkChangelogModeInferenceProgram,
org.apache.flink.table.planner.plan.utils.RankProcessStrategy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeVar

from flinkpy.common.errors import TableProgramError
from flinkpy.graph.table_specs import JoinType, SortField
from flinkpy.sql.types.logical_types import is_rowtime, is_time_attribute
from flinkpy.table.planner.changelog.keys import smallest, upsert_keys
from flinkpy.table.planner.changelog.modes import (
    ALL_CHANGES,
    INSERT_ONLY,
    ModifyKind,
    UpdateKind,
    before_after_or_none,
    changelog_mode,
    modify_kinds_of,
    only_after_or_none,
    update_kind_of,
)
from flinkpy.table.planner.changelog.sink_conflicts import materializes
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.two_phase import window_aggregate_in_one_phase

_Node = TypeVar("_Node", bound=ph.PhysicalNode)
_Kinds = frozenset[ModifyKind]

_FORWARDING = (
    ph.AsyncCalc,
    ph.Calc,
    ph.Correlate,
    ph.LookupJoin,
    ph.Exchange,
    ph.Expand,
    ph.MiniBatchAssigner,
    ph.ReplicateRows,
    ph.WatermarkAssigner,
    ph.WindowTableFunction,
)


#: Operators that need to know whether rows of their input may be taken back.
_RETRACTING = (
    ph.GroupAggregate,
    ph.GroupTableAggregate,
    ph.GroupWindowAggregate,
    ph.OverAggregate,
    ph.WindowAggregate,
)


def infer_changelog_modes(
    root: ph.PhysicalNode,
    *,
    upsert_materialize: str = "AUTO",
    requires_update_before: bool = False,
    require_on_conflict: bool = False,
) -> ph.PhysicalNode:
    """Returns a copy of the plan with `modify_kinds` and `update_kind` of each node, and strategies of ranks, set.

    Args:
        upsert_materialize: `table.exec.sink.upsert-materialize`.
        requires_update_before: True if the consumer of a plan without a sink needs UPDATE_BEFORE.
        require_on_conflict: `table.exec.sink.require-on-conflict`.

    Raises:
        ValidationError: ON CONFLICT is missing, or is not possible for the sink.
        TableProgramError: a node cannot take the changes of its input; the message names both.
    """
    with_kinds = _modify(root, ALL_CHANGES, "ROOT")
    program = _UpdateKinds(upsert_materialize, require_on_conflict)
    if isinstance(with_kinds, ph.Sink) or ModifyKind.UPDATE not in with_kinds.modify_kinds:
        wanted = [UpdateKind.NONE]
    elif requires_update_before:
        wanted = [UpdateKind.BEFORE_AND_AFTER]
    else:
        wanted = [UpdateKind.ONLY_UPDATE_AFTER, UpdateKind.BEFORE_AND_AFTER]
    for each in wanted:
        found = program.visit(with_kinds, each)
        if found is not None:
            return found
    raise TableProgramError(f"Can't generate a valid execution plan for the given query:\n{root.description()}")


def _copy(node: _Node, inputs: Iterable[ph.PhysicalNode], **changes: object) -> _Node:
    return dataclasses.replace(node, inputs=list(inputs), **changes)  # type: ignore[arg-type]


# -- the kinds of changes, from the sources up -----------------------------------------------------------------------


def _modify(node: ph.PhysicalNode, required: _Kinds, requester: str) -> ph.PhysicalNode:
    """Returns the node with its kinds of changes. Raises: TableProgramError if they are not within `required`."""

    def below(kinds: _Kinds, name: str | None = None) -> list[ph.PhysicalNode]:
        return [_modify(each, kinds, name or node.requester or node.name) for each in node.inputs]

    inputs: list[ph.PhysicalNode]
    match node:
        case ph.Sink():
            name = f"Table sink '{node.table_name}'"
            natural = _modify(node.input, ALL_CHANGES, name).modify_kinds
            taken = modify_kinds_of(node.sink.changelog_mode(changelog_mode(natural)))
            return _copy(node, below(taken, name))
        case ph.GroupAggregate():
            inputs = below(ALL_CHANGES)
            changing = inputs[0].modify_kinds - INSERT_ONLY
            provided = frozenset({ModifyKind.INSERT, ModifyKind.UPDATE})
            # A global aggregation never deletes its only row, but Flink counts it as if it did.
            provided |= {ModifyKind.DELETE} if changing else frozenset()
        case ph.GroupTableAggregate():
            inputs, provided = below(ALL_CHANGES), ALL_CHANGES
        case ph.GroupWindowAggregate():
            inputs = below(ALL_CHANGES)
            provided = INSERT_ONLY
            if node.produces_updates:
                # If the last row of a window is taken back, its result is deleted.
                has_changes = bool(inputs[0].modify_kinds - INSERT_ONLY)
                provided = ALL_CHANGES if has_changes else frozenset({ModifyKind.INSERT, ModifyKind.UPDATE})
        case ph.WindowAggregate():
            inputs, provided = below(ALL_CHANGES), INSERT_ONLY
        case ph.GlobalWindowAggregate() if _takes_changes(node):
            return _modify(window_aggregate_in_one_phase(node), required, requester)
        case ph.LocalWindowAggregate() | ph.GlobalWindowAggregate():
            inputs, provided = below(INSERT_ONLY), INSERT_ONLY
        case ph.WindowRank() | ph.WindowDeduplicate() | ph.WindowJoin() | ph.IntervalJoin():
            inputs, provided = below(INSERT_ONLY), INSERT_ONLY
        case ph.WindowTableFunction() if node.window.kind == "SESSION":
            inputs, provided = below(INSERT_ONLY), INSERT_ONLY
        case ph.ProcessTableFunction():
            inputs = below(ALL_CHANGES if node.takes_changes else INSERT_ONLY)
            provided = ALL_CHANGES if node.emits_changes else INSERT_ONLY
        case ph.MLPredictTableFunction() | ph.VectorSearchTableFunction():
            inputs, provided = below(INSERT_ONLY), INSERT_ONLY
        case ph.Match() | ph.TemporalSort():
            inputs, provided = below(INSERT_ONLY), INSERT_ONLY
        case ph.Limit():
            inputs = below(ALL_CHANGES)
            provided = INSERT_ONLY if inputs[0].modify_kinds == INSERT_ONLY else ALL_CHANGES
        case ph.Rank():
            inputs = below(ALL_CHANGES)
            provided = ALL_CHANGES
            if inputs[0].modify_kinds == INSERT_ONLY and keeps_first_by_arrival(node):
                provided = INSERT_ONLY
        case ph.SortLimit() | ph.OverAggregate() | ph.ChangelogNormalize():
            inputs, provided = below(ALL_CHANGES), ALL_CHANGES
            if isinstance(node, ph.OverAggregate) and inputs[0].modify_kinds == INSERT_ONLY and _by_time(node):
                provided = INSERT_ONLY
        case ph.Sort() | ph.FinalRows():
            inputs, provided = below(ALL_CHANGES), INSERT_ONLY
        case ph.EngineQuery():
            inputs, provided = below(INSERT_ONLY), INSERT_ONLY
        case ph.Join():
            inputs = below(ALL_CHANGES)
            if node.join_type in (JoinType.INNER, JoinType.SEMI):
                provided = inputs[0].modify_kinds | inputs[1].modify_kinds
                if node.join_type is JoinType.SEMI and inputs[1].modify_kinds - INSERT_ONLY:
                    provided |= {ModifyKind.DELETE}
            else:
                provided = ALL_CHANGES
        case ph.MultiJoin():
            inputs = below(ALL_CHANGES)
            provided = frozenset().union(*(each.modify_kinds for each in inputs))
            if any(each.join_type is JoinType.LEFT for each in node.steps):
                provided = ALL_CHANGES
        case ph.TemporalJoin():
            inputs = below(ALL_CHANGES)
            provided = inputs[0].modify_kinds
        case ph.Union():
            inputs = below(required, requester)
            provided = frozenset().union(*(each.modify_kinds for each in inputs))
        case ph.TableSourceScan():
            inputs, provided = [], modify_kinds_of(node.source.changelog_mode)
        case ph.Values():
            inputs, provided = [], INSERT_ONLY
        case _ if isinstance(node, _FORWARDING):
            inputs = below(required, requester)
            provided = inputs[0].modify_kinds
        case _:
            raise TableProgramError(f"the changes of {node.name} are not known")
    changed = _copy(node, inputs, modify_kinds=provided)
    if isinstance(changed, _RETRACTING):
        changed.needs_retraction = bool(inputs[0].modify_kinds - INSERT_ONLY)
    excess = provided - required
    if excess:
        kinds = " and ".join(kind.value for kind in ModifyKind if kind in excess)
        raise TableProgramError(
            f"{requester} doesn't support consuming {kinds} changes which is produced by node {changed.description()}"
            f"{_advice(changed, requester)}"
        )
    return changed


def _takes_changes(node: ph.GlobalWindowAggregate) -> bool:
    """True if the input of the first phase has more than insertions, which the first phase cannot take."""
    local = node.input.input
    return _modify(local.input, ALL_CHANGES, local.name).modify_kinds != INSERT_ONLY


def _advice(node: ph.PhysicalNode, requester: str) -> str:
    """Returns what a user can change if a consumer cannot take the changes of a node."""
    if not requester.startswith("Table sink"):
        return f"\n{requester} needs an input that is only appended to."
    advice = "Write to a table that takes such changes, such as one of upsert-kafka or jdbc with a primary key"
    if isinstance(node, (ph.GroupAggregate, ph.GroupTableAggregate)):
        return f"\n{advice}, or group by a window of time, whose results do not change."
    if isinstance(node, ph.Rank):
        return f"\n{advice}, or rank within a window of time."
    return f"\n{advice}."


def keeps_first_by_arrival(node: ph.Rank) -> bool:
    """True for a deduplication that keeps the first row by processing time, which never updates a row."""
    found = deduplication(node)
    return found is not None and not found[0] and found[1] is None


def deduplication(node: ph.Rank) -> tuple[bool, int | None] | None:
    """Returns whether a Top-1 keeps the last row, and its event time column (None: processing time).

    None if the node is no deduplication: it orders by something else than a time attribute, or shows the rank.

    Source: org.apache.flink.table.planner.plan.utils.RankUtil.canConvertToDeduplicate.
    """
    if node.function != "ROW_NUMBER" or node.outputs_rank or node.end_column is not None:
        return None
    if node.start != 1 or node.end != 1 or len(node.order) != 1:
        return None
    order = node.order[0]
    kind = node.input.row_type.fields[order.column].type
    if not is_time_attribute(kind):
        return None
    return not order.ascending, order.column if is_rowtime(kind) else None


def _by_time(node: ph.OverAggregate) -> bool:
    order = node.groups[0].order
    return bool(order) and is_time_attribute(node.input.row_type.fields[order[0].column].type)


# -- how updates are sent, from the sinks down -----------------------------------------------------------------------


class _UpdateKinds:
    """Satisfies what consumers require. Methods return None if a node cannot."""

    def __init__(self, upsert_materialize: str, require_on_conflict: bool) -> None:
        self._upsert_materialize = upsert_materialize
        self._require_on_conflict = require_on_conflict

    def visit(self, node: ph.PhysicalNode, required: UpdateKind) -> ph.PhysicalNode | None:
        match node:
            case ph.Sink():
                return self._sink(node)
            case (
                ph.GroupAggregate()
                | ph.GroupTableAggregate()
                | ph.GroupWindowAggregate()
                | ph.WindowAggregate()
                | ph.Limit()
                | ph.Sort()
                | ph.FinalRows()
            ):
                below = self._below(node, before_after_or_none(node.input.modify_kinds))
                return self._node(node, below, required)
            case ph.ProcessTableFunction():
                below = self._below(node, before_after_or_none(node.input.modify_kinds))
                own = UpdateKind.BEFORE_AND_AFTER if node.emits_changes else UpdateKind.NONE
                made = self._node(node, below, own)
                if made is not None and node.emits_changes and required is UpdateKind.ONLY_UPDATE_AFTER:
                    drop = ph.DropUpdateBefore([made], node.row_type, modify_kinds=node.modify_kinds)
                    return self._node(drop, [made], required)
                return made
            case ph.OverAggregate():
                wanted = before_after_or_none(node.input.modify_kinds)
                below = self._below(node, wanted)
                own = UpdateKind.BEFORE_AND_AFTER if ModifyKind.UPDATE in node.modify_kinds else UpdateKind.NONE
                return self._node(node, below, own)
            case (
                ph.LocalWindowAggregate()
                | ph.GlobalWindowAggregate()
                | ph.WindowRank()
                | ph.WindowDeduplicate()
                | ph.Match()
                | ph.EngineQuery()
                | ph.IntervalJoin()
                | ph.WindowJoin()
            ):
                return self._node(node, self._below(node, UpdateKind.NONE), required)
            case ph.Rank():
                return self._ranked(node, node.partition, node.order, required)
            case ph.SortLimit():
                return self._ranked(node, (), node.order, required)
            case ph.Join() | ph.MultiJoin():
                return self._join(node, required)
            case ph.TemporalJoin():
                return self._temporal_join(node, required)
            case ph.Calc() if required is UpdateKind.ONLY_UPDATE_AFTER and node.condition is not None:
                # An update that the condition no longer lets pass must become a deletion: the old row is needed.
                return None
            case ph.ReplicateRows() if required is UpdateKind.ONLY_UPDATE_AFTER:
                # An update may change the number of rows.
                return None
            case ph.Union():
                return self._union(node, required)
            case ph.ChangelogNormalize():
                return self._node(node, self._below(node, UpdateKind.ONLY_UPDATE_AFTER), required)
            case ph.TableSourceScan():
                provided = update_kind_of(node.source.changelog_mode)
                source = _copy(node, [], update_kind=provided)
                if provided is UpdateKind.BEFORE_AND_AFTER and required is UpdateKind.ONLY_UPDATE_AFTER:
                    drop = ph.DropUpdateBefore([source], node.row_type, modify_kinds=node.modify_kinds)
                    return self._node(drop, [source], required)
                return source
            case ph.Values():
                return self._node(node, [], UpdateKind.NONE)
        below = self._below(node, required)
        return None if below is None else self._node(node, below, below[0].update_kind)

    def _below(self, node: ph.PhysicalNode, required: UpdateKind) -> list[ph.PhysicalNode] | None:
        found = []
        for each in node.inputs:
            below = self.visit(each, required)
            if below is None or below.update_kind is not required:
                return None
            found.append(below)
        return found

    @staticmethod
    def _node(
        node: ph.PhysicalNode, inputs: list[ph.PhysicalNode] | None, kind: UpdateKind, **changes: object
    ) -> ph.PhysicalNode | None:
        if inputs is None:
            return None
        own = kind if ModifyKind.UPDATE in node.modify_kinds else UpdateKind.NONE
        if own is UpdateKind.NONE and ModifyKind.UPDATE in node.modify_kinds:
            return None
        return _copy(node, inputs, update_kind=own, **changes)

    # -- nodes with rules of their own -------------------------------------------------------------------------------

    def _join(self, node: ph.Join | ph.MultiJoin, required: UpdateKind) -> ph.PhysicalNode | None:
        found = []
        for place, each in enumerate(node.inputs):
            kinds = each.modify_kinds
            if required is UpdateKind.ONLY_UPDATE_AFTER:
                if ModifyKind.UPDATE in kinds and not _keeps_keys(node, place):
                    return None
                below = self.visit(each, only_after_or_none(kinds))
            else:
                below = self.visit(each, before_after_or_none(kinds))
            if below is None:
                return None
            found.append(below)
        return self._node(node, found, required)

    def _temporal_join(self, node: ph.TemporalJoin, required: UpdateKind) -> ph.PhysicalNode | None:
        left, right = node.inputs
        choose = before_after_or_none if required is UpdateKind.BEFORE_AND_AFTER else only_after_or_none
        new_left = self.visit(left, choose(left.modify_kinds))
        new_right = self.visit(right, only_after_or_none(right.modify_kinds))
        if new_right is None:
            new_right = self.visit(right, before_after_or_none(right.modify_kinds))
        if new_left is None or new_right is None:
            return None
        return self._node(node, [new_left, new_right], new_left.update_kind)

    def _union(self, node: ph.Union, required: UpdateKind) -> ph.PhysicalNode | None:
        found = []
        for each in node.inputs:
            below = self.visit(each, UpdateKind.NONE if each.modify_kinds == INSERT_ONLY else required)
            if below is None:
                return None
            found.append(below)
        kinds = {each.update_kind for each in found} - {UpdateKind.NONE}
        if len(kinds) > 1:
            return None
        return self._node(node, found, next(iter(kinds), UpdateKind.NONE))

    def _ranked(
        self,
        node: ph.Rank | ph.SortLimit,
        partition: tuple[int, ...],
        order: tuple[SortField, ...],
        required: UpdateKind,
    ) -> ph.PhysicalNode | None:
        needs = {
            "AppendFastStrategy": UpdateKind.NONE,
            "UpdateFastStrategy": UpdateKind.ONLY_UPDATE_AFTER,
            "RetractStrategy": UpdateKind.BEFORE_AND_AFTER,
        }
        for strategy, key in rank_strategies(node, partition, order):
            wanted = needs[strategy]
            if ModifyKind.UPDATE not in node.input.modify_kinds:
                wanted = UpdateKind.NONE
            found = self._node(node, self._below(node, wanted), required, strategy=strategy, primary_key=key)
            if found is not None:
                return found
        return None

    # -- sinks -------------------------------------------------------------------------------------------------------

    def _sink(self, node: ph.Sink) -> ph.PhysicalNode | None:
        materialize = materializes(node, self._upsert_materialize, require_on_conflict=self._require_on_conflict)
        for required in self._sink_requires(node):
            below = self._below(node, required)
            if below is not None:
                return _copy(node, below, update_kind=UpdateKind.NONE, upsert_materialize=materialize)
        return None

    @staticmethod
    def _sink_requires(node: ph.Sink) -> list[UpdateKind]:
        kinds = node.input.modify_kinds
        taken = update_kind_of(node.sink.changelog_mode(changelog_mode(kinds)))
        if taken is UpdateKind.NONE or ModifyKind.UPDATE not in kinds:
            return [before_after_or_none(kinds)] if ModifyKind.UPDATE in kinds else [UpdateKind.NONE]
        if taken is UpdateKind.BEFORE_AND_AFTER:
            return [UpdateKind.BEFORE_AND_AFTER]
        if node.primary_key and frozenset(node.primary_key) not in upsert_keys(node.input):
            return [UpdateKind.BEFORE_AND_AFTER]
        return [UpdateKind.ONLY_UPDATE_AFTER, UpdateKind.BEFORE_AND_AFTER]


def _keeps_keys(node: ph.Join | ph.MultiJoin, place: int) -> bool:
    """True if updates of an input of a join do not move a row to another key, so that the new row is enough."""
    if isinstance(node, ph.Join):
        return node.key_contains_unique_key(place)
    key = set(node.keys[place])
    return bool(key) and any(each >= key for each in upsert_keys(node.inputs[place]))


def rank_strategies(
    node: ph.PhysicalNode, partition: tuple[int, ...], order: tuple[SortField, ...]
) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the ways to compute a rank, the cheapest first, each with the key of the input that it needs."""
    kinds = node.input.modify_kinds
    if kinds == INSERT_ONLY:
        return [("AppendFastStrategy", ())]
    retract: tuple[str, tuple[int, ...]] = ("RetractStrategy", ())
    keys = frozenset(each for each in upsert_keys(node.input) if each >= set(partition))
    if kinds == ALL_CHANGES or ModifyKind.DELETE in kinds or not keys:
        return [retract]
    key = smallest(keys)
    assert key is not None
    if all(_improves_only(node.input, each) for each in order):
        return [("UpdateFastStrategy", key), retract]
    return [retract]


def _improves_only(node: ph.PhysicalNode, order: SortField) -> bool:
    """True if updates of a column never move a row down in the order: COUNT, MAX and MIN of growing groups."""
    while isinstance(node, (ph.Exchange, ph.Calc)):
        if isinstance(node, ph.Calc):
            from flinkpy.sql.rex import InputRef

            expression = node.projection[order.column]
            if not isinstance(expression, InputRef):
                return False
            order = dataclasses.replace(order, column=expression.index)
        node = node.input
    if not isinstance(node, ph.GroupAggregate) or node.needs_retraction:
        return False
    place = order.column - len(node.grouping)
    if place < 0:
        return True
    function = node.aggregates[place].function
    return function in (("MIN",) if order.ascending else ("MAX", "COUNT"))
