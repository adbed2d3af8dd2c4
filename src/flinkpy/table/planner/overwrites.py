"""Refuses statement sets in which one INSERT would replace what another one writes.

Source: none. Flink runs such a set, and which of the files remain depends on which INSERT commits last.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.common.errors import ValidationError
from flinkpy.sql.rex import Literal
from flinkpy.table.connectors.abilities import Overwrite
from flinkpy.table.planner.logical import nodes as rel


def check_overwrites(operations: Sequence[rel.RelNode]) -> None:
    """Raises: ValidationError if an INSERT OVERWRITE and another INSERT write to the same table or files.

    Different static partitions of one table do not touch each other.
    """
    sinks = [each for each in operations if isinstance(each, rel.Sink)]
    for place, one in enumerate(sinks):
        for other in sinks[place + 1 :]:
            is_overwrite = any(isinstance(each, Overwrite) for each in (*one.abilities, *other.abilities))
            if is_overwrite and _target(one) == _target(other) and not _are_apart(one, other):
                raise ValidationError(
                    f"INSERT OVERWRITE replaces what another INSERT of the statement set writes: '{one.name}' and "
                    f"'{other.name}' have the same files. Write to each place once, for example with UNION ALL, or "
                    "execute the statements one after the other."
                )


def _target(sink: rel.Sink) -> tuple[str, ...]:
    """Returns what tells the place of a table's rows: its files, or else its name."""
    options = sink.table.options
    path = options.get("path")
    if path is None:
        return (sink.name,)
    return options.get("connector", ""), path.removeprefix("file://").rstrip("/")


def _are_apart(one: rel.Sink, other: rel.Sink) -> bool:
    """True if a column has different constants in both."""
    known = dict(one.static_partition)
    return any(
        name in known
        and isinstance(value, Literal)
        and isinstance(known[name], Literal)
        and known[name].value != value.value
        for name, value in other.static_partition
    )
