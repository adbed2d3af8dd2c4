"""Nodes that rank, sort and limit."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.graph.table_specs import SortField
from flinkpy.sql.types.logical_types import is_rowtime
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term


@dataclass(eq=False)
class Rank(PhysicalNode):
    function: str
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    start: int
    end: int | None
    end_column: int | None
    outputs_rank: bool
    #: AppendFastStrategy, UpdateFastStrategy or RetractStrategy; the changelog program sets it.
    strategy: str = "AppendFastStrategy"
    primary_key: tuple[int, ...] = ()

    @property
    def strategy_text(self) -> str:
        return _strategy_text(self.strategy, self.primary_key)

    def terms(self, *, infix: bool = False) -> list[Term]:
        end = f"rankEnd={self.end}" if self.end_column is None else f"rankEnd={self.input.names[self.end_column]}"
        terms = [
            ("strategy", f"[{self.strategy_text}]"),
            ("rankType", f"[{self.function}]"),
            ("rankRange", f"[rankStart={self.start}, {end}]"),
        ]
        if self.partition:
            terms.append(("partitionBy", f"[{self._columns(self.partition)}]"))
        fields = self.input.row_type.fields
        role = "ROWTIME " if any(is_rowtime(fields[each.column].type) for each in self.order) else ""
        return [*terms, ("orderBy", f"[{role}{self._order(self.order)}]"), self._select()]


def _strategy_text(strategy: str, primary_key: tuple[int, ...]) -> str:
    if strategy == "UpdateFastStrategy":
        return f"UpdateFastStrategy[{','.join(map(str, primary_key))}]"
    return strategy


@dataclass(eq=False)
class Sort(PhysicalNode):
    order: tuple[SortField, ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("orderBy", f"[{self._order(self.order)}]")]


@dataclass(eq=False)
class TemporalSort(Sort):
    is_event_time: bool


@dataclass(eq=False)
class SortLimit(PhysicalNode):
    order: tuple[SortField, ...]
    offset: int
    limit: int
    strategy: str = "AppendFastStrategy"
    primary_key: tuple[int, ...] = ()

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [
            ("orderBy", f"[{self._order(self.order)}]"),
            ("offset", f"[{self.offset}]"),
            ("fetch", f"[{self.limit}]"),
            ("strategy", f"[{_strategy_text(self.strategy, self.primary_key)}]"),
        ]


@dataclass(eq=False)
class Limit(PhysicalNode):
    offset: int
    limit: int | None

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("offset", f"[{self.offset}]"), ("fetch", f"[{'all' if self.limit is None else self.limit}]")]
