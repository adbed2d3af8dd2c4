"""A program for Spark alone: makes tables, or prints the records of tables as JSON.

python spark_side.py make|read DIRECTORY < settings.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

COLUMNS = "id bigint, name string, day date, at timestamp, local timestamp_ntz, price decimal(10,2), tags array<string>"
RECORDS = """
    select id, if(id % 5 = 4, null, concat('n', id)) name, date'2024-01-01' + cast(id % 3 as int) day,
      timestamp'1969-12-31 23:59:59.123456' + make_dt_interval(cast(id as int)) at,
      timestamp_ntz'2024-02-29 01:02:03.000004' local, cast(id * 1.25 as decimal(10,2)) price,
      array(concat('t', id), null) tags
    from range({first}, {last}, 1, 2)
"""


def make(session: SparkSession, directory: str) -> dict[str, Any]:
    """Makes an Iceberg table `lake.db.t` and a Delta table, each with deleted records and several versions."""
    delta = f"delta.`{directory}/delta`"
    for table, kind, properties in (
        ("lake.db.t", "iceberg partitioned by (day)", "'format-version'='2', 'write.delete.mode'='merge-on-read'"),
        (delta, "delta partitioned by (day)", "'delta.enableDeletionVectors'='true'"),
    ):
        if kind.startswith("iceberg"):
            session.sql("create namespace lake.db")
        session.sql(f"create table {table} ({COLUMNS}) using {kind} tblproperties ({properties})")
        session.sql(f"insert into {table} {RECORDS.format(first=0, last=30)}")
        session.sql(f"delete from {table} where id in (3, 5, 21)")
    session.sql("alter table lake.db.t add partition field bucket(4, id)")
    for table in ("lake.db.t", delta):
        session.sql(f"insert into {table} {RECORDS.format(first=30, last=40)}")
    snapshots = session.sql("select snapshot_id from lake.db.t.snapshots order by committed_at").collect()
    return {"snapshots": [row.snapshot_id for row in snapshots], **read(session, directory)}


def read(session: SparkSession, directory: str) -> dict[str, Any]:
    """Returns the records of both tables, as their texts in JSON by name of the table."""
    tables = {"iceberg": "lake.db.t", "delta": f"delta.`{directory}/delta`"}
    return {
        name: [json.loads(text) for text in session.table(table).orderBy("id").toJSON().collect()]
        for name, table in tables.items()
    }


def main() -> None:
    command, directory = sys.argv[1:]
    builder = SparkSession.builder.master("local[2]")
    for key, value in json.load(sys.stdin).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    made = {"make": make, "read": read}[command](session, directory)
    sys.stdout.write(json.dumps(made))
    session.stop()


if __name__ == "__main__":
    main()
