"""The local Spark session of the benchmarks that compare flinkpy with Spark's DataFrames and SQL."""

from __future__ import annotations

from pyspark.sql import SparkSession


def local_session(**conf: str) -> SparkSession:
    """Returns a session with two cores, 4 GiB and four partitions after a shuffle. `conf` has further options."""
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
        **conf,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
