"""10,000 records a second through source -> key_by -> process -> sink, the sink in another process than the source.

A record's creation is the instant it was due, not the instant it was emitted, so a stalled source shows in the latency.
Prints one line of JSON: records and percentiles in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader, SplitEnumerator
from flinkpy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.records.batch import Batch

KEYS = 1000
WARM_UP_S = 2.0
TICK_S = 0.0005


class OneSplit(SplitEnumerator):
    def __init__(self, context):
        self._context = context

    def start(self):
        return

    def handle_split_request(self, subtask_index):
        self._context.signal_no_more_splits(subtask_index)

    def add_reader(self, subtask_index):
        self._context.assign_splits({subtask_index: ["all"]})

    def add_splits_back(self, splits, subtask_index):
        return


class PacedReader(SourceReader):
    """Emits (key, created_ns) pairs at a fixed rate by the monotonic clock, which all processes of a host share."""

    def __init__(self, context, rate, seconds):
        self._context = context
        self._rate = rate
        self._total = int(rate * seconds)
        self._emitted = 0
        self._begin_ns = None
        self._stop = threading.Event()

    def start(self):
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self):
        while not self._stop.wait(TICK_S):
            self._context.notify_available()

    def add_splits(self, splits):
        self._begin_ns = time.monotonic_ns()

    def notify_no_more_splits(self):
        return

    def poll_batch(self):
        if self._begin_ns is None:
            return ReaderStatus.NOTHING_AVAILABLE
        if self._emitted >= self._total:
            return ReaderStatus.END_OF_INPUT
        due = min(int((time.monotonic_ns() - self._begin_ns) * self._rate / 1e9), self._total)
        if due <= self._emitted:
            return ReaderStatus.NOTHING_AVAILABLE
        numbers = np.arange(self._emitted, due)
        self._emitted = due
        created_ns = self._begin_ns + (numbers * (1e9 / self._rate)).astype(np.int64)
        return Batch(pa.record_batch([pa.array(numbers % KEYS), pa.array(created_ns)], names=["f0", "f1"]))

    def close(self):
        self._stop.set()


class PacedSource(SourceBase):
    def __init__(self, rate, seconds):
        self._rate, self._seconds = rate, seconds

    @property
    def boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, context):
        return OneSplit(context)

    def create_reader(self, context):
        return PacedReader(context, self._rate, self._seconds)

    @property
    def produced_type(self):
        return Types.TUPLE([Types.LONG(), Types.LONG()])


class LatencyWriter(SinkWriter):
    def __init__(self, path):
        self._path = path
        self._created, self._arrived = [], []

    def write(self, batch):
        now = time.monotonic_ns()
        rows = batch.values if isinstance(batch.values, list) else zip(*[c.to_pylist() for c in batch.values.columns])
        created = [row[1] for row in rows]
        self._created += created
        self._arrived += [now] * len(created)

    def flush(self, end_of_input):
        if end_of_input:
            np.save(self._path, np.array([self._created, self._arrived]))


class LatencySink(SinkBase):
    def __init__(self, path):
        self._path = path

    def create_writer(self, context):
        return LatencyWriter(self._path)


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--buffer-timeout-ms", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch, "latency.npy"))
        configuration = Configuration()
        configuration.set_string("execution.buffer-timeout.interval", f"{options.buffer_timeout_ms} ms")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(1)
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        source = PacedSource(options.rate, options.seconds)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "paced", pair).slot_sharing_group("source")
        counted = stream.key_by(lambda pair: pair[0], Types.LONG()).process(Count(), pair).slot_sharing_group("sink")
        counted.sink_to(LatencySink(path)).slot_sharing_group("sink")
        env.execute("latency")
        created, arrived = np.load(path)
    kept = created >= created[0] + WARM_UP_S * 1e9
    latency_ms = (arrived - created)[kept] / 1e6
    percentiles = {f"p{p}": float(np.percentile(latency_ms, p)) for p in (50, 90, 99, 99.9)}
    line = {"records": int(kept.sum()), **percentiles, "max": float(latency_ms.max())}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
