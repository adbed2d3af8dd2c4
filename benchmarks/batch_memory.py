"""batch-memory: 4 GB of records are aggregated by a key of high cardinality in one TaskExecutor that is given 1 GB.

The bar is on the largest resident size of that process, as the kernel counted it: 1.5 GB.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.result import Result
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, max_, sum_
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource

DATA_BYTES = 4 << 30
GIVEN_BYTES = 1 << 30
BAR_BYTES = 1_500_000_000
#: key, number, price, quantity: four of 8 bytes.
ROW_BYTES = 32
#: Records of one key: few, so that there are tens of millions of keys.
ROWS_PER_KEY = 4
PARALLELISM = 2
#: Odd: as it is multiplied with, numbers of different records stay different and come in no order.
SPREAD = 2_654_435_761
SCHEMA = pa.schema([("key", pa.int64()), ("number", pa.int64()), ("price", pa.float64()), ("quantity", pa.int64())])


class Records:
    """Makes the columns of numbered records."""

    def __init__(self, num_keys: int) -> None:
        self._num_keys = num_keys

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = batch.column(0).to_numpy()
        keys = numbers * SPREAD % self._num_keys
        columns = [keys, numbers, numbers * 0.25, numbers & 63]
        return pa.RecordBatch.from_arrays([pa.array(np.ascontiguousarray(column)) for column in columns], schema=SCHEMA)


def _peak_bytes(process: psutil.Process) -> int:
    """Returns the peak resident size of the process."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not tell the largest resident size of a process")


def run(data_bytes: int = DATA_BYTES, given_bytes: int = GIVEN_BYTES) -> list[Result]:
    """Generated columns -> key_by -> count, sum, max per key, in batch mode; parallelism 2."""
    num_rows = data_bytes // ROW_BYTES
    properties = {
        "taskmanager.numberOfTaskSlots": str(PARALLELISM),
        "taskmanager.memory.managed.size": f"{given_bytes} b",
    }
    cluster = LocalCluster(LocalClusterOptions(num_task_executors=1, properties=properties))
    cluster.start()
    try:
        executor = next(
            psutil.Process(process.popen.pid) for process in cluster.processes if "taskexecutor" in process.spec.verb
        )
        configuration = Configuration.from_dict({**cluster.client_properties, "execution.runtime-mode": "BATCH"})
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(PARALLELISM)
        source = NumberSequenceSource(0, num_rows - 1)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
        records = numbers.map_batches(Records(max(1, num_rows // ROWS_PER_KEY)), SCHEMA)
        totals = records.key_by("key").aggregate(count(), sum_("price"), max_("quantity"), max_("number"))
        totals.sink_to(DiscardingSink())
        begin = time.monotonic()
        env.execute("batch-memory")
        seconds = time.monotonic() - begin
        peak = _peak_bytes(executor)
    finally:
        cluster.stop()
    size = f"{data_bytes / 1e9:.1f} GB, {num_rows // ROWS_PER_KEY / 1e6:.0f} M keys, {seconds:.0f} s"
    note = f"{size}; at most {BAR_BYTES / 1e9} GB"
    return [Result("batch memory", peak / 1e9, BAR_BYTES / 1e9, "GB resident", "", BAR_BYTES / peak, 1.0, note)]
