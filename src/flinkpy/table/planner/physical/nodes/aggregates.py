"""Nodes that aggregate groups, and rows before and after each row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term
from flinkpy.table.planner.physical.texts import call_text, distinct_views, together


@dataclass(eq=False)
class AggregateNode(PhysicalNode):
    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]

    #: True if the input may retract rows; the changelog program sets it.
    needs_retraction: bool = field(default=False, kw_only=True)
    #: The time-to-live of a STATE_TTL hint; None for `table.exec.state.ttl`.
    state_ttl_ms: int | None = field(default=None, kw_only=True)
    #: PARTIAL or FINAL for the parts of an aggregation of distinct values that was split.
    partial_final: str | None = field(default=None, kw_only=True)

    def _group_by(self) -> list[Term]:
        terms = [("groupBy", f"[{self._columns(self.grouping)}]")] if self.grouping else []
        return terms if self.partial_final is None else [*terms, ("partialFinalType", f"[{self.partial_final}]")]

    def _calls(self) -> list[str]:
        return [
            f"{call_text(call, self.input.names, self.needs_retraction)} AS {call.name}" for call in self.aggregates
        ]


@dataclass(eq=False)
class GroupAggregate(AggregateNode):
    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.grouping] + self._calls()
        return [*self._group_by(), ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class GroupTableAggregate(AggregateNode):
    """A table aggregate function over groups. `aggregates` is its call, whose type is the ARRAY of its rows."""

    def terms(self, *, infix: bool = False) -> list[Term]:
        keys = [self.input.names[each] for each in self.grouping]
        (call,) = self.aggregates
        columns = ", ".join(self.names[len(keys) :])
        text = f"{call_text(call, self.input.names)} AS ({columns})"
        return [*self._group_by(), ("select", f"[{', '.join([*keys, text])}]")]


@dataclass(eq=False)
class LocalGroupAggregate(AggregateNode):
    #: The names of the accumulators of each aggregate.
    accumulators: tuple[tuple[str, ...], ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        columns, views = self.input.names, distinct_views(self.aggregates)
        parts = [columns[each] for each in self.grouping]
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            parts.append(f"{call_text(call, columns, self.needs_retraction, views)} AS {together(names)}")
        for number, view in enumerate(views):
            parts.append(f"DISTINCT({', '.join(columns[each] for each in view)}) AS distinct${number}")
        return [*self._group_by(), ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class GlobalGroupAggregate(AggregateNode):
    accumulators: tuple[tuple[str, ...], ...]
    local_input_type: RowType

    def terms(self, *, infix: bool = False) -> list[Term]:
        views = distinct_views(self.aggregates)
        parts = [self.input.names[each] for each in self.grouping]
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            function = f"{call.function}_RETRACT" if self.needs_retraction else call.function
            view = f"distinct${views.index(call.arguments)} " if call.is_distinct else ""
            parts.append(f"{function}({view}{together(names)}) AS {call.name}")
        return [*self._group_by(), ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class IncrementalGroupAggregate(PhysicalNode):
    """The partial aggregation of distinct values after its exchange, and the first phase of the final one.

    Attributes:
        grouping: the keys of the partial aggregation.
        aggregates: its aggregates, over `local_input_type`.
        accumulators: the names of their accumulators.
        local_input_type: the input of its first phase.
        partial_type: its results.
        final_grouping: the keys of the final aggregation, in the results of the partial one.
        final_aggregates: its aggregates, over these results.
        state_ttl_ms: the time-to-live of a STATE_TTL hint; None for `table.exec.state.ttl`.
    """

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    accumulators: tuple[tuple[str, ...], ...]
    local_input_type: RowType
    partial_type: RowType
    final_grouping: tuple[int, ...]
    final_aggregates: tuple[AggregateCall, ...]
    state_ttl_ms: int | None = field(default=None, kw_only=True)

    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.final_grouping]
        views = distinct_views(self.aggregates)
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            view = f"distinct${views.index(call.arguments)} " if call.is_distinct else ""
            parts.append(f"{call.function}({view}{together(names)}) AS {together(names)}")
        return [
            ("partialAggGrouping", f"[{self._columns(self.grouping)}]"),
            ("finalAggGrouping", f"[{self._columns(self.final_grouping)}]"),
            ("select", f"[{', '.join(parts)}]"),
        ]


@dataclass(eq=False)
class OverAggregate(PhysicalNode):
    groups: tuple[Any, ...]
    needs_retraction: bool = field(default=False, kw_only=True)

    def terms(self, *, infix: bool = False) -> list[Term]:
        group = self.groups[0]
        terms = []
        if group.partition:
            terms.append(("partitionBy", f"[{self._columns(group.partition)}]"))
        if group.order:
            terms.append(("orderBy", f"[{self._order(group.order)}]"))
        for each in self.groups:
            terms.append(("window", f"[{_frame_text(each)}]"))
        calls = [call for each in self.groups for call in each.aggregates]
        parts = list(self.input.names) + [f"{call_text(call, self.input.names)} AS {call.name}" for call in calls]
        terms.append(("select", f"[{', '.join(parts)}]"))
        return terms


def _frame_text(group: Any) -> str:
    def bound(value: int | None, unbounded: str) -> str:
        if value is None:
            return unbounded
        if value == 0:
            return "CURRENT ROW"
        return f"{abs(value)} {'PRECEDING' if value < 0 else 'FOLLOWING'}"

    unit = "ROWS" if group.is_rows else "RANG"
    lower, upper = bound(group.lower, "UNBOUNDED PRECEDING"), bound(group.upper, "UNBOUNDED FOLLOWING")
    return f" {unit} BETWEEN {lower} AND {upper}"
