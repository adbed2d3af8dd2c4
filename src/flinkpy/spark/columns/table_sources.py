"""Reads TableSources with Spark's own connectors for Iceberg and Delta, if the session has them.

Without them flinkpy's readers run in Python workers, which read the same version of the table.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as t

from flinkpy.connectors.tables.delta import DeltaSnapshot
from flinkpy.connectors.tables.iceberg import IcebergSnapshot
from flinkpy.connectors.tables.table_source import TableSource
from flinkpy.spark.columns.configured_tables import missing_setting
from flinkpy.spark.columns.file_sources import event_time
from flinkpy.spark.columns.names import NotExpressible, column, column_types, without_timestamps
from flinkpy.spark.errors import cause_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flinkpy.graph.operator_specs import SourceSpec

_LOG = logging.getLogger(__name__)

#: The settings with which Spark reads tables of a format itself.
_PACKAGES = {
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-...",
    "delta": "io.delta:delta-spark_..., spark.sql.extensions and spark.sql.catalog.spark_catalog",
}
_NO_DATA_SOURCE = "DATA_SOURCE_NOT_FOUND"


def read_table(session: SparkSession, spec: SourceSpec) -> DataFrame:
    """Returns the frame of a TableSource. Its errors are those of `check_table`."""
    source = spec.source
    assert isinstance(source, TableSource)
    time = event_time(spec.watermark_strategy, source.row_type)
    frame = _table_frame(session, source)
    _LOG.info("Spark reads table %s itself", source.snapshot.name)
    return frame.select(*map(column, column_types(source.row_type)), without_timestamps() if time is None else time)


def check_table(session: SparkSession | None, spec: SourceSpec, conf: Mapping[str, str]) -> None:
    """Checks that Spark can read the table itself.

    Args:
        session: the running session; None if it is not known. Then the settings decide.
        conf: Spark's configuration of the job.

    Raises: NotExpressible if Spark cannot read the table, or reads it with other types.
    """
    source = spec.source
    event_time(spec.watermark_strategy, source.row_type)
    if session is not None:
        _table_frame(session, source)
        return
    table_format = _format_of(source)
    missing = missing_setting(table_format, conf, os.environ)
    if missing is not None:
        raise NotExpressible(f"tables of {table_format} without {missing}")


def _format_of(source: TableSource) -> str:
    """Returns `delta` or `iceberg`. Raises: NotExpressible if there is nothing to read."""
    if isinstance(source.snapshot, DeltaSnapshot):
        return "delta"
    if isinstance(source.snapshot, IcebergSnapshot) and source.snapshot.snapshot_id is not None:
        return "iceberg"
    raise NotExpressible(f"{source!r}")


def _table_frame(session: SparkSession, source: TableSource) -> DataFrame:
    snapshot = source.snapshot
    columns = column_types(source.row_type)
    if isinstance(snapshot, DeltaSnapshot):
        return _checked(lambda: _read_delta(session, snapshot), columns, "delta")
    if isinstance(snapshot, IcebergSnapshot) and snapshot.snapshot_id is not None:
        return _checked(lambda: _read_iceberg(session, snapshot), columns, "iceberg")
    raise NotExpressible(f"{source!r}")


def _read_delta(session: SparkSession, snapshot: DeltaSnapshot) -> DataFrame:
    return session.read.format("delta").option("versionAsOf", snapshot.version).load(snapshot.name)


def _read_iceberg(session: SparkSession, snapshot: IcebergSnapshot) -> DataFrame:
    """Reads by Spark's catalog if it is configured under the same name, otherwise by the metadata file."""
    reader = session.read.format("iceberg")
    catalog = snapshot.table.catalog
    if catalog is not None and session.conf.get(f"spark.sql.catalog.{catalog}", None) is not None:
        return reader.option("versionAsOf", snapshot.snapshot_id).load(snapshot.name)
    # With an id, Spark would read the columns that the table had then. The newest version has those of today.
    if not snapshot.is_newest:
        reader = reader.option("versionAsOf", snapshot.snapshot_id)
    return reader.load(snapshot.metadata_location)


def _checked(read: Callable[[], DataFrame], columns: dict[str, t.DataType], table_format: str) -> DataFrame:
    try:
        frame = read()
        found = {field.name: field.dataType for field in frame.schema}
    except (PySparkException, Py4JError) as error:
        if _NO_DATA_SOURCE in str(error):
            raise NotExpressible(
                f"tables of {table_format} without its jar (spark.jars.packages: {_PACKAGES[table_format]})"
            ) from error
        # The jar may be for another Spark, or Spark may have no access to the catalog or the files.
        raise NotExpressible(f"this table of {table_format}: {cause_of(str(error))}") from error
    for name, kind in columns.items():
        if found.get(name) != kind:
            raise NotExpressible(f"column {name!r} of {kind.simpleString()}, which Spark reads as {found.get(name)}")
    return frame
