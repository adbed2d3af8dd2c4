"""Statistics of tables, partitions and columns, which ANALYZE TABLE computes and catalogs store.

Source: org.apache.flink.table.catalog.stats.{CatalogTableStatistics, CatalogColumnStatistics,
CatalogColumnStatisticsDataBase}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

#: The parts of a partition by name.
PartitionSpec = tuple[tuple[str, str], ...]
_UNKNOWN = -1


class CatalogTableStatistics:
    """The size of a table or partition. -1 stands for what is not known.

    Args:
        row_count: the number of rows.
        field_count: the number of files. Flink has this name and meaning.
        total_size: bytes in files.
        raw_data_size: bytes without compression.
    """

    def __init__(
        self,
        row_count: int | None = None,
        field_count: int | None = None,
        total_size: int | None = None,
        raw_data_size: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        numbers = (row_count, field_count, total_size, raw_data_size)
        self._numbers = tuple(_UNKNOWN if each is None else each for each in numbers)
        self._properties = dict(properties or {})

    def get_row_count(self) -> int:
        return self._numbers[0]

    def get_field_count(self) -> int:
        return self._numbers[1]

    def get_total_size(self) -> int:
        return self._numbers[2]

    def get_raw_data_size(self) -> int:
        return self._numbers[3]

    def get_properties(self) -> dict[str, str]:
        return dict(self._properties)

    def copy(self) -> CatalogTableStatistics:
        rows, files, size, raw_size = self._numbers
        return CatalogTableStatistics(rows, files, size, raw_size, self._properties)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CatalogTableStatistics):
            return NotImplemented
        return (self._numbers, self._properties) == (other._numbers, other._properties)

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __repr__(self) -> str:
        return f"CatalogTableStatistics(row_count={self.get_row_count()}, total_size={self.get_total_size()})"


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The values of a column. None stands for what is not known, or has no meaning for the type.

    Attributes:
        distinct_count: the approximate number of different values.
        average_length, max_length: of texts, in characters.
        true_count, false_count: of booleans.
    """

    null_count: int | None = None
    distinct_count: int | None = None
    minimum: Any = None
    maximum: Any = None
    average_length: float | None = None
    max_length: int | None = None
    true_count: int | None = None
    false_count: int | None = None


class CatalogColumnStatistics:
    """The statistics of columns, by name."""

    def __init__(
        self,
        column_statistics_data: Mapping[str, ColumnStatistics] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._data = dict(column_statistics_data or {})
        self._properties = dict(properties or {})

    def get_column_statistics_data(self) -> dict[str, ColumnStatistics]:
        return dict(self._data)

    def get_properties(self) -> dict[str, str]:
        return dict(self._properties)

    def copy(self) -> CatalogColumnStatistics:
        return CatalogColumnStatistics(self._data, self._properties)

    def __repr__(self) -> str:
        return f"CatalogColumnStatistics({self._data})"


@dataclass(frozen=True, slots=True)
class Statistics:
    """The known statistics of a table or partition."""

    table: CatalogTableStatistics = field(default_factory=CatalogTableStatistics)
    columns: CatalogColumnStatistics = field(default_factory=CatalogColumnStatistics)


class StatisticsStore:
    """The statistics of one table: as a whole (None), and by partition."""

    def __init__(self) -> None:
        self._known: dict[PartitionSpec | None, Statistics] = {}

    def get(self, partition: PartitionSpec | None) -> Statistics:
        """Returns what is known; numbers of -1 and no columns if that is nothing."""
        return self._known.get(_key(partition), Statistics())

    def put(
        self,
        partition: PartitionSpec | None,
        table: CatalogTableStatistics | None = None,
        columns: CatalogColumnStatistics | None = None,
    ) -> None:
        """Replaces one or both parts of what is known."""
        known = self.get(partition)
        if table is not None:
            known = replace(known, table=table)
        if columns is not None:
            known = replace(known, columns=columns)
        self._known[_key(partition)] = known

    def forget(self, partition: PartitionSpec) -> None:
        self._known.pop(_key(partition), None)


def _key(partition: PartitionSpec | None) -> PartitionSpec | None:
    """Returns a partition with its parts in the order of their names."""
    return None if partition is None else tuple(sorted(partition))
