"""Small Iceberg and Delta tables in a directory, for tests of the table connectors. Needs pyiceberg and deltalake."""

from __future__ import annotations

import datetime
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from flinkpy.connectors.tables.table_sink import TableSink, TableSinkBuilder
from flinkpy.connectors.tables.table_source import TableSource, TableSourceBuilder

FORMATS = ("iceberg", "delta")
FIRST_DAY = datetime.date(2024, 1, 1)
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("price", pa.decimal128(10, 2))])


def records(ids: Any) -> pa.Table:
    """Returns a record per id. There are three days, and every fifth record has no name."""
    rows = [
        {
            "id": number,
            "name": None if number % 5 == 4 else f"n{number}",
            "day": FIRST_DAY + datetime.timedelta(days=number % 3),
            "price": number,
        }
        for number in ids
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def _end_threads_of_pyiceberg() -> None:
    """Ends the threads that pyiceberg would keep, so that tests can look for threads that are left."""
    from pyiceberg.utils.concurrent import ExecutorFactory

    pool, ExecutorFactory._instance = ExecutorFactory._instance, None
    if pool is not None:
        pool.shutdown()


@dataclass
class RealTable:
    """A table in a directory."""

    format: str
    directory: Path

    @property
    def catalog(self) -> dict[str, str]:
        """The properties of the Iceberg catalog `lake`."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.directory}/catalog.db",
            "warehouse": f"file://{self.directory}/warehouse",
        }

    def create(self, schema: pa.Schema = SCHEMA, partition_by: str | None = None, transform: Any = None) -> RealTable:
        if self.format == "delta":
            from deltalake import DeltaTable

            DeltaTable.create(str(self.directory), schema, partition_by=[partition_by] if partition_by else None)
            return self
        from pyiceberg.catalog import load_catalog
        from pyiceberg.transforms import IdentityTransform

        with load_catalog("lake", **self.catalog) as catalog:
            catalog.create_namespace_if_not_exists("db")
            table = catalog.create_table("db.t", schema)
            if partition_by:
                with table.update_spec() as update:
                    update.add_field(partition_by, transform or IdentityTransform(), f"{partition_by}_part")
        return self

    def append(self, table: pa.Table) -> None:
        """Appends records with the format's own library."""
        if self.format == "delta":
            from deltalake import write_deltalake

            write_deltalake(str(self.directory), table, mode="append")
        else:
            from pyiceberg.catalog import load_catalog

            with load_catalog("lake", **self.catalog) as catalog:
                catalog.load_table("db.t").append(table)

    def iceberg(self) -> Any:
        """Returns pyiceberg's Table."""
        from pyiceberg.catalog import load_catalog

        with load_catalog("lake", **self.catalog) as catalog:
            return catalog.load_table("db.t")

    def delta(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(str(self.directory))

    def source(self) -> TableSourceBuilder:
        if self.format == "delta":
            return TableSource.for_path("delta", str(self.directory))
        return TableSource.for_catalog("lake.db.t", self.catalog)

    def sink(self) -> TableSinkBuilder:
        if self.format == "delta":
            return TableSink.for_path("delta", str(self.directory))
        return TableSink.for_catalog("lake.db.t", self.catalog)

    def ids(self) -> list[int]:
        """Returns the ids in the newest version, read with the format's own library."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = self.delta().to_pyarrow_table() if self.format == "delta" else self.iceberg().scan().to_arrow()
        if self.format == "iceberg":
            _end_threads_of_pyiceberg()
        return sorted(table.column("id").to_pylist())

    def num_versions(self) -> int:
        return self.delta().version() + 1 if self.format == "delta" else len(self.iceberg().snapshots())
