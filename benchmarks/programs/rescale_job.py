"""A keyed job that is rescaled 2 -> 3 -> 2 at a steady rate, beside a pipeline that keeps its parallelism.

Prints one line of JSON per rescale: the longest time without output of the keyed job and of the other pipeline, from
the request on (s), what the job did in this time (s), and the bytes that its tasks restored.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import struct
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from flinkpy._proto import job_pb2
from flinkpy.client.cluster_client import connect
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader, SplitEnumerator
from flinkpy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.records.batch import Batch

TICK_S = 0.005
PAYLOAD_BYTES = 1000
#: The source has this many splits with any parallelism.
SPLITS = 12
ROW = Types.TUPLE([Types.LONG(), Types.STRING()])
STAMP = "<d"
#: A job that is silent for this long after a rescale has failed.
TIMEOUT_S = 120
RESTORED = re.compile(rb"restored .* \((\d+) bytes\) read from local copies, \d+ \((\d+) bytes\) from storage")


class FixedSplits(SplitEnumerator):
    """Divides the splits among the readers once. After a restore the readers bring them along."""

    def __init__(self, context, is_given=False):
        self._context = context
        self._is_given = is_given
        self._left = []

    def start(self):
        return

    def handle_split_request(self, subtask_index):
        return

    def add_reader(self, subtask_index):
        if not self._is_given and len(self._context.registered_readers) == self._context.parallelism:
            self._is_given = True
            self._left = [(split, 0) for split in range(SPLITS)]
        if self._left and len(self._context.registered_readers) == self._context.parallelism:
            left, self._left = self._left, []
            count = self._context.parallelism
            self._context.assign_splits({index: left[index::count] for index in range(count)})

    def add_splits_back(self, splits, subtask_index):
        self._left += splits

    def snapshot_state(self, checkpoint_id):
        return self._is_given


class PacedReader(SourceReader):
    """Every key once at the loading rate, then random keys at the steady one; endless. The rates are per split."""

    def __init__(self, context, keys, load_rate, rate):
        self._context = context
        self._keys = keys
        self._rates = (load_rate / SPLITS, rate / SPLITS)
        self._splits = {}
        self._credit = 0.0
        self._last = time.monotonic()
        self._random = np.random.default_rng(1)
        self._payloads = [np.random.default_rng(seed).bytes(PAYLOAD_BYTES // 2).hex() for seed in range(4096)]
        self._stop = threading.Event()

    def start(self):
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self):
        while not self._stop.wait(TICK_S):
            self._context.notify_available()

    def add_splits(self, splits):
        self._splits.update(splits)

    def notify_no_more_splits(self):
        return

    def poll_batch(self):
        now = time.monotonic()
        passed_s, self._last = now - self._last, now
        if not self._splits:
            return ReaderStatus.NOTHING_AVAILABLE
        split = min(self._splits, key=self._splits.__getitem__)
        emitted, mine = self._splits[split], self._keys // SPLITS
        is_loading = emitted < mine
        self._credit = min(self._credit + passed_s * self._rates[not is_loading] * len(self._splits), 4096)
        rows = int(self._credit)
        if not rows:
            return ReaderStatus.NOTHING_AVAILABLE
        if is_loading:
            rows = min(rows, mine - emitted)
            numbers = np.arange(emitted, emitted + rows) * SPLITS + split
        else:
            numbers = self._random.integers(0, self._keys, rows)
        self._credit -= rows
        self._splits[split] = emitted + rows
        payloads = pa.array(self._payloads[:rows])
        return Batch(pa.record_batch([pa.array(numbers.astype(np.int64)), payloads], names=["f0", "f1"]))

    def snapshot_state(self, checkpoint_id):
        return list(self._splits.items())

    def close(self):
        self._stop.set()


class PacedSource(SourceBase):
    def __init__(self, keys, load_rate, rate):
        self._arguments = keys, load_rate, rate

    @property
    def boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context):
        return FixedSplits(context)

    def restore_enumerator(self, context, state):
        return FixedSplits(context, state)

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
        if value[0] % 10 == 0:
            yield value[0]


class Pass(KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value[0] % 10 == 0:
            yield value[0]


class ArrivalWriter(SinkWriter):
    """Writes the time of each batch (s since the epoch)."""

    def __init__(self, path):
        self._file = path.open("ab", buffering=0)

    def write(self, batch):
        self._file.write(struct.pack(STAMP, time.time()))

    def close(self):
        self._file.close()


class ArrivalSink(SinkBase):
    def __init__(self, directory):
        self._directory = directory

    def create_writer(self, context):
        return ArrivalWriter(Path(self._directory, f"{context.subtask_index}-{context.attempt_number}"))


def arrivals(directory: Path, since_s: float) -> list[float]:
    """The times of all batches that arrived after `since_s`, in order."""
    stamps = [
        stamp for path in directory.iterdir() for (stamp,) in struct.iter_unpack(STAMP, _whole(path.read_bytes()))
    ]
    return sorted(stamp for stamp in stamps if stamp >= since_s)


def _whole(data: bytes) -> bytes:
    return data[: len(data) // 8 * 8]


def longest_gap(stamps: list[float]) -> tuple[float, float]:
    """Returns when the longest time without output began, and how long it was (s)."""
    return max(((one, other - one) for one, other in itertools.pairwise(stamps)), key=lambda gap: gap[1])


def course(details: job_pb2.JobDetails, silent_s: float, returned_s: float) -> dict[str, float]:
    """Returns what the job did while it was silent: the ends of all steps, in seconds after the last output."""
    stamps = details.status_timestamps
    steps = {"canceling": stamps.get("RESTARTING"), "deploying": stamps.get("RUNNING")}
    for state in ("INITIALIZING", "RUNNING"):
        times = [
            subtask.state_timestamps[state]
            for vertex in details.vertices
            for subtask in vertex.subtasks
            if subtask.state_timestamps.get(state, 0) / 1000 > silent_s
        ]
        steps[f"first {state}"], steps[f"last {state}"] = min(times, default=None), max(times, default=None)
    found = {name: at / 1000 - silent_s for name, at in steps.items() if at is not None}
    return {name: round(at, 3) for name, at in found.items()} | {"output": round(returned_s - silent_s, 3)}


class Measured:
    """The running job, and its outputs."""

    def __init__(self, cluster: LocalCluster, job, outputs: Path, logs: Path) -> None:
        self._cluster = cluster
        self._job = job
        self._outputs = outputs
        self._logs = logs
        self._client = connect(Configuration.from_dict(cluster.client_properties))

    def details(self) -> job_pb2.JobDetails:
        return self._client.request_job(str(self._job.get_job_id()))

    def wait_for_checkpoints(self, count: int) -> int:
        """Waits for `count` further checkpoints. Returns the size of the last one."""
        first = self._job.get_checkpoint_statistics().result().num_completed
        while True:
            statistics = self._job.get_checkpoint_statistics().result()
            if statistics.num_completed >= first + count:
                return statistics.latest_completed.state_size_bytes
            time.sleep(0.1)

    def rescale(self, parallelism: int) -> dict[str, object]:
        bounds = [
            job_pb2.VertexParallelismBounds(vertex_id=vertex.id, lower_bound=1, upper_bound=wanted)
            for vertex in self.details().vertices
            for wanted in [1 if "other" in vertex.name else parallelism]
        ]
        restored = sum(self._restored())
        began_s = time.time()
        self._client.update_resource_requirements(str(self._job.get_job_id()), bounds)
        while not self._has_settled(parallelism, began_s):
            if time.time() - began_s > TIMEOUT_S:
                raise RuntimeError(f"the job did not get parallelism {parallelism} within {TIMEOUT_S} s")
            time.sleep(0.05)
        time.sleep(0.5)
        silent_s, gap_s = longest_gap(arrivals(self._outputs / "keyed", began_s))
        _, other_gap_s = longest_gap(arrivals(self._outputs / "other", began_s))
        return {
            "parallelism": parallelism,
            "gap_s": round(gap_s, 3),
            "other_gap_s": round(other_gap_s, 3),
            "waited_s": round(silent_s - began_s, 3),
            "restored_bytes": sum(self._restored()) - restored,
            "course": course(self.details(), silent_s, silent_s + gap_s),
        }

    def _has_settled(self, parallelism: int, began_s: float) -> bool:
        """True if output has come from tasks that run with this parallelism."""
        vertices = [vertex for vertex in self.details().vertices if "other" not in vertex.name]
        if any(vertex.parallelism != parallelism for vertex in vertices):
            return False
        subtasks = [subtask for vertex in vertices for subtask in vertex.subtasks]
        started = [subtask.state_timestamps.get("RUNNING", 0) for subtask in subtasks]
        return all(started) and bool(arrivals(self._outputs / "keyed", max(began_s, max(started) / 1000 + 0.3)))

    def _restored(self) -> list[int]:
        logs = (path.read_bytes() for path in self._logs.iterdir() if "taskexecutor" in path.name)
        return [int(found[1]) + int(found[2]) for log in logs for found in RESTORED.finditer(log)]


def build(env: StreamExecutionEnvironment, options: argparse.Namespace, outputs: Path) -> None:
    source = PacedSource(options.keys, options.load_rate, options.rate)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "paced", ROW).set_parallelism(2)
    keyed = stream.key_by(lambda row: row[0], Types.LONG())
    processed = keyed.process(Keep() if options.state else Pass(), Types.LONG()).set_parallelism(2)
    processed.sink_to(ArrivalSink(str(outputs / "keyed"))).set_parallelism(2)
    other = env.from_source(PacedSource(1, options.rate, options.rate), WatermarkStrategy.no_watermarks(), "other", ROW)
    other.set_parallelism(1).sink_to(ArrivalSink(str(outputs / "other"))).name("other sink").set_parallelism(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=10_000, help=f"each holds {PAYLOAD_BYTES} bytes")
    parser.add_argument("--state", action="store_true", help="keep the payload of each key")
    parser.add_argument("--load-rate", type=int, default=40_000)
    parser.add_argument("--rate", type=int, default=4_000)
    parser.add_argument("--backend", default="rocksdb")
    parser.add_argument("--interval", default="10 s", help="between checkpoints")
    parser.add_argument("--parallelism", type=int, nargs="+", default=[3, 2])
    parser.add_argument("--logs", type=Path, help="keep the logs of the cluster there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        outputs, logs = Path(scratch, "output"), options.logs or Path(scratch, "logs")
        for directory in (outputs / "keyed", outputs / "other", logs):
            directory.mkdir(parents=True, exist_ok=True)
        prefix = "jobmanager.adaptive-scheduler"
        settings = {
            "execution.checkpointing.interval": options.interval,
            "execution.checkpointing.dir": str(Path(scratch, "checkpoints")),
            "execution.checkpointing.incremental": "true",
            "execution.state-recovery.from-local": "true",
            "execution.checkpointing.local-backup.enabled": "true",
            "state.backend.type": options.backend,
            "jobmanager.scheduler": "Adaptive",
            f"{prefix}.submission.resource-stabilization-timeout": "0 s",
            f"{prefix}.executing.cooldown-after-rescaling": "0 s",
            "jobmanager.rpc.port": "0",
        }
        cluster = LocalCluster(LocalClusterOptions(3, settings, log_dir=logs, temporary_dir=Path(scratch, "tmp")))
        cluster.start()
        try:
            configuration = Configuration()
            for key, value in {**settings, **cluster.client_properties}.items():
                configuration.set_string(key, value)
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            build(env, options, outputs)
            job = env.execute_async("rescale")
            time.sleep(options.keys / options.load_rate * options.state + 2)
            measured = Measured(cluster, job, outputs, logs)
            for parallelism in options.parallelism:
                state_bytes = measured.wait_for_checkpoints(2)
                print(json.dumps({"state_bytes": state_bytes, **measured.rescale(parallelism)}), flush=True)
            job.cancel().result()
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
