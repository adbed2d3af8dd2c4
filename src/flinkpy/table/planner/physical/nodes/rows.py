"""Nodes that read, compute, send and change single rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.graph.table_specs import DEFAULT_WATERMARK_PARAMS, SourceWatermarks, WatermarkParams
from flinkpy.sql.rex import Literal, RexNode, UserFunctionCall
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term
from flinkpy.table.planner.rex_text import rex_text


@dataclass(eq=False)
class TableSourceScan(PhysicalNode):
    table: Any
    source: Any
    pushed: tuple[str, ...] = ()
    abilities: tuple[Any, ...] = ()
    watermarks: SourceWatermarks | None = None

    def terms(self, *, infix: bool = False) -> list[Term]:
        identifier = self.table.identifier
        path = ", ".join((*identifier.parts, *self.pushed))
        return [("table", f"[[{path}]]"), ("fields", f"[{', '.join(self.names)}]")]


@dataclass(eq=False)
class Values(PhysicalNode):
    rows: tuple[tuple[Literal, ...], ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        rows = ", ".join("{ " + ", ".join(rex_text(each, ()) for each in row) + " }" for row in self.rows)
        return [("tuples", f"[[{rows}]]")]


@dataclass(eq=False)
class Calc(PhysicalNode):
    projection: tuple[RexNode, ...]
    condition: RexNode | None = None
    #: The names of the input's columns where the query renamed them; None for those of the input.
    shown_names: tuple[str, ...] | None = None

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.shown_names or self.input.names
        parts = []
        for name, expression in zip(self.names, self.projection, strict=True):
            text = rex_text(expression, names, infix=infix)
            parts.append(text if text == name else f"{text} AS {name}")
        terms = [("select", f"[{', '.join(parts)}]")]
        if self.condition is not None:
            terms.append(("where", f"[{rex_text(self.condition, names, infix=infix)}]"))
        return terms


@dataclass(eq=False)
class AsyncCalc(PhysicalNode):
    """Appends the results of asynchronous functions to the columns of its input."""

    calls: tuple[UserFunctionCall, ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        added = zip(self.calls, self.names[len(names) :], strict=True)
        shown = [*names, *(f"{rex_text(call, names, infix=infix)} AS {name}" for call, name in added)]
        return [("select", f"[{', '.join(shown)}]")]


@dataclass(eq=False)
class WatermarkAssigner(PhysicalNode):
    rowtime: int
    watermark: RexNode
    params: WatermarkParams = DEFAULT_WATERMARK_PARAMS

    def terms(self, *, infix: bool = False) -> list[Term]:
        text = rex_text(self.watermark, self.input.names, infix=infix)
        return [("rowtime", f"[{self.names[self.rowtime]}]"), ("watermark", f"[{text}]")]


@dataclass(eq=False)
class MiniBatchAssigner(PhysicalNode):
    interval_ms: int
    is_event_time: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        mode = "RowTime" if self.is_event_time else "ProcTime"
        return [("interval", f"[{self.interval_ms}ms]"), ("mode", f"[{mode}]")]


@dataclass(eq=False)
class Exchange(PhysicalNode):
    """Sends rows with one key to one subtask. No keys: all rows to a single subtask. None: to all subtasks."""

    keys: tuple[int, ...] | None

    def terms(self, *, infix: bool = False) -> list[Term]:
        if self.keys is None:
            return [("distribution", "[broadcast]")]
        return [("distribution", f"[hash[{self._columns(self.keys)}]]" if self.keys else "[single]")]


@dataclass(eq=False)
class DropUpdateBefore(PhysicalNode):
    pass


@dataclass(eq=False)
class ChangelogNormalize(PhysicalNode):
    unique_key: tuple[int, ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("key", f"[{self._columns(self.unique_key)}]")]


@dataclass(eq=False)
class Union(PhysicalNode):
    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("all", "[true]"), ("union", f"[{', '.join(self.names)}]")]


@dataclass(eq=False)
class Expand(PhysicalNode):
    projections: tuple[tuple[RexNode, ...], ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        shown = []
        for projection in self.projections:
            parts = []
            for name, expression in zip(self.names, projection, strict=True):
                text = "null" if _is_null(expression) else rex_text(expression, self.input.names, infix=infix)
                parts.append(text if text == name else f"{text} AS {name}")
            shown.append("{" + ", ".join(parts) + "}")
        return [("projects", f"[{', '.join(shown)}]")]


def _is_null(node: RexNode) -> bool:
    return isinstance(node, Literal) and node.value is None
