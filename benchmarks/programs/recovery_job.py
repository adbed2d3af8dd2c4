"""A keyed job with some state, whose TaskExecutor is killed while it runs at a steady rate.

Prints one line of JSON: how long no output came after the kill (s), and the size of the last checkpoint (bytes).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader, SplitEnumerator
from flinkpy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.records.batch import Batch

TICK_S = 0.005
PAYLOAD_BYTES = 1000
ROW = Types.TUPLE([Types.LONG(), Types.STRING()])


class OneSplitEach(SplitEnumerator):
    def __init__(self, context, given=()):
        self._context = context
        self._given = set(given)

    def start(self):
        return

    def handle_split_request(self, subtask_index):
        return

    def add_reader(self, subtask_index):
        if subtask_index not in self._given:
            self._given.add(subtask_index)
            self._context.assign_splits({subtask_index: [(subtask_index, 0)]})

    def add_splits_back(self, splits, subtask_index):
        self._given.discard(subtask_index)

    def snapshot_state(self, checkpoint_id):
        return sorted(self._given)


class PacedReader(SourceReader):
    """Every key once at the loading rate, then random keys at the steady one; endless."""

    def __init__(self, context, keys, load_rate, rate):
        self._context = context
        self._keys = keys
        self._rates = (load_rate / context.parallelism, rate / context.parallelism)
        self._split = None
        self._emitted = 0
        self._credit = 0.0
        self._last = time.monotonic()
        self._random = np.random.default_rng(1)
        self._payloads = [os.urandom(PAYLOAD_BYTES // 2).hex() for _ in range(4096)]
        self._stop = threading.Event()

    def start(self):
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self):
        while not self._stop.wait(TICK_S):
            self._context.notify_available()

    def add_splits(self, splits):
        ((self._split, self._emitted),) = splits

    def notify_no_more_splits(self):
        return

    def poll_batch(self):
        now = time.monotonic()
        if self._split is None:
            self._last = now
            return ReaderStatus.NOTHING_AVAILABLE
        mine = self._keys // self._context.parallelism
        loading = self._emitted < mine
        self._credit = min(self._credit + (now - self._last) * self._rates[not loading], 4096)
        self._last = now
        rows = int(self._credit)
        if not rows:
            return ReaderStatus.NOTHING_AVAILABLE
        if loading:
            rows = min(rows, mine - self._emitted)
            numbers = np.arange(self._emitted, self._emitted + rows) * self._context.parallelism + self._split
        else:
            numbers = self._random.integers(0, self._keys, rows)
        self._credit -= rows
        self._emitted += rows
        payloads = pa.array(self._payloads[:rows])
        return Batch(pa.record_batch([pa.array(numbers.astype(np.int64)), payloads], names=["f0", "f1"]))

    def snapshot_state(self, checkpoint_id):
        return [] if self._split is None else [(self._split, self._emitted)]

    def close(self):
        self._stop.set()


class PacedSource(SourceBase):
    def __init__(self, keys, load_rate, rate):
        self._arguments = keys, load_rate, rate

    @property
    def boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context):
        return OneSplitEach(context)

    def restore_enumerator(self, context, state):
        return OneSplitEach(context, state)

    def create_reader(self, context):
        return PacedReader(context, *self._arguments)

    @property
    def produced_type(self):
        return ROW


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        self.payload = runtime_context.get_state(ValueStateDescriptor("payload", Types.STRING()))

    def process_element(self, value, ctx):
        self.payload.update(value[1])
        if value[0] % 100 == 0:
            yield value[0]


class OutputWriter(SinkWriter):
    def __init__(self, path):
        self._file = path.open("a")

    def write(self, batch):
        self._file.write(f"{batch.num_rows}\n")
        self._file.flush()

    def close(self):
        self._file.close()


class OutputSink(SinkBase):
    def __init__(self, directory):
        self._directory = directory

    def create_writer(self, context):
        return OutputWriter(Path(self._directory, f"{context.subtask_index}-{context.attempt_number}"))


def has_output_of_new_attempts(directory: Path) -> bool:
    return any(not path.name.endswith("-0") and path.stat().st_size for path in directory.iterdir())


def outage_after(directory: Path, kill, timeout_s: float) -> float:
    """Kill; seconds until the first output of a task that was started afterwards."""
    killed = time.monotonic()
    kill()
    while time.monotonic() - killed < timeout_s:
        if has_output_of_new_attempts(directory):
            return time.monotonic() - killed
        time.sleep(0.005)
    raise RuntimeError(f"no output came back within {timeout_s} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, required=True, help=f"each holds {PAYLOAD_BYTES} bytes")
    parser.add_argument("--load-rate", type=int, default=60_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--backend", default="hashmap")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "output")
        output.mkdir()
        settings = {
            "execution.checkpointing.interval": "2 s",
            "execution.checkpointing.dir": str(Path(scratch, "checkpoints")),
            "state.backend.type": options.backend,
            "jobmanager.rpc.port": "0",
        }
        options_of_cluster = LocalClusterOptions(2, settings, temporary_dir=Path(scratch, "tmp"), restart_services=True)
        cluster = LocalCluster(options_of_cluster)
        cluster.start()
        try:
            configuration = Configuration()
            for key, value in settings.items():
                configuration.set_string(key, value)
            for key, value in cluster.client_properties.items():
                configuration.set_string(key, value)
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            env.set_parallelism(2)
            source = PacedSource(options.keys, options.load_rate, options.rate)
            stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "paced", ROW)
            stream.key_by(lambda row: row[0], Types.LONG()).process(Keep(), Types.LONG()).sink_to(
                OutputSink(str(output))
            )
            job = env.execute_async("recovery")
            time.sleep(options.keys / options.load_rate + 3)
            loaded = job.get_checkpoint_statistics().result().num_completed
            while True:  # a checkpoint that began after everything was loaded
                statistics = job.get_checkpoint_statistics().result()
                if statistics.num_completed >= loaded + 2:
                    break
                time.sleep(0.2)
            victim = next(p for p in cluster.processes if "taskexecutor" in p.spec.name).popen.pid
            outage_s = outage_after(output, lambda: os.kill(victim, signal.SIGKILL), 120)
            size = statistics.latest_completed.state_size_bytes
            print(json.dumps({"outage_s": outage_s, "state_bytes": size}), flush=True)
            job.cancel().result()
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
