"""Flink SQL (Java) over CSV files of bids into a blackhole. Prints one line of JSON per query."""

from __future__ import annotations

import argparse
import json
import time

from pyflink.table import EnvironmentSettings, TableEnvironment

TUMBLE = "TUMBLE(TABLE bids_by_time, DESCRIPTOR(event_time), INTERVAL '10' SECOND)"
HOP = "HOP(TABLE bids_by_time, DESCRIPTOR(event_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"
WINDOWED = (
    "SELECT auction, window_end, COUNT(*), MAX(price) FROM TABLE({window}) GROUP BY auction, window_start, window_end"
)
QUERIES = {
    "filter": (
        "auction BIGINT, bidder BIGINT, price BIGINT",
        "SELECT auction, bidder, price FROM bids WHERE MOD(auction, 123) = 0",
    ),
    "aggregate": (
        "auction BIGINT, n BIGINT, worst BIGINT, average BIGINT",
        "SELECT auction, COUNT(*), MAX(price), AVG(price) FROM bids GROUP BY auction",
    ),
    "tumble": ("auction BIGINT, ends TIMESTAMP(3), n BIGINT, worst BIGINT", WINDOWED.format(window=TUMBLE)),
    "hop": ("auction BIGINT, ends TIMESTAMP(3), n BIGINT, worst BIGINT", WINDOWED.format(window=HOP)),
}
COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, channel BIGINT, ts BIGINT"
#: As our program has it: a record may be four seconds late.
TIME = "event_time AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--parallelism", default="2")
    parser.add_argument("--queries", nargs="+", default=["filter", "aggregate"])
    options = parser.parse_args()
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", options.parallelism)
    files = f"WITH ('connector'='filesystem', 'path'='{options.path}', 'format'='csv')"
    env.execute_sql(f"CREATE TABLE bids ({COLUMNS}) {files}")
    env.execute_sql(f"CREATE TABLE bids_by_time ({COLUMNS}, {TIME}) {files}")
    for name in options.queries:
        columns, query = QUERIES[name]
        env.execute_sql(f"CREATE TABLE IF NOT EXISTS sink_{name} ({columns}) WITH ('connector'='blackhole')")
        begin = time.perf_counter()
        env.execute_sql(f"INSERT INTO sink_{name} {query}").wait()
        print(json.dumps({"query": name, "seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
