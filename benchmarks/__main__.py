"""`python -m benchmarks NAME ... [--json FILE]`: run benchmarks and print ours, the peer and the ratio."""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import platform
import subprocess
from pathlib import Path

from benchmarks.peers import BENCH_DIR, ROOT
from benchmarks.result import Result, print_results

#: name -> (module, function). A function returns its results and prints nothing.
BENCHMARKS = {
    "rows": ("benchmarks.rows", "run_rows"),
    "keyed": ("benchmarks.rows", "run_keyed"),
    "columns": ("benchmarks.columns", "run"),
    "windows": ("benchmarks.windows", "run"),
    "exchange": ("benchmarks.exchange", "run"),
    "contention": ("benchmarks.contention", "run"),
    "tls": ("benchmarks.tls", "run"),
    "blocking-shuffle": ("benchmarks.blocking_shuffle", "run"),
    "latency": ("benchmarks.latency", "run"),
    "latency-window": ("benchmarks.latency_window", "run"),
    "windows-rows": ("benchmarks.windows_rows", "run"),
    "start": ("benchmarks.start", "run"),
    "memory": ("benchmarks.memory", "run"),
    "memory-limit": ("benchmarks.memory_limit", "run"),
    "batch-memory": ("benchmarks.batch_memory", "run"),
    "batch-spark": ("benchmarks.batch_spark", "run"),
    "state-ops": ("benchmarks.state_ops", "run"),
    "checkpoint-pause": ("benchmarks.state_ops", "run_pause"),
    "checkpoint-cost": ("benchmarks.checkpoints", "run_cost"),
    "checkpoint-backpressure": ("benchmarks.checkpoints", "run_backpressure"),
    "incremental": ("benchmarks.incremental", "run"),
    "recovery": ("benchmarks.recovery", "run"),
    "failover": ("benchmarks.failover", "run"),
    "rescale": ("benchmarks.rescale", "run"),
    "many-tasks": ("benchmarks.many_tasks", "run"),
    "async": ("benchmarks.async_io", "run"),
    "pyflink-suite": ("benchmarks.pyflink_suite", "run"),
    "rest": ("benchmarks.rest", "run"),
    "flamegraph-cost": ("benchmarks.flamegraph_cost", "run"),
    "metrics-cost": ("benchmarks.metrics_cost", "run"),
    "batch-native": ("benchmarks.batch_native", "run"),
    "nexmark": ("benchmarks.nexmark.run", "run"),
    "nexmark-patterns": ("benchmarks.nexmark.run", "run_patterns"),
    "nexmark-generator": ("benchmarks.nexmark.generator_alone", "run"),
    "submission": ("benchmarks.submission", "run"),
    "tpch": ("benchmarks.tpch_sql.run", "run"),
}
#: The options that only some benchmarks have.
OPTIONS = {
    "nexmark-patterns": ("events", "modes"),
    "nexmark": ("queries", "events", "modes", "sides", "fields"),
    "tpch": ("queries", "scale"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {' '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    nexmark = parser.add_argument_group("nexmark")
    nexmark.add_argument(
        "--queries", type=lambda text: text.split(","), help="such as q0,q5 (default: all); of tpch, too"
    )
    nexmark.add_argument("--events", type=int, help="the number of events of each query")
    nexmark.add_argument("--modes", type=lambda text: text.split(","), help="any of plain, mini-batch, rocksdb")
    nexmark.add_argument("--sides", choices=("both", "flink"), help="flink: measure Flink alone")
    nexmark.add_argument("--fields", choices=("needed", "all"), help="all: generate fields that no query reads, too")
    parser.add_argument("--scale", type=float, help="tpch: the scale factor of the data (default: 1)")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    BENCH_DIR.mkdir(exist_ok=True)
    # As pip does when it installs a package, and did with the peer: where PYTHONDONTWRITEBYTECODE is set every process
    # of an editable installation would compile its sources again.
    compileall.compile_dir(ROOT / "src" / "flinkpy", quiet=1)
    names = sorted({name for each in OPTIONS.values() for name in each})
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    known = OPTIONS.get(options.names[0], ()) if len(options.names) == 1 else ()
    if not given.keys() <= set(known):
        wrong = ", ".join(f"--{name}" for name in given if name not in known)
        parser.error(f"{wrong}: only {' and '.join(OPTIONS)}, alone, have such options")
    results: list[Result] = []
    for name in options.names or BENCHMARKS:
        module, function = BENCHMARKS[name]
        results += getattr(importlib.import_module(module), function)(**given)
    print_results(results)
    if options.json:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True, cwd=ROOT
        ).stdout.strip()
        machine = {"platform": platform.platform(), "python": platform.python_version(), "commit": commit}
        options.json.write_text(json.dumps({**machine, "results": [r.as_dict() for r in results]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
