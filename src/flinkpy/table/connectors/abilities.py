"""Abilities: what the planner has handed over to a source or sink, as data.

A connector's object cannot be written to a compiled plan. The plan has the table and these abilities instead, from
which the object is made again.

Source: org.apache.flink.table.planner.plan.abilities.{source.SourceAbilitySpec, sink.SinkAbilitySpec}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from flinkpy.sql.rex import RexNode
from flinkpy.sql.types.logical_types import RowType


class Ability(Protocol):
    """Data that is applied to a fresh source or sink."""

    def apply(self, connector: Any) -> Any:
        """Returns the source or sink that has taken over this part; None if it cannot."""
        ...


# -- sources ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadingMetadata:
    """The rows end with these metadata columns."""

    keys: tuple[str, ...]

    def apply(self, connector: Any) -> Any:
        return connector.with_metadata(self.keys)


@dataclass(frozen=True, slots=True)
class FilterPushDown:
    """The source skips rows for which one of the conjuncts that it can evaluate is not true."""

    predicates: tuple[RexNode, ...]

    def apply(self, connector: Any) -> Any:
        found = connector.with_filters(self.predicates)
        return None if found is None else found.source


@dataclass(frozen=True, slots=True)
class PartitionPushDown:
    """The source reads these partitions only. Each is a tuple of (column, value) pairs."""

    partitions: tuple[tuple[tuple[str, str | None], ...], ...]

    def apply(self, connector: Any) -> Any:
        return connector.with_partitions([dict(each) for each in self.partitions])


@dataclass(frozen=True, slots=True)
class ProjectPushDown:
    """The source emits these columns or fields of nested rows only; see `ScanTableSource.with_projection`."""

    projected_fields: tuple[tuple[int, ...], ...]
    produced_type: RowType

    def apply(self, connector: Any) -> Any:
        return connector.with_projection(self.projected_fields, self.produced_type)


@dataclass(frozen=True, slots=True)
class LimitPushDown:
    """A reader may stop after this number of rows."""

    limit: int

    def apply(self, connector: Any) -> Any:
        return connector.with_limit(self.limit)


# -- sinks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WritingMetadata:
    """The rows for the sink end with these metadata columns."""

    keys: tuple[str, ...]

    def apply(self, connector: Any) -> Any:
        return connector.with_metadata(self.keys)


@dataclass(frozen=True, slots=True)
class Overwrite:
    """INSERT OVERWRITE."""

    def apply(self, connector: Any) -> Any:
        return connector.with_overwrite()
