"""10,000 records a second through source -> key_by -> 100 ms tumbling event-time windows -> sink, in two processes.

A record's event time is the instant it was due, by the monotonic clock that all processes of a host share. The latency
of a result is from the end of its window to its arrival in the sink. Prints one line of JSON: results and percentiles
in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from latency_job import WARM_UP_S, PacedSource

from flinkpy.common import Configuration, Time, Types, WatermarkStrategy
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flinkpy.datastream.window import TumblingEventTimeWindows

WINDOW_MS = 100


class Created(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] // 1_000_000


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class WindowEnd(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [(context.window().end, elements[0])]


class ArrivalWriter(SinkWriter):
    def __init__(self, path):
        self._path = path
        self._ends, self._arrived = [], []

    def write(self, batch):
        now_ms = time.monotonic_ns() / 1e6
        rows = batch.values if isinstance(batch.values, list) else zip(*[c.to_pylist() for c in batch.values.columns])
        ends = [row[0] for row in rows]
        self._ends += ends
        self._arrived += [now_ms] * len(ends)

    def flush(self, end_of_input):
        if end_of_input:
            np.save(self._path, np.array([self._ends, self._arrived]))


class ArrivalSink(SinkBase):
    def __init__(self, path):
        self._path = path

    def create_writer(self, context):
        return ArrivalWriter(self._path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--buffer-timeout-ms", type=int, default=100)
    parser.add_argument("--watermark-interval-ms", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch, "latency.npy"))
        configuration = Configuration()
        configuration.set_string("execution.buffer-timeout.interval", f"{options.buffer_timeout_ms} ms")
        configuration.set_string("pipeline.auto-watermark-interval", f"{options.watermark_interval_ms} ms")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(1)
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Created())
        source = PacedSource(options.rate, options.seconds)
        stream = env.from_source(source, strategy, "paced", pair).slot_sharing_group("source")
        windows = stream.key_by(lambda pair: pair[0], Types.LONG()).window(
            TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
        )
        counts = windows.aggregate(Count(), WindowEnd(), output_type=pair).slot_sharing_group("sink")
        counts.sink_to(ArrivalSink(path)).slot_sharing_group("sink")
        env.execute("window latency")
        ends, arrived = np.load(path)
    # The last window is ended by the end of the input, not by its own.
    kept = (ends >= ends.min() + WARM_UP_S * 1e3) & (ends < ends.max())
    latency_ms = (arrived - ends)[kept]
    percentiles = {f"p{p}": float(np.percentile(latency_ms, p)) for p in (50, 90, 99, 99.9)}
    line = {"results": int(kept.sum()), **percentiles, "max": float(latency_ms.max())}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
