"""A Python AggregateFunction on tumbling or hopping windows of event time, run by flinkpy or by PyFlink: the same
program, only the package imported differs.

Ten records a ms of event time over 1000 keys. Prints one line of JSON: rows and the seconds that `env.execute()` took.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time

RECORDS_PER_MS = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", choices=["flinkpy", "pyflink"], required=True)
    parser.add_argument("--job", choices=["tumble", "hop", "session"], required=True)
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    parser.add_argument("--mode", default="process", help="PyFlink's python.execution-mode")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("-D", action="append", default=[], metavar="KEY=VALUE", help="configuration of the job")
    options = parser.parse_args()

    common = importlib.import_module(f"{options.package}.common")
    datastream = importlib.import_module(f"{options.package}.datastream")
    sequence = importlib.import_module(f"{options.package}.datastream.connectors.number_seq")
    watermarks = importlib.import_module(f"{options.package}.common.watermark_strategy")
    windows = importlib.import_module(f"{options.package}.datastream.window")
    types = common.Types
    seconds, millis = common.Time.seconds, common.Time.milliseconds

    class Timestamps(watermarks.TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value[1] // RECORDS_PER_MS

    class Mean(datastream.AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value[1], accumulator[1] + 1

        def get_result(self, accumulator):
            return accumulator[0] / accumulator[1]

        def merge(self, a, b):
            return a[0] + b[0], a[1] + b[1]

    assigner = {
        "tumble": lambda: windows.TumblingEventTimeWindows.of(seconds(10)),
        "hop": lambda: windows.SlidingEventTimeWindows.of(seconds(10), seconds(2)),
        "session": lambda: windows.EventTimeSessionWindows.with_gap(millis(200)),
    }[options.job]
    keys = options.keys
    pair = types.TUPLE([types.LONG(), types.LONG()])
    strategy = common.WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Timestamps())

    def build(env, rows):
        source = sequence.NumberSequenceSource(1, rows)
        numbers = env.from_source(source, common.WatermarkStrategy.no_watermarks(), "numbers", types.LONG())
        records = numbers.map(lambda n: (n * 7919 % keys, n), pair).assign_timestamps_and_watermarks(strategy)
        means = records.key_by(lambda pair: pair[0], types.LONG()).window(assigner())
        # A type of its own: PyFlink pickles it, which it cannot once it was used elsewhere.
        accumulator = types.TUPLE([types.LONG(), types.LONG()])
        means = means.aggregate(Mean(), accumulator_type=accumulator, output_type=types.DOUBLE())
        means.sink_to(discard(options.package))

    configuration = common.Configuration()
    if options.package == "pyflink":
        configuration.set_string("python.execution-mode", options.mode)
    for entry in options.D:
        key, _, value = entry.partition("=")
        configuration.set_string(key, value)
    env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(options.parallelism)
    for rows in options.rows:
        build(env, rows)
        begin = time.perf_counter()
        env.execute(f"{options.job} {rows}")
        print(json.dumps({"rows": rows, "seconds": time.perf_counter() - begin}), flush=True)


def discard(package: str):
    if package == "pyflink":
        from pyflink.datastream.connectors import Sink

        return Sink("org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink")
    from flinkpy.datastream.connectors import DiscardingSink

    return DiscardingSink()


if __name__ == "__main__":
    main()
