"""Nodes of batch mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.graph.table_specs import EngineFiles, EngineFunction, EngineTable
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term


@dataclass(eq=False)
class EngineQuery(PhysicalNode):
    """A part of the query that an engine computes."""

    engine: str
    query: str
    tables: tuple[EngineTable, ...]
    files: tuple[EngineFiles, ...]
    functions: tuple[EngineFunction, ...]
    scans: tuple[str, ...]
    is_ordered: bool = False

    def terms(self, *, infix: bool = False) -> list[Term]:
        terms = [("engine", f"[{self.engine}]")]
        if self.files:
            files = [f"{files.name}={scan}" for files, scan in zip(self.files, self.scans, strict=True)]
            terms.append(("files", f"[{', '.join(files)}]"))
        if self.functions:
            kernels = [f"{each.name}={each.expression}" for each in self.functions]
            terms.append(("kernels", f"[{', '.join(kernels)}]"))
        # Placeholders of inputs and kernels are in braces.
        query = self.query.replace("{", "").replace("}", "") if self.engine == "Spark" else self.query
        return [*terms, ("query", f"[{query}]"), self._select()]


@dataclass(eq=False)
class FinalRows(PhysicalNode):
    """Emits the rows of the table that a changelog describes when it has ended."""

    #: The only row of a table without rows; None for none.
    if_empty: tuple[Any, ...] | None = None
