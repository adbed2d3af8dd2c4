"""checkpoint-cost, checkpoint-backpressure: the cost of checkpoints, and their duration under backpressure."""

from __future__ import annotations

import statistics
import sys
import tempfile
from typing import Any

from benchmarks.peers import run_program, steady_rate
from benchmarks.result import Result

#: Warm-up and two sizes, whose difference is the steady rate: some seconds, so that there are some checkpoints in it.
ROWS = {
    ("hashmap", 10_000): (100_000, 1_000_000, 12_000_000),
    ("rocksdb", 10_000): (100_000, 1_000_000, 10_000_000),
    ("hashmap", 1_000_000): (100_000, 1_000_000, 12_000_000),
    ("rocksdb", 1_000_000): (50_000, 500_000, 4_000_000),
}
ROUNDS = 3
#: At most a tenth of the throughput may be lost.
COST_BAR = 0.9
BACKPRESSURE_P50_BAR_MS = 50.0
BACKPRESSURE_RATIO_BAR = 20.0


def _rate(backend: str, keys: int, checkpoints: bool) -> float:
    with tempfile.TemporaryDirectory() as directory:
        settings = [f"state.backend.type={backend}"]
        if checkpoints:
            settings += ["execution.checkpointing.interval=1 s", f"execution.checkpointing.dir={directory}"]
            if backend == "rocksdb":
                settings.append("execution.checkpointing.incremental=true")
        arguments: list[Any] = [
            "--package",
            "flinkpy",
            "--job",
            "keyed",
            "--keys",
            keys,
            "--rows",
            *ROWS[backend, keys],
        ]
        for setting in settings:
            arguments += ["-D", setting]
        return steady_rate(run_program(sys.executable, "datastream_job.py", *arguments))


def _cost(backend: str, keys: int, bar: float | None) -> Result:
    """Rounds alternate, so that other load of the machine affects both sides alike. The medians are compared."""
    without, with_ = [], []
    for _ in range(ROUNDS):
        without.append(_rate(backend, keys, False))
        with_.append(_rate(backend, keys, True))
    ours, peer = statistics.median(with_) / 1e6, statistics.median(without) / 1e6
    name = f"checkpoint-cost ({backend}, {keys:,} keys)"
    return Result(name, ours, peer, "M rows/s", "the same without checkpoints", ours / peer, bar)


def run_cost() -> list[Result]:
    """The keyed job with a checkpoint every second beside the same without any."""
    return [
        _cost("hashmap", 10_000, COST_BAR),
        _cost("rocksdb", 10_000, COST_BAR),
        _cost("hashmap", 1_000_000, None),
        _cost("rocksdb", 1_000_000, None),
    ]


def run_backpressure() -> list[Result]:
    """source -> rebalance -> slow map -> sink: how long a checkpoint takes, aligned and unaligned."""
    p50 = {}
    for mode in ("aligned", "unaligned"):
        with tempfile.TemporaryDirectory() as directory:
            measured = run_program(sys.executable, "backpressure_job.py", "--mode", mode, "--directory", directory)[-1]
        p50[mode] = statistics.median(measured["durations_ms"])
    ours, aligned = p50["unaligned"], p50["aligned"]
    bar_ms, ratio = BACKPRESSURE_P50_BAR_MS, aligned / ours
    return [
        Result("checkpoint-backpressure p50", ours, bar_ms, "ms", "the bar", bar_ms / ours, 1.0),
        Result("checkpoint-backpressure ratio", ours, aligned, "ms", "aligned p50", ratio, BACKPRESSURE_RATIO_BAR),
    ]
