"""Finds updates that may not match the rows that they take back, because a function has another value by then.

A retraction that reaches an operator must equal the row that it was made for. It does not if a column of it comes from
a function such as RAND, or from a table that is looked up. The check passes the columns that must be deterministic from
the sinks down: a sink needs its key, or all columns; an operator that retracts whole rows needs all columns of its
input. Columns of an upsert key need no check, and inputs that only insert have no requirement.

Source: org.apache.flink.table.planner.plan.optimize.StreamNonDeterministicUpdatePlanVisitor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from flinkpy.common.errors import TableProgramError
from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import RexNode, input_columns
from flinkpy.table.catalog.resolved_schema import MetadataColumn
from flinkpy.table.planner.binder.expressions import nondeterministic_call
from flinkpy.table.planner.changelog.keys import upsert_keys
from flinkpy.table.planner.changelog.modes import INSERT_ONLY, ModifyKind, UpdateKind
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.rex_text import rex_text

Columns = frozenset[int]
_NONE: Columns = frozenset()


def checked_for_determinism(node: ph.PhysicalNode) -> ph.PhysicalNode:
    """Returns the plan in which lookup joins keep the rows that they have found, where an update may need them again.

    Changes that a program collects are taken back as whole rows.

    Raises: TableProgramError if updates may be wrong, and nothing can be done; it names the columns and functions.
    """
    is_collected = not isinstance(node, ph.Sink) and node.update_kind is UpdateKind.BEFORE_AND_AFTER
    return _visit(node, _without_key(node, _all(node)) if is_collected else _NONE)


def _visit(node: ph.PhysicalNode, required: Columns) -> ph.PhysicalNode:
    """Checks a node and all below it. `required`: the columns that must be deterministic."""
    match node:
        case ph.TableSourceScan():
            _check_metadata(node, required)
            return node
        case ph.Sink():
            return _below(node, _required_by_sink(node))
        case _ if _inserts_only(node):
            _check_functions(node, required)
            return _below(node, _NONE)
        case ph.Calc():
            return _calc(node, required)
        case ph.Correlate():
            return _correlate(node, required)
        case ph.LookupJoin():
            return _lookup_join(node, required)
        case ph.Join() | ph.TemporalJoin() | ph.MultiJoin():
            return _join(node, required)
        case ph.GroupTableAggregate():
            (call,) = node.aggregates
            first = len(node.grouping)
            if not _is_deterministic(call.user_function):
                _check_columns(node, required, {each: call.function for each in required if each >= first})
            return _below(node, _all(node.input))
        case ph.GroupAggregate() | ph.WindowAggregate() | ph.LocalWindowAggregate() | ph.GroupWindowAggregate():
            return _below(node, _all(node.input))
        case ph.Rank():
            return _below(node, _required_by_rank(node, required))
        case ph.OverAggregate():
            return _below(node, _required_by_over(node, required))
        case ph.ChangelogNormalize():
            return _below(node, required)
    # The others pass columns on at their places.
    return _below(node, frozenset(each for each in required if all(each < _width(below) for below in node.inputs)))


def _below(node: ph.PhysicalNode, required: Columns) -> ph.PhysicalNode:
    return _with_inputs(node, [_visit(each, _without_key(each, required)) for each in node.inputs])


def _with_inputs(node: ph.PhysicalNode, inputs: list[ph.PhysicalNode]) -> ph.PhysicalNode:
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    return dataclasses.replace(node, inputs=inputs)


def _without_key(node: ph.PhysicalNode, required: Columns) -> Columns:
    """Returns the columns besides an upsert key: the fewest that any key leaves."""
    keys = upsert_keys(node)
    return min((required - key for key in keys), key=lambda left: (len(left), sorted(left)), default=required)


def _inserts_only(node: ph.PhysicalNode) -> bool:
    return all(each.modify_kinds == INSERT_ONLY for each in node.inputs)


def _width(node: ph.PhysicalNode) -> int:
    return len(node.row_type.fields)


def _all(node: ph.PhysicalNode) -> Columns:
    return frozenset(range(_width(node)))


# -- what operators require ------------------------------------------------------------------------------------------


def _required_by_sink(node: ph.Sink) -> Columns:
    if _inserts_only(node):
        return _NONE
    if node.upsert_materialize or not node.primary_key:
        return _all(node.input)
    return frozenset(node.primary_key)


def _calc(node: ph.Calc, required: Columns) -> ph.PhysicalNode:
    if not required:
        return _below(node, _NONE)
    if node.condition is not None:
        _check_condition(node.condition, node, node.input.names)
    calls = {place: nondeterministic_call(each) for place, each in enumerate(node.projection)}
    _check_columns(node, required, {place: call for place, call in calls.items() if call is not None})
    return _below(node, frozenset(input_columns([node.projection[place] for place in sorted(required)])))


def _correlate(node: ph.Correlate, required: Columns) -> ph.PhysicalNode:
    if not required:
        return _below(node, _NONE)
    if node.condition is not None:
        _check_condition(node.condition, node, node.names)
    width = _width(node.input)
    call = nondeterministic_call(node.call)
    if call is not None:
        _check_columns(node, required, dict.fromkeys(range(width, _width(node)), call))
    return _below(node, frozenset(each for each in required if each < width))


def _lookup_join(node: ph.LookupJoin, required: Columns) -> ph.PhysicalNode:
    if not required:
        return _below(node, _NONE)
    names = (*node.input.names, *node.lookup_type.names)
    for condition, shown in ((node.condition, names), (node.lookup_condition, node.lookup_type.names)):
        if condition is not None:
            _check_condition(condition, node, shown)
    width = _width(node.input)
    found = frozenset(each - width for each in required if each >= width)
    key = node.table.resolved_schema.primary_key
    names = node.lookup_type.names
    unique = frozenset(names.index(each) for each in (key.columns if key is not None else ()) if each in names)
    is_by_key = bool(unique) and unique <= {column for column, _ in node.keys} and found <= unique
    checked = _below(node, frozenset(each for each in required if each < width))
    if not found or is_by_key:
        return checked
    return dataclasses.replace(checked, upsert_materialize=True)  # type: ignore[call-arg]  # it is a LookupJoin


def _join(node: ph.Join | ph.TemporalJoin | ph.MultiJoin, required: Columns) -> ph.PhysicalNode:
    _check_join_conditions(node)
    is_left_only = isinstance(node, ph.Join) and node.join_type in (JoinType.SEMI, JoinType.ANTI)
    inputs, first = [], 0
    for place, below in enumerate(node.inputs):
        wanted = _NONE
        if below.modify_kinds != INSERT_ONLY:
            wanted = frozenset(each - first for each in required if first <= each < first + _width(below))
            if place and is_left_only:
                wanted = _NONE
            if not upsert_keys(below):
                wanted = _all(below)
        first += _width(below)
        inputs.append(_visit(below, _without_key(below, wanted)))
    return _with_inputs(node, inputs)


def _check_join_conditions(node: ph.Join | ph.TemporalJoin | ph.MultiJoin) -> None:
    """Raises: TableProgramError if a condition is not deterministic."""
    names = tuple(name for each in node.inputs for name in each.names)
    for condition in node.conditions if isinstance(node, ph.MultiJoin) else (node.condition,):
        _check_condition(condition, node, names)


def _required_by_rank(node: ph.Rank, required: Columns) -> Columns:
    if node.strategy != "UpdateFastStrategy":
        return _all(node.input)
    return required - {*node.partition, *(each.column for each in node.order), _width(node.input)}


def _required_by_over(node: ph.OverAggregate, required: Columns) -> Columns:
    width = _width(node.input)
    found = {each for each in required if each < width}
    place = width
    for group in node.groups:
        found.update(group.partition, (each.column for each in group.order))
        for call in group.aggregates:
            if place in required:
                found.update(call.arguments)
                if call.filter_index is not None:
                    found.add(call.filter_index)
            place += 1
    return frozenset(found)


# -- what operators cannot satisfy -----------------------------------------------------------------------------------


def _check_functions(node: ph.PhysicalNode, required: Columns) -> None:
    """Raises: TableProgramError if a required column is an aggregate of the user that is not deterministic.

    Built-in aggregates are deterministic. Conditions of outer joins make updates although the inputs do not.
    """
    if isinstance(node, (ph.Join, ph.MultiJoin)) and ModifyKind.UPDATE in node.modify_kinds:
        _check_join_conditions(node)
    if isinstance(node, (ph.GroupAggregate, ph.WindowAggregate)):
        first = len(node.grouping)
        calls = {
            first + place: call.function
            for place, call in enumerate(node.aggregates)
            if call.user_function is not None and not _is_deterministic(call.user_function)
        }
        _check_columns(node, required, calls)


def _is_deterministic(function: object) -> bool:
    check = getattr(function, "is_deterministic", True)
    return bool(check() if callable(check) else check)


def _check_metadata(node: ph.TableSourceScan, required: Columns) -> None:
    if node.modify_kinds == INSERT_ONLY or not required:
        return
    schema = node.table.resolved_schema
    metadata = {each.name for each in schema.columns if isinstance(each, MetadataColumn)}
    wrong = [node.names[each] for each in sorted(required) if each < _width(node) and node.names[each] in metadata]
    if wrong:
        raise TableProgramError(
            f"The metadata column(s): '{', '.join(wrong)}' in cdc source may cause wrong result or error on downstream "
            "operators, please consider removing these columns or use a non-cdc source that only has insert messages.\n"
            f"source node:\n{_plan_text(node)}"
        )


def _check_condition(condition: RexNode, node: ph.PhysicalNode, names: tuple[str, ...]) -> None:
    call = nondeterministic_call(condition)
    if call is not None:
        _raise_condition(call, condition, node, names)


def _raise_condition(call: str, condition: RexNode, node: ph.PhysicalNode, names: tuple[str, ...]) -> None:
    raise TableProgramError(
        f"There exists non deterministic function: '{call}' in condition: '{rex_text(condition, names)}' which may "
        f"cause wrong result in update pipeline.\nrelated rel plan:\n{_plan_text(node)}"
    )


def _check_columns(node: ph.PhysicalNode, required: Iterable[int], calls: dict[int, str]) -> None:
    wrong = [place for place in sorted(required) if place in calls]
    if wrong:
        columns = "".join(
            f"{node.names[place]}(generated by non-deterministic function: {calls[place]} ) " for place in wrong
        )
        raise TableProgramError(
            f"The column(s): {columns}can not satisfy the determinism requirement for correctly processing update "
            "message('UB'/'UA'/'D' in changelogMode, not 'I' only), this usually happens when input node has no "
            "upsertKey(upsertKeys=[{}]) or current node outputs non-deterministic update messages. Please consider "
            "removing these non-deterministic columns or making them deterministic by using deterministic functions.\n"
            f"\nrelated rel plan:\n{_plan_text(node)}"
        )


def _plan_text(node: ph.PhysicalNode) -> str:
    from flinkpy.table.planner.explain import physical_text

    return physical_text(node, changelog=True)
