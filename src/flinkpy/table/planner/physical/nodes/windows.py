"""Nodes that assign windows, and those that aggregate and rank rows of windows."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.graph.table_specs import SortField
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.planner.logical.nodes import Window
from flinkpy.table.planner.physical.emit_strategy import NO_EMIT, EmitStrategy
from flinkpy.table.planner.physical.nodes.aggregates import AggregateNode
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term
from flinkpy.table.planner.physical.texts import call_text, together, window_text


@dataclass(eq=False)
class WindowTableFunction(PhysicalNode):
    window: Window
    time_column: int
    is_event_time: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        return [("window", f"[{window_text(self.window, f'time_col=[{names[self.time_column]}]', names)}]")]


@dataclass(eq=False)
class WindowAggregateNode(AggregateNode):
    window: Window
    #: The time attribute by which rows get windows; None if they have the columns `bounds`.
    time_column: int | None
    bounds: tuple[int, int] | None
    is_event_time: bool
    #: window_start, window_end, window_time as far as they are in the output.
    properties: tuple[str, ...]

    @property
    def slice_end_name(self) -> str:
        """The name that plans show for the column that ends the slices of the first phase."""
        return "$slice_end" if self.time_column is not None else "$window_end"

    def _window_text(self) -> str:
        names = self.input.names
        if self.time_column is not None:
            return window_text(self.window, f"time_col=[{names[self.time_column]}]", names)
        assert self.bounds is not None
        return window_text(self.window, f"win_start=[{names[self.bounds[0]]}], win_end=[{names[self.bounds[1]]}]")

    def _properties_text(self) -> list[str]:
        first = len(self.grouping) + len(self.aggregates)
        short = {"window_start": "start", "window_end": "end", "window_time": "rowtime"}
        if not self.is_event_time:
            short["window_time"] = "proctime"
        return [f"{short[each]}('w$) AS {self.names[first + place]}" for place, each in enumerate(self.properties)]


@dataclass(eq=False)
class WindowAggregate(WindowAggregateNode):
    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.grouping] + self._calls() + self._properties_text()
        window = ("window", f"[{self._window_text()}]")
        return [*self._group_by(), window, ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class LocalWindowAggregate(WindowAggregateNode):
    accumulators: tuple[tuple[str, ...], ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.grouping]
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            parts.append(f"{call_text(call, self.input.names)} AS {together(names)}")
        parts.append(f"slice_end('w$) AS {self.slice_end_name}")
        window = ("window", f"[{self._window_text()}]")
        return [*self._group_by(), window, ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class GlobalWindowAggregate(WindowAggregateNode):
    accumulators: tuple[tuple[str, ...], ...]
    local_input_type: RowType

    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.grouping]
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            parts.append(f"{call.function}({together(names)}) AS {call.name}")
        parts += self._properties_text()
        column = "slice_end" if self.time_column is not None else "win_end"
        window = window_text(self.window, f"{column}=[{self.slice_end_name}]")
        return [*self._group_by(), ("window", f"[{window}]"), ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class GroupWindowAggregate(AggregateNode):
    window: Window
    time_column: int
    is_event_time: bool
    properties: tuple[str, ...]
    #: When results are sent before and after the end of windows.
    emit: EmitStrategy = NO_EMIT

    @property
    def produces_updates(self) -> bool:
        """True if windows send results early or late, which updates them."""
        return self.emit.early_ms is not None or (self.is_event_time and self.emit.late_ms is not None)

    def terms(self, *, infix: bool = False) -> list[Term]:
        time, window = self.input.names[self.time_column], self.window
        sizes = f"{window.size_ms}" if window.kind != "HOP" else f"{window.size_ms}, {window.slide_ms}"
        kind = {"TUMBLE": "TumblingGroupWindow", "HOP": "SlidingGroupWindow", "SESSION": "SessionGroupWindow"}
        parts = [self.input.names[each] for each in self.grouping] + self._calls()
        parts += [f"{each}('w$) AS w${each}" for each in self.properties]
        return [
            *self._group_by(),
            ("window", f"[{kind[window.kind]}('w$, {time}, {sizes})]"),
            ("properties", f"[{', '.join(f'w${each}' for each in self.properties)}]"),
            ("select", f"[{', '.join(parts)}]"),
            *([("emit", f"[{self.emit}]")] if str(self.emit) else []),
        ]


@dataclass(eq=False)
class WindowRank(PhysicalNode):
    window: Window
    bounds: tuple[int, int]
    function: str
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    start: int
    end: int
    outputs_rank: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        window = window_text(self.window, f"win_start=[{names[self.bounds[0]]}], win_end=[{names[self.bounds[1]]}]")
        terms = [
            ("window", f"[{window}]"),
            ("rankType", f"[{self.function}]"),
            ("rankRange", f"[rankStart={self.start}, rankEnd={self.end}]"),
            ("partitionBy", f"[{self._columns(self.partition)}]"),
        ]
        return [*terms, ("orderBy", f"[{self._order(self.order)}]"), self._select()]


@dataclass(eq=False)
class WindowDeduplicate(PhysicalNode):
    window: Window
    bounds: tuple[int, int]
    key: tuple[int, ...]
    time_column: int
    keep_last: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        window = window_text(self.window, f"win_start=[{names[self.bounds[0]]}], win_end=[{names[self.bounds[1]]}]")
        return [
            ("window", f"[{window}]"),
            ("keep", f"[{'LastRow' if self.keep_last else 'FirstRow'}]"),
            ("partitionKeys", f"[{self._columns(self.key)}]"),
            ("orderKey", f"[{names[self.time_column]}]"),
            ("order", "[ROWTIME]"),
        ]
