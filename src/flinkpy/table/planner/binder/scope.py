"""Scope: the tables and columns that names stand for at one place of a query.

Source: org.apache.calcite.sql.validate.SqlValidatorScope.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkpy.sql.parser.nodes import Identifier
from flinkpy.sql.rex import FieldAccess, InputRef, RexNode
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.planner.binder.program_nodes import ColumnReference
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical.rex_nodes import OuterRef


@dataclass(frozen=True, slots=True)
class Relation:
    """One table of FROM.

    Attributes:
        path: the names under which it is known, such as its alias, or catalog, database and table.
        names: its columns as the user sees them.
        first: the position of its first column in the rows of FROM.
        row_type: the types of its columns, with their names in the rows of FROM.
        hidden: columns that `*` leaves out, because USING merged them into another table's.
    """

    path: tuple[str, ...]
    names: tuple[str, ...]
    first: int
    row_type: RowType
    hidden: frozenset[int] = frozenset()

    def matches(self, parts: tuple[str, ...]) -> bool:
        return bool(parts) and self.path[-len(parts) :] == parts

    def column(self, name: str) -> int | None:
        """Returns the position in the rows of FROM; None for an unknown name."""
        if name in self.names:
            return self.first + self.names.index(name)
        return None


@dataclass(slots=True)
class Scope:
    """The tables of a FROM clause, and the scope of the query around it.

    Attributes:
        correlation: the id of references from inner queries to this scope.
        is_used_outside: set once an inner query refers to a column of this scope.
    """

    relations: tuple[Relation, ...]
    parent: Scope | None = None
    correlation: int = 0
    #: Columns that USING or NATURAL merged: name to expression.
    merged: dict[str, RexNode] = field(default_factory=dict)
    is_used_outside: bool = False

    def resolve(self, name: Identifier) -> RexNode:
        """Returns the column, or the field of a column, that the name stands for.

        Raises:
            ValidationError: there is none, or there are several.
        """
        scope: Scope | None = self
        while scope is not None:
            found = scope._find(name)
            if found is not None:
                if scope is self:
                    return found
                scope.is_used_outside = True
                return _outer(found, scope.correlation)
            scope = scope.parent
        raise self._unknown(name)

    def _find(self, name: Identifier) -> RexNode | None:
        parts = name.parts
        # The longest qualifier first: catalog.database.table.column, then table.column, then column.
        for length in range(len(parts) - 1, 0, -1):
            candidates = [each for each in self.relations if each.matches(parts[:length])]
            found = [(each, place) for each in candidates if (place := each.column(parts[length])) is not None]
            if len(found) > 1:
                raise invalid(name, f"Column '{parts[length]}' is ambiguous")
            if found:
                relation, place = found[0]
                return self._fields(self._reference(relation, place), name, length + 1)
        if parts[0] in self.merged:
            return self._fields(self.merged[parts[0]], name, 1)
        places = [(each, place) for each in self.relations if (place := each.column(parts[0])) is not None]
        if len(places) > 1:
            raise invalid(name, f"Column '{parts[0]}' is ambiguous")
        if places:
            return self._fields(self._reference(*places[0]), name, 1)
        return None

    def _reference(self, relation: Relation, place: int) -> RexNode:
        return InputRef(relation.row_type.fields[place - relation.first].type, place)

    def _fields(self, value: RexNode, name: Identifier, first: int) -> RexNode:
        for part in name.parts[first:]:
            kind = value.type
            if not isinstance(kind, RowType):
                raise invalid(name, f"Column '{'.'.join(name.parts)}' not found in any table")
            if part not in kind.names:
                hint = did_you_mean(part, kind.names)
                raise invalid(name, f"Column '{'.'.join(name.parts)}' not found in any table{hint}")
            index = kind.names.index(part)
            inner = kind.fields[index].type
            value = FieldAccess(inner.as_nullable(inner.nullable or kind.nullable), value, index, part)
        return value

    def _unknown(self, name: Identifier) -> Exception:
        parts = name.parts
        if isinstance(name, ColumnReference):
            known = self.column_names()
            hint = did_you_mean(parts[0], known)
            return invalid(name, f"Cannot resolve field [{parts[0]}], input field list:[{', '.join(known)}]{hint}")
        if len(parts) > 1:
            for length in range(len(parts) - 1, 0, -1):
                tables = [each for each in self.relations if each.matches(parts[:length])]
                if tables:
                    known = [column for each in tables for column in each.names]
                    hint = did_you_mean(parts[length], known)
                    table = ".".join(parts[:length])
                    return invalid(name, f"Column '{parts[length]}' not found in table '{table}'{hint}")
            known = [*(each.path[-1] for each in self.relations if each.path), *self.column_names()]
            return invalid(name, f"Table '{'.'.join(parts[:-1])}' not found{did_you_mean(parts[0], known)}")
        hint = did_you_mean(parts[0], self.column_names())
        return invalid(name, f"Column '{parts[0]}' not found in any table{hint}")

    def inner(self, value: RexNode) -> RexNode | None:
        """Returns what an inner query's reference to this scope is here: a column or a field; None for all else."""
        if isinstance(value, OuterRef):
            return InputRef(value.type, value.index) if value.correlation == self.correlation else None
        if isinstance(value, FieldAccess):
            operand = self.inner(value.operand)
            return None if operand is None else value.with_operands((operand,))
        return None

    def column_names(self) -> list[str]:
        return [name for each in self.relations for name in each.names]

    def expand_star(self, qualifier: Identifier | None) -> list[tuple[str, RexNode]]:
        """Returns the (name, expression) pairs of `*` or `t.*`."""
        if qualifier is None:
            columns = list(self.merged.items())
            for each in self.relations:
                columns += [
                    (name, self._reference(each, each.first + offset))
                    for offset, name in enumerate(each.names)
                    if offset not in each.hidden
                ]
            return columns
        tables = [each for each in self.relations if each.matches(qualifier.parts)]
        if tables:
            each = tables[0]
            return [(name, self._reference(each, each.first + offset)) for offset, name in enumerate(each.names)]
        value = self._find(qualifier)
        if value is not None and isinstance(value.type, RowType):
            return [
                (
                    part.name,
                    FieldAccess(part.type.as_nullable(part.type.nullable or value.type.nullable), value, at, part.name),
                )
                for at, part in enumerate(value.type.fields)
            ]
        hint = did_you_mean(qualifier.last, [each.path[-1] for each in self.relations if each.path])
        raise invalid(qualifier, f"Unknown identifier '{'.'.join(qualifier.parts)}'{hint}")


def _outer(value: RexNode, correlation: int) -> RexNode:
    if isinstance(value, InputRef):
        return OuterRef(value.type, correlation, value.index)
    return value.with_operands(tuple(_outer(each, correlation) for each in value.operands))
