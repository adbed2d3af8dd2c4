"""Flink SQL (Java) over CSV files of bids into a blackhole. Prints one line of JSON per query."""

from __future__ import annotations

import argparse
import json
import time

from pyflink.table import EnvironmentSettings, TableEnvironment

QUERIES = {
    "filter": (
        "auction BIGINT, bidder BIGINT, price BIGINT",
        "SELECT auction, bidder, price FROM bids WHERE MOD(auction, 123) = 0",
    ),
    "aggregate": (
        "auction BIGINT, n BIGINT, worst BIGINT, average BIGINT",
        "SELECT auction, COUNT(*), MAX(price), AVG(price) FROM bids GROUP BY auction",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--parallelism", default="2")
    parser.add_argument("--queries", nargs="+", default=list(QUERIES))
    options = parser.parse_args()
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", options.parallelism)
    env.execute_sql(
        "CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel BIGINT, ts BIGINT) "
        f"WITH ('connector'='filesystem', 'path'='{options.path}', 'format'='csv')"
    )
    for name in options.queries:
        columns, query = QUERIES[name]
        env.execute_sql(f"CREATE TABLE IF NOT EXISTS sink_{name} ({columns}) WITH ('connector'='blackhole')")
        begin = time.perf_counter()
        env.execute_sql(f"INSERT INTO sink_{name} {query}").wait()
        print(json.dumps({"query": name, "seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
