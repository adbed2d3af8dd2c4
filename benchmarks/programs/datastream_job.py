"""A DataStream job that flinkpy or PyFlink runs. Only the imported package differs.

Prints one line of JSON: the rows and the seconds that `env.execute()` took.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", choices=["flinkpy", "pyflink"], required=True)
    parser.add_argument("--job", choices=["rows", "keyed"], required=True)
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    parser.add_argument("--mode", default="process", help="PyFlink's python.execution-mode")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("-D", action="append", default=[], metavar="KEY=VALUE", help="configuration of the job")
    options = parser.parse_args()

    common = importlib.import_module(f"{options.package}.common")
    datastream = importlib.import_module(f"{options.package}.datastream")
    sequence = importlib.import_module(f"{options.package}.datastream.connectors.number_seq")
    state = importlib.import_module(f"{options.package}.datastream.state")
    types = common.Types

    class Counter(datastream.KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(state.ValueStateDescriptor("count", types.LONG()))

        def process_element(self, value, ctx):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield value[0], count

    keys = options.keys

    def build(env, rows):
        source = sequence.NumberSequenceSource(1, rows)
        stream = env.from_source(source, common.WatermarkStrategy.no_watermarks(), "numbers", types.LONG())
        if options.job == "rows":
            stream = stream.map(lambda n: n + 1, types.LONG()).filter(lambda n: n % 2 == 0)
        else:
            pair = types.TUPLE([types.LONG(), types.LONG()])
            stream = stream.map(lambda n: (n % keys, n), pair).key_by(lambda pair: pair[0], types.LONG())
            stream = stream.process(Counter(), pair)
        stream.sink_to(discard(options.package))

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
