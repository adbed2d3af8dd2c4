"""The node that finds patterns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flinkpy.cep.pattern import ONCE, Pattern
from flinkpy.graph.table_specs import SortField
from flinkpy.sql.rex import RexNode
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term
from flinkpy.table.planner.rex_text import rex_text


@dataclass(eq=False)
class Match(PhysicalNode):
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    pattern: Pattern
    definitions: tuple[tuple[str, RexNode], ...]
    measures: tuple[tuple[str, RexNode], ...]
    is_event_time: bool
    requester: ClassVar[str | None] = "Match Recognize"

    def terms(self, *, infix: bool = False) -> list[Term]:
        terms = [("partitionBy", f"[{self._columns(self.partition)}]")] if self.partition else []
        measures = [f"FINAL({rex_text(value, self.input.names)}) AS {name}" for name, value in self.measures]
        places = [f"${place}" for place in range(len(self.input.names))]
        definitions = [f"{name}={rex_text(value, places, variable=name)}" for name, value in self.definitions]
        return [
            *terms,
            ("orderBy", f"[{self._order(self.order)}]"),
            ("measures", f"[{', '.join(measures)}]"),
            ("rowsPerMatch", "[ONE ROW PER MATCH]"),
            ("after", f"[{_skip_text(self.pattern)}]"),
            ("pattern", f"[{_pattern_text(self.pattern)}]"),
            *([("within interval", f"[{self.pattern.within_ms}]")] if self.pattern.within_ms else []),
            ("define", f"[{{{', '.join(definitions)}}}]"),
        ]


def _skip_text(pattern: Pattern) -> str:
    variable = pattern.skip.variable
    return pattern.skip.mode.value + ("" if variable is None else f" _UTF-16LE'{variable}'")


def _pattern_text(pattern: Pattern) -> str:
    text = ""
    for each in pattern.variables:
        part, quantifier = f"_UTF-16LE'{each.name}'", each.quantifier
        if quantifier != ONCE:
            minimum = 0 if quantifier.is_optional else quantifier.minimum
            maximum = -1 if quantifier.maximum is None else quantifier.maximum
            is_reluctant = quantifier.maximum is None and not quantifier.is_greedy
            part = f"PATTERN_QUANTIFIER({part}, {minimum}, {maximum}, {str(is_reluctant).lower()})"
        text = f"({text}, {part})" if text else part
    return text
