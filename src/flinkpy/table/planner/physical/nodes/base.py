"""The base class of physical nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from flinkpy.graph.table_specs import SortField
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.planner.changelog.modes import ModifyKind, UpdateKind

#: A part of a node's description, such as ("groupBy", "[a]").
Term = tuple[str, str]


@dataclass(eq=False)
class PhysicalNode:
    """The base class.

    Attributes:
        inputs: the nodes that rows come from.
        row_type: the rows of the output.
        modify_kinds: the changes that it sends.
        update_kind: how it sends updates.
    """

    inputs: list[PhysicalNode]
    row_type: RowType
    modify_kinds: frozenset[ModifyKind] = field(default=frozenset(), kw_only=True)
    update_kind: UpdateKind = field(default=UpdateKind.NONE, kw_only=True)
    #: The name of the node in errors about its input; None for the name of its class.
    requester: ClassVar[str | None] = None
    #: The version in compiled plans. It rises when a field gets another meaning or goes; new fields have defaults.
    plan_version: ClassVar[int] = 1

    @property
    def input(self) -> PhysicalNode:
        return self.inputs[0]

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def names(self) -> tuple[str, ...]:
        return self.row_type.names

    def terms(self, *, infix: bool = False) -> list[Term]:
        """Returns the description of the node. `infix` is for execution plans."""
        return []

    def description(self, *, infix: bool = False) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.terms(infix=infix))})"

    def _columns(self, columns: tuple[int, ...] | list[int], place: int = 0) -> str:
        names = self.inputs[place].names
        return ", ".join(names[each] for each in columns)

    def _order(self, order: tuple[SortField, ...]) -> str:
        fields = self.input.row_type.fields
        parts = []
        for each in order:
            parts.append(f"{fields[each.column].name} {'ASC' if each.ascending else 'DESC'}")
        return ", ".join(parts)

    def _select(self) -> Term:
        return "select", f"[{', '.join(self.names)}]"


def walk(node: PhysicalNode) -> Iterator[PhysicalNode]:
    """Yields the node and all nodes below it, parents first; a shared node once per consumer."""
    yield node
    for each in node.inputs:
        yield from walk(each)
