"""The longest times for which one batch holds the task thread, while the state of an operator of SQL grows.

python -m benchmarks.pauses [--rows N] [--batch N] [--repeats N] [--backend hashmap|rocksdb] [WORKLOAD ...]

Each row has a key of its own or meets one of few, so growth, compaction, eviction and writing show. A snapshot is taken
every SNAPSHOT_EVERY batches; its synchronous part is measured alone. Times are those of the task thread on the CPU.
Each number is the lowest one of the repeats: fetching a page of memory from the host counts as time on the CPU.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.micro_operators import Environment
from benchmarks.table_kernels import call, info, spec_of
from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import (
    DeduplicateSpec,
    GroupAggregateSpec,
    JoinSpec,
    JoinType,
    RankSpec,
    SortField,
    WindowAggregateSpec,
    WindowSlices,
)
from flinkpy.records.batch import Batch
from flinkpy.records.key_hash import compile_hashes
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import schema_of
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.factory import create_operator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

SNAPSHOT_EVERY = 20
#: The first batches load compiled code.
WARM_UP = 4
_LONG, _TEXT, _TIME = lt.BigIntType(), lt.VarCharType(), lt.TimestampType(precision=3)
_COLUMNS = {"key": _LONG, "text": _TEXT, "few": _LONG, "number": _LONG, "time": _TIME}
_ROW = info(_COLUMNS)
_TYPES = {name: (kind, None) for name, kind in _COLUMNS.items()}
_KEY, _FEW = FieldKeySelector(("key",)), FieldKeySelector(("few",))
#: The time-to-live of a workload with expiry, in batches: each passes one ms.
_TTL_BATCHES = 80


def _groups(grouping: tuple[int, ...], *calls: Any, **more: Any) -> Any:
    more = {"needs_retraction": False, "generate_update_before": False, **more}
    return spec_of(GroupAggregateSpec, _TYPES, grouping, list(calls), **more)


def _windows(kind: str) -> Any:
    slices = WindowSlices(kind, 10_000, time_column=4)
    bounds = ("window_start", "window_end")
    return spec_of(WindowAggregateSpec, _TYPES, (0,), [call("COUNT"), call("SUM", 3)], window=slices, properties=bounds)


WORKLOADS: dict[str, Callable[[], Any]] = {
    "group, number": lambda: _groups((0,), call("COUNT"), call("SUM", 3)),
    "group, number and text": lambda: _groups((0, 1), call("COUNT"), call("SUM", 3)),
    "group, text": lambda: _groups((1,), call("COUNT"), call("SUM", 3)),
    "group, expiring": lambda: _groups((0,), call("COUNT"), state_ttl_ms=_TTL_BATCHES),
    "distinct values": lambda: _groups((2,), call("COUNT", 0, is_distinct=True)),
    "deduplicate": lambda: DeduplicateSpec(_KEY, (0,), True, None, generate_update_before=False, input_types=(_ROW,)),
    "top 1": lambda: RankSpec(
        _KEY, "ROW_NUMBER", (0,), (SortField(3, ascending=False, nulls_first=False),), 1, 1, input_types=(_ROW,)
    ),
    "join": lambda: JoinSpec((_KEY, _KEY), JoinType.INNER, (0,), (0,), (True,), input_types=(_ROW, _ROW)),
    "tumbling windows": lambda: _windows("TUMBLE"),
    "sessions": lambda: replace(_windows("TUMBLE"), window=WindowSlices("SESSION", 1_000, time_column=4)),
}


class _Discarding:
    def emit(self, batch: Batch) -> None:
        return

    def emit_element(self, element: Any) -> None:
        return


def _batches(rows: int, batch_rows: int) -> list[Batch]:
    """Returns rows of which one in four repeats an earlier key."""
    rng = np.random.default_rng(1)
    ids = np.arange(rows)
    ids = np.where(rng.random(rows) < 0.25, rng.integers(0, np.maximum(ids, 1)), ids)
    # Numbers that are far apart fit no dense table.
    keys = rng.integers(0, 1 << 62, rows).take(ids)
    columns = [
        pa.array(keys),
        pa.array([f"name-{number}" for number in ids.tolist()]),
        pa.array(ids % 100),
        pa.array(rng.integers(0, 1_000_000, rows)),
        pa.array(ids // 100).view(pa.timestamp("ms")),
    ]
    whole = pa.RecordBatch.from_arrays(columns, schema=schema_of(_ROW.row_type))
    return [Batch(whole.slice(start, batch_rows)) for start in range(0, rows, batch_rows)]


def _operator(spec: Any, backend: str, directory: Path, clock: ManualClock) -> Any:
    environment: Any = Environment([spec])
    environment.configuration = Configuration.from_dict(
        {"state.backend.type": backend, "execution.checkpointing.incremental": "true"}
    )
    environment.state.directory = directory
    environment.clock = clock
    context = OperatorContext(
        "0", "bench", environment, TaskMailbox(), ProcessingTimeService(clock), OperatorMetricGroup()
    )
    output: Any = _Discarding()
    operator: Any = create_operator(spec, context, output, {})
    operator.restore(lambda operator_id: None)
    operator.open()
    return operator


def measure(name: str, backend: str, batches: list[Batch]) -> np.ndarray:
    """Returns times in ms: the median, the 99th percentile and the maximum of batches, and the maximum of snapshots."""
    spec = WORKLOADS[name]()
    held, snapshots = [], []
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as directory:
        operator = _operator(spec, backend, Path(directory), clock)
        for number, batch in enumerate(batches):
            start = time.thread_time()
            operator.process_batch(batch, number % len(spec.input_types))
            operator.after_batch(batch.num_rows)
            held.append(time.thread_time() - start)
            clock.advance(1)
            if number % SNAPSHOT_EVERY == SNAPSHOT_EVERY - 1:
                start = time.thread_time()
                operator.prepare_snapshot_pre_barrier(number)
                snapshot = operator.backend.snapshot(number, checkpoint_pb2.CheckpointOptions())
                snapshots.append(time.thread_time() - start)
                snapshot.release()
        operator.close()
    return 1_000 * np.array([*np.percentile(held[WARM_UP:], [50, 99, 100]), max(snapshots, default=0.0)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pauses", description=__doc__)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--rows", type=int, default=2_000_000, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=8_192, help="rows of a batch (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), help="default: both")
    arguments = parser.parse_args()
    compile_hashes()
    batches = _batches(arguments.rows, arguments.batch)
    print(f"{'workload':<24}{'backend':<10}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}{'snapshot ms':>12}")
    for name in arguments.workloads:
        for backend in (arguments.backend,) if arguments.backend else ("hashmap", "rocksdb"):
            times = np.min([measure(name, backend, batches) for _ in range(arguments.repeats)], axis=0)
            p50, p99, worst, frozen = times.tolist()
            print(f"{name:<24}{backend:<10}{p50:>8.1f}{p99:>8.1f}{worst:>8.1f}{frozen:>12.1f}", flush=True)


if __name__ == "__main__":
    main()
