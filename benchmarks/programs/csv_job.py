"""CSV bids in the column lane: -> filter; -> key_by -> count, max, mean per key; -> key_by -> windows. One line of JSON
per query."""

from __future__ import annotations

import argparse
import json
import time

import pyarrow.compute as pc

from flinkpy.common import Duration, Time, Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, max_, mean
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.connectors.file_system import FileSource
from flinkpy.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

NAMES = ["auction", "bidder", "price", "channel", "ts"]


QUERY_COLUMNS = {
    "filter": ["auction", "bidder", "price"],
    "aggregate": ["auction", "price"],
    "tumble": ["auction", "price", "ts"],
    "hop": ["auction", "price", "ts"],
}
WINDOWS = {
    "tumble": TumblingEventTimeWindows.of(Time.seconds(10)),
    "hop": SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)),
}


def every_123rd(batch):
    auction = batch.column("auction")
    return pc.equal(pc.subtract(auction, pc.multiply(pc.divide(auction, 123), 123)), 0)


def auction_and_price(batch):
    return batch.select(["auction", "price"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--queries", nargs="+", default=["filter", "aggregate"])
    options = parser.parse_args()
    schema = Types.ROW_NAMED(NAMES, [Types.LONG()] * len(NAMES))
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(options.parallelism)
    for query in options.queries:
        # Only the columns of the query are converted. Flink SQL's planner does the same.
        source = FileSource.for_csv(options.path, schema=schema, columns=QUERY_COLUMNS[query], header=False)
        watermarks = WatermarkStrategy.no_watermarks()
        if query in WINDOWS:
            late_by = Duration.of_seconds(4)
            watermarks = WatermarkStrategy.for_bounded_out_of_orderness(late_by).with_timestamp_column("ts")
        bids = env.from_source(source, watermarks, "bids")
        if query in WINDOWS:
            # The record already has its time, so the column need not travel. Flink SQL's planner does the same.
            priced = bids.map_batches(auction_and_price, Types.ROW_NAMED(["auction", "price"], [Types.LONG()] * 2))
            result = priced.key_by("auction").window(WINDOWS[query]).aggregate(n=count(), worst=max_("price"))
        elif query == "filter":
            result = bids.filter_batches(every_123rd)
        else:
            result = bids.key_by("auction").aggregate(count("n"), max_("price", "worst"), mean("price", "average"))
        result.sink_to(DiscardingSink())
        begin = time.perf_counter()
        env.execute(f"bids {query}")
        print(json.dumps({"query": query, "seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
