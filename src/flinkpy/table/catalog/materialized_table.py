"""CatalogMaterializedTable: a table whose rows are those of a query, and the job that keeps them up to date.

Source: org.apache.flink.table.catalog.{CatalogMaterializedTable, IntervalFreshness},
org.apache.flink.table.refresh.ContinuousRefreshHandler.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from flinkpy.table.catalog.catalog_tables import CatalogTable


class RefreshMode(enum.Enum):
    """How the rows are kept up to date: by a streaming job, or by batch jobs that write all rows again."""

    CONTINUOUS = "CONTINUOUS"
    FULL = "FULL"


class RefreshStatus(enum.Enum):
    """INITIALIZING until the table is first refreshed, then ACTIVATED or SUSPENDED."""

    INITIALIZING = "INITIALIZING"
    ACTIVATED = "ACTIVATED"
    SUSPENDED = "SUSPENDED"


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far the rows may lag behind those of the query.

    Attributes:
        count: a number of units.
        unit: SECOND, MINUTE, HOUR or DAY.
    """

    count: int
    unit: str

    @property
    def duration_ms(self) -> int:
        return self.count * UNITS_MS[self.unit]

    def __str__(self) -> str:
        return f"INTERVAL '{self.count}' {self.unit}"


#: The units of FRESHNESS.
UNITS_MS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


@dataclass(frozen=True, slots=True)
class ContinuousRefreshHandler:
    """The job of a table that is refreshed continuously.

    Attributes:
        job_id: the last job.
        restore_path: the savepoint from which the next one begins; None for a job that runs, or begins without state.
    """

    job_id: str
    restore_path: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogMaterializedTable(CatalogTable):
    """A materialized table.

    Attributes:
        original_query, expanded_query: the query as written, and the text that jobs run.
        freshness: how old the rows may be.
        is_mode_derived: True if the refresh mode follows from the freshness, and was not written.
        handler: the job; None if there was none.
    """

    original_query: str = ""
    expanded_query: str = ""
    freshness: Freshness = Freshness(3, "MINUTE")
    refresh_mode: RefreshMode = RefreshMode.CONTINUOUS
    is_mode_derived: bool = False
    status: RefreshStatus = RefreshStatus.INITIALIZING
    handler: ContinuousRefreshHandler | None = None
