"""Base classes of the nodes of syntax trees, which are immutable, comparable and know their place in the text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Position(NamedTuple):
    """A range of characters in the SQL text. Lines and columns begin with 1; the end is the last character itself."""

    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, end: Position) -> Position:
        """Returns the range from the beginning of this one to the end of another."""
        return Position(self.line, self.column, end.end_line, end.end_column)


#: Position of a node that no text was parsed for.
NO_POSITION = Position(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Node:
    """Base class of all nodes. Two nodes are equal if their types and fields are, wherever they stand in the text."""

    position: Position = field(default=NO_POSITION, compare=False, repr=False, kw_only=True)

    def children(self) -> Iterator[Node]:
        """Yields the nodes in the fields of this node, in the order of the fields."""
        for each in dataclasses.fields(self):
            yield from _nodes_in(getattr(self, each.name))


def _nodes_in(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple) and not isinstance(value, Position):
        for item in value:
            yield from _nodes_in(item)


def walk(node: Node) -> Iterator[Node]:
    """Yields the node and all nodes below it, parents first, without recursion."""
    pending = [node]
    while pending:
        found = pending.pop()
        yield found
        pending.extend(reversed(list(found.children())))


@dataclass(frozen=True, slots=True)
class Expression(Node):
    """Base class of everything that has a value."""


@dataclass(frozen=True, slots=True)
class Query(Node):
    """Base class of everything that has rows, except references to tables in FROM."""


@dataclass(frozen=True, slots=True)
class TableReference(Node):
    """Base class of everything that may stand in FROM."""


@dataclass(frozen=True, slots=True)
class DataType(Node):
    """Base class of the types in casts and column definitions.

    Each has a field `nullable`: False for NOT NULL, True for NULL, None where the text says neither.
    """


@dataclass(frozen=True, slots=True)
class Statement(Node):
    """Base class of everything that can be executed by itself, except queries, which `QueryStatement` wraps."""


@dataclass(frozen=True, slots=True)
class Identifier(Expression):
    """A name of one or more parts, such as `cat.db.t` or a column.

    In an expression it stands for a column, a field of a column, or a column of a table: the binder decides.
    """

    parts: tuple[str, ...]
    #: For each part, whether it was written in backticks.
    quoted: tuple[bool, ...]

    @classmethod
    def of(cls, *parts: str) -> Identifier:
        """Returns an identifier with these parts, unquoted."""
        return cls(parts, (False,) * len(parts))

    @property
    def last(self) -> str:
        """The last part: the name of the object without its catalog and database."""
        return self.parts[-1]

    def __str__(self) -> str:
        return ".".join(self.parts)
