"""The node that writes to a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.planner.changelog.modes import mode_text
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term


@dataclass(eq=False)
class Sink(PhysicalNode):
    table: Any
    sink: Any
    table_name: str
    primary_key: tuple[int, ...] = ()
    upsert_materialize: bool = False
    on_conflict: str | None = None
    #: The rows of the table; None for those of the input.
    sink_row_type: RowType | None = None
    abilities: tuple[Any, ...] = ()

    def terms(self, *, infix: bool = False) -> list[Term]:
        terms = [("table", f"[{self.table_name}]"), ("fields", f"[{', '.join(self.input.names)}]")]
        if self.upsert_materialize:
            terms.append(("upsertMaterialize", "[true]"))
        if self.on_conflict is not None:
            terms.append(("conflictStrategy", f"[{self.on_conflict}]"))
        return terms


def changelog_text(node: PhysicalNode) -> str:
    """Returns the changes that a node sends, such as `I,UA,D`; NONE for sinks."""
    return "NONE" if isinstance(node, Sink) else mode_text(node.modify_kinds, node.update_kind)
