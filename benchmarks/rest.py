"""rest: the answers of the REST server beside a job at full speed, and what it costs that job and an idle cluster."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.peers import run_program
from benchmarks.result import Result
from benchmarks.slices import compare_quiet, compare_slices

#: Slices of each kind, in turns, in one run of one job.
SLICES = 16
SECONDS = 4.0
#: How long 500 clients poll.
CLIENTS_SECONDS = float(os.environ.get("BENCH_REST_CLIENTS_SECONDS", "300"))
#: Starts of a cluster of each kind, in turns.
STARTS = 5
BAR_P99_MS = 20.0
BAR_RATE = 0.97
BAR_START = 1 / 1.1
BAR_IDLE_MB = 15.0
#: Memory of the Dispatcher at the end of the clients over that after the first of them: measured again, not grown.
BAR_GROWTH = 1 / 1.05


def run() -> list[Result]:
    """One client with 50 requests per second and 500 clients, at a cluster that knows 100 jobs."""
    lines = run_program(
        sys.executable,
        "rest_job.py",
        *("--slices", SLICES, "--seconds", SECONDS, "--clients-seconds", CLIENTS_SECONDS),
        timeout_s=900 + 3 * CLIENTS_SECONDS,
    )
    slices = [line for line in lines if "disturbed" in line]
    polled = [line for line in slices if line["disturbed"]]
    (clients,) = [line for line in lines if "clients" in line]
    times_ms = sorted(one for line in polled for one in line["times_ms"])
    p99_ms = times_ms[int(len(times_ms) * 0.99)]
    client_load = statistics.median(line["client_load"] for line in polled)
    note = f"{len(times_ms)} answers, median {statistics.median(times_ms):.1f} ms, max {times_ms[-1]:.0f} ms"
    note += f", client {client_load:.1%} of a CPU"
    return [
        Result("rest p99", p99_ms, BAR_P99_MS, "ms", "the bar", BAR_P99_MS / p99_ms, 1.0, note),
        compare_slices("rest rate of the job", slices, "seconds", "the same job, not polled", BAR_RATE),
        compare_slices("rest rows per CPU of the tasks", slices, "cpu_seconds", "the same job, not polled", BAR_RATE),
        compare_quiet("rest nobody asks", slices, "seconds"),
        Result(
            "rest memory after many polls",
            clients["late_mb"],
            clients["early_mb"],
            "MB",
            "after the first",
            clients["early_mb"] / clients["late_mb"],
            BAR_GROWTH,
            f"{clients['clients']} clients, {clients['answers']} answers",
        ),
        Result(
            "rest descriptors after many polls",
            clients["fds_after"],
            clients["fds_before"],
            "",
            "before them",
            clients["fds_before"] / clients["fds_after"],
            # Connections of the clients that have ended may still be closing.
            0.9,
            f"{clients['fds_open']} while they poll",
        ),
        *_idle(),
    ]


def _idle() -> list[Result]:
    """Starts clusters with and without the REST server, in turns."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    memory_mb: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * STARTS):
        is_enabled = number % 4 in (0, 3)
        took_s, took_mb = _start(is_enabled)
        seconds[is_enabled].append(took_s)
        memory_mb[is_enabled].append(took_mb)
    ours_s, peer_s = min(seconds[True]), min(seconds[False])
    ours_mb, peer_mb = statistics.median(memory_mb[True]), statistics.median(memory_mb[False])
    more_mb = ours_mb - peer_mb
    return [
        Result(
            "rest cluster start", ours_s, peer_s, "s", "rest.enabled: false", peer_s / ours_s, BAR_START, "the best"
        ),
        Result(
            "rest idle Dispatcher",
            ours_mb,
            peer_mb,
            "MB",
            "rest.enabled: false",
            (peer_mb + BAR_IDLE_MB) / ours_mb,
            1.0,
            f"{more_mb:+.1f} MB; bar: +{BAR_IDLE_MB:g} MB",
        ),
    ]


def _start(is_enabled: bool) -> tuple[float, float]:
    """Returns the seconds of `flinkpy cluster start`, and the private memory of the Dispatcher afterwards."""
    flinkpy = [sys.executable, "-m", "flinkpy.cli.main", "cluster"]
    options = ["-D", "jobmanager.rpc.port=0", "-D", "rest.port=0", "-D", f"rest.enabled={str(is_enabled).lower()}"]
    with tempfile.TemporaryDirectory() as directory:
        environment = dict(os.environ, FLINKPY_RUN_DIR=directory)
        try:
            began_s = time.perf_counter()
            start = [*flinkpy, "start", "--taskmanagers", "1", *options]
            subprocess.run(start, check=True, capture_output=True, env=environment)
            took_s = time.perf_counter() - began_s
            recorded = json.loads((Path(directory) / "cluster.json").read_text())["processes"]
            (pid,) = [process["pid"] for process in recorded if process["name"] == "dispatcher"]
            return took_s, psutil.Process(pid).memory_full_info().uss / 1e6
        finally:
            subprocess.run([*flinkpy, "stop"], check=True, capture_output=True, env=environment)
