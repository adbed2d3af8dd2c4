"""start: from a plain script to its end, from submission to the first record, from `cluster start` to ready."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.peers import ROOT, pyflink_python, run_program
from benchmarks.result import Result

ROUNDS = 3
BAR_SHARE_OF_PYFLINK = 0.15
BAR_FIRST_RECORD_S = 0.5
BAR_CLUSTER_START_S = 3.0


def _wall_s(command: list[str]) -> float:
    """Best of a few runs of a whole process."""
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=dict(os.environ, PATH=path), cwd=ROOT)
        times.append(time.perf_counter() - begin)
    return min(times)


def _cluster_start_s() -> float:
    flinkpy = [sys.executable, "-m", "flinkpy.cli.main"]
    with tempfile.TemporaryDirectory() as directory:
        environment = dict(os.environ, FLINKPY_RUN_DIR=directory)
        port = ["-D", "jobmanager.rpc.port=0"]
        try:
            begin = time.perf_counter()
            start = [*flinkpy, "cluster", "start", "--taskmanagers", "2", *port]
            subprocess.run(start, check=True, capture_output=True, env=environment)
            return time.perf_counter() - begin
        finally:
            subprocess.run([*flinkpy, "cluster", "stop"], check=True, capture_output=True, env=environment)


def _upper_bound(name: str, ours: float, bar: float, note: str = "") -> Result:
    return Result(name, ours, bar, "s", "the bar", bar / ours, 1.0, note)


def run() -> list[Result]:
    """word_count on the embedded cluster beside PyFlink; a warm cluster's first record; a cluster's start."""
    ours = _wall_s([sys.executable, str(ROOT / "examples" / "word_count.py")])
    peer = _wall_s([str(pyflink_python()), "-m", "pyflink.examples.datastream.word_count"])
    first = min(line["seconds"] for line in run_program(sys.executable, "first_record.py"))
    note = f"bar: at most {BAR_SHARE_OF_PYFLINK} of the peer's wall time"
    return [
        Result("start word_count.py", ours, peer, "s", "PyFlink", peer / ours, 1 / BAR_SHARE_OF_PYFLINK, note),
        _upper_bound("start to first record", first, BAR_FIRST_RECORD_S, "warm cluster, submit to first record"),
        _upper_bound("cluster start to ready", _cluster_start_s(), BAR_CLUSTER_START_S, "two TaskExecutors"),
    ]
