"""Nodes that call functions which return tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import UNNEST, UNNEST_WITH_ORDINALITY, RexNode, UserFunctionCall
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term
from flinkpy.table.planner.physical.nodes.joins import joined_names
from flinkpy.table.planner.rex_text import CHARSET, rex_text, type_text

#: The names that plans show for UNNEST.
_UNNEST_NAMES = {UNNEST: "$UNNEST_ROWS$1", UNNEST_WITH_ORDINALITY: "$UNNEST_ROWS_WITH_ORDINALITY$1"}


@dataclass(eq=False)
class Correlate(PhysicalNode):
    call: RexNode
    join_type: JoinType
    function_type: RowType
    condition: RexNode | None = None

    @property
    def name(self) -> str:
        return "PythonCorrelate" if isinstance(self.call, UserFunctionCall) else "Correlate"

    def terms(self, *, infix: bool = False) -> list[Term]:
        call = rex_text(self.call, [f"$cor0.{name}" for name in self.input.names])
        for function, shown in _UNNEST_NAMES.items():
            call = call.replace(f"{function}(", f"{shown}(") if call.startswith(f"{function}(") else call
        fields = ", ".join(f"{type_text(each.type)} {each.name}".replace(CHARSET, "") for each in self.row_type.fields)
        terms = [
            ("invocation", f"[{call}]"),
            ("correlate", f"[table({call})]"),
            ("select", f"[{','.join(self.names)}]"),
            ("rowType", f"[RecordType({fields})]"),
            ("joinType", f"[{'INNER' if self.join_type is JoinType.INNER else 'LEFT'}]"),
        ]
        if self.condition is not None:
            # The columns of the function count from 0.
            width = len(self.input.names)
            columns = [f"${place - width}" if place >= width else name for place, name in enumerate(self.names)]
            terms.append(("condition", f"[{rex_text(self.condition, columns)}]"))
        return terms


@dataclass(eq=False)
class MLPredictTableFunction(Correlate):
    @property
    def name(self) -> str:
        return type(self).__name__


@dataclass(eq=False)
class VectorSearchTableFunction(Correlate):
    @property
    def name(self) -> str:
        return type(self).__name__


@dataclass(eq=False)
class ProcessTableFunction(PhysicalNode):
    function: Any
    invocation: str
    takes_changes: bool
    emits_changes: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("invocation", f"[{self.invocation}]"), self._select()]


@dataclass(eq=False)
class RowLevelChange(ProcessTableFunction):
    pass


@dataclass(eq=False)
class ReplicateRows(PhysicalNode):
    """Emits each row without its first column as often as this column says."""

    @property
    def name(self) -> str:
        return "Correlate"

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        call = f"[$REPLICATE_ROWS$1({', '.join(names)})]"
        return [
            ("invocation", call),
            ("select", f"[{', '.join(joined_names(names, names[1:]))}]"),
            ("joinType", "[INNER]"),
        ]
