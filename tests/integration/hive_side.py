"""Runs SQL in a Spark with a Hive metastore: `hive_side.py URI WAREHOUSE JAVA_OPTIONS`, statements as JSON on stdin.

Writes the rows of the last statement as JSON to its standard output.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    uri, warehouse, options = sys.argv[1:]
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": uri,
        "spark.sql.warehouse.dir": warehouse,
        "hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": options,
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    rows: list[str] = []
    for statement in json.load(sys.stdin):
        rows = session.sql(statement).toJSON().collect()
    sys.stdout.write(json.dumps([json.loads(row) for row in rows]))
    session.stop()


if __name__ == "__main__":
    main()
