"""contention: the speed of jobs that share the machine, and how much runs alone vary.

Three modes: alone; beside four busy loops; and in a control group that has half a core (`cpu.cfs_quota_us` or
`cpu.max`). In each mode a job runs several times in a fresh process. What is judged are ratios, so a faster machine
passes no sooner:

* alone: the slowest run, against the median; at most 1.5 times.
* busy: the rate, as a part of the rate alone, against the part that two plain loops get beside the same four; at least
  0.7 of it. Two is what the jobs have at most of threads that compute at a time.
* half: the rate, against a quarter of the rate alone, which had two cores; at least 0.7.

The first run of each process, which starts the cluster and imports what it needs, is named in the note and not judged.
Flink's Java runtime runs the first job in the same modes beside it.

    python -m benchmarks.contention [--runs N] [--jobs bids,rows] [--modes alone,busy,half] [--peer-runs N]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import bids
from benchmarks.peers import BENCH_DIR, PROGRAMS, ROOT, pyflink_python
from benchmarks.result import Result, print_results

RUNS = 10
PEER_RUNS = 3
MODES = ("alone", "busy", "half")
BUSY_LOOPS = 4
#: The time limit in seconds of a run in a mode with less CPU time. A slower run is a failure.
RUN_TIMEOUT_S = 60.0
#: The same for a process to start.
START_TIMEOUT_S = 120.0
SHARE_SECONDS = 4.0

SLOWEST_BAR = 1.5
SHARE_BAR = 0.7

_BIDS_ROWS, _BIDS_AUCTIONS = 3_000_000, 1_000_000
_NUMBERS = {"rows": 5_000_000, "keyed": 2_000_000}
_EXCHANGE_BATCHES = 40_000

_LOOP = "while True: pass"
#: Counts in rounds until the time is over, and prints how many.
_COUNTING_LOOP = """
import sys, time
end, rounds = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    for _ in range(10_000):
        pass
    rounds += 1
print(rounds)
"""


@dataclass
class Runs:
    """Seconds of the runs of one job in one mode; `first` is the one that started everything."""

    first: float | None = None
    seconds: list[float] = field(default_factory=list)
    failure: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        shown = f"first {self.first:.2f} s, then " if self.first is not None else ""
        return shown + "/".join(f"{s:.2f}" for s in self.seconds) + (f"; {self.failure}" if self.failure else "")


def commands(job: str, runs: int) -> list[object]:
    """The program that runs the job `runs` times, printing a line of JSON with its seconds for each."""
    python = sys.executable
    if job == "bids":
        path = bids.directory(_BIDS_ROWS, _BIDS_AUCTIONS)
        return [python, PROGRAMS / "contention_job.py", path, "--runs", runs]
    if job in _NUMBERS:
        arguments = ["--package", "flinkpy", "--job", job, "--rows", *[_NUMBERS[job]] * runs]
        return [python, PROGRAMS / "datastream_job.py", *arguments]
    if job == "windows":
        return [python, PROGRAMS / "csv_job.py", bids.directory(), "--queries", *["tumble"] * runs]
    if job == "exchange":
        return [python, "-m", "benchmarks.contention", "--exchange", runs]
    if job == "bids (Flink)":
        path = bids.directory(_BIDS_ROWS, _BIDS_AUCTIONS)
        return [pyflink_python(), PROGRAMS / "flink_sql_csv.py", path, "--queries", *["aggregate"] * runs]
    raise ValueError(f"no job {job!r}")


JOBS = ("bids", "rows", "keyed", "windows", "exchange")


def measure(job: str, mode: str, runs: int) -> Runs:
    """Measures one warm-up and `runs` runs in a separate process."""
    command = [str(part) for part in commands(job, runs + 1)]
    slower = 1 if mode == "alone" else 6
    with surroundings(mode) as prefix:
        result = _run([*prefix, *command], Path(command[0]), START_TIMEOUT_S + RUN_TIMEOUT_S * slower * (runs + 1))
    result.first, result.seconds = (result.seconds[0], result.seconds[1:]) if result.seconds else (None, [])
    if len(result.seconds) < runs and not result.failure:
        result.failure = f"only {len(result.seconds)} of {runs} runs ended"
    return result


def _run(command: list[str], python: Path, timeout_s: float) -> Runs:
    # The peer starts its workers as `python`.
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = dict(os.environ, PYTHONWARNINGS="ignore", PATH=path, PYTHONPATH=str(ROOT))
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=BENCH_DIR
    )
    runs = Runs()
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, errors = process.communicate()
        runs.failure = f"stopped after {timeout_s:.0f} s"
    else:
        if process.returncode:
            runs.failure = f"exit status {process.returncode}: {errors.strip()[-200:]}"
    runs.seconds = [json.loads(line)["seconds"] for line in output.splitlines() if line.startswith('{"')]
    return runs


# ---------------------------------------------------------------- modes

_CGROUP = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@contextlib.contextmanager
def surroundings(mode: str) -> Iterator[list[str]]:
    """Returns the command prefix that runs a command in this mode. Raises OSError if it is not supported here."""
    if mode == "alone":
        yield []
    elif mode == "half":
        with control_group(_PERIOD_US // 2) as prefix:
            yield prefix
    else:
        with control_group(None) as prefix, busy_loops(prefix):
            yield prefix


@contextlib.contextmanager
def control_group(quota_us: int | None) -> Iterator[list[str]]:
    """Returns the command prefix that runs a command in its own control group, with or without a quota of CPU time.

    A group without a quota is for fairness: otherwise Linux may share the processors among sessions (autogroup) instead
    of threads, and the services of a cluster are separate sessions.

    Raises:
        OSError: this machine does not support it.
    """
    is_first_version = (_CGROUP / "cpu").is_dir()
    if not is_first_version:
        with contextlib.suppress(OSError):  # on already; if not, writing the quota fails
            (_CGROUP / "cgroup.subtree_control").write_text("+cpu")
    group = (
        _CGROUP / "cpu" if is_first_version else _CGROUP
    ) / f"flinkpy-contention-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        if quota_us is not None and is_first_version:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        elif quota_us is not None:
            (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        yield ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """The services of an embedded cluster end a moment after the program."""
    for _ in range(100):
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.stderr.write(f"{group} still has members and stays\n")


@contextlib.contextmanager
def busy_loops(prefix: list[str]) -> Iterator[None]:
    loops = [subprocess.Popen([*prefix, sys.executable, "-c", _LOOP]) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def fair_share() -> float:
    """Returns the speed of two plain loops beside the busy loops, as a fraction of their speed alone."""

    def rounds(prefix: list[str]) -> int:
        command = [*prefix, sys.executable, "-c", _COUNTING_LOOP, str(SHARE_SECONDS)]
        loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        return sum(int(loop.communicate()[0]) for loop in loops)

    alone = rounds([])
    with surroundings("busy") as prefix:
        return rounds(prefix) / alone


# ---------------------------------------------------------------- results


def run() -> list[Result]:
    return compare(RUNS, JOBS, MODES, PEER_RUNS)


def compare(runs: int, jobs: tuple[str, ...], modes: tuple[str, ...], peer_runs: int) -> list[Result]:
    """Results of each job in each mode; `alone` always runs, since the others are measured against it."""
    BENCH_DIR.mkdir(exist_ok=True)
    results = []
    share = 0.0
    if "busy" in modes:
        try:
            share = fair_share()
        except OSError as error:
            results.append(_failed("all", "busy", f"cannot be arranged here: {error}"))
            modes = tuple(mode for mode in modes if mode != "busy")
    counts = dict.fromkeys(jobs, runs)
    if peer_runs and "bids" in jobs:
        counts["bids (Flink)"] = peer_runs
    for job, count in counts.items():
        alone = measure(job, "alone", count)
        results += _judged(job, "alone", alone, alone, share)
        for mode in modes:
            if mode == "alone" or not alone.seconds:
                continue
            try:
                results += _judged(job, mode, measure(job, mode, count), alone, share)
            except OSError as error:
                results.append(_failed(job, mode, f"cannot be arranged here: {error}"))
    return results


def _judged(job: str, mode: str, runs: Runs, alone: Runs, share: float) -> list[Result]:
    sys.stderr.write(f"{job}, {mode}: {runs}\n")
    if not runs.seconds or runs.failure:
        return [_failed(job, mode, runs.failure or "no run ended")]
    is_peer = job.endswith("(Flink)")
    if mode == "alone":
        slowest = max(runs.seconds)
        bar = None if is_peer else 1 / SLOWEST_BAR
        name = "the median run"
        return [Result(f"{job}: slowest alone", slowest, runs.median, "s", name, runs.median / slowest, bar, str(runs))]
    wanted = share if mode == "busy" else 0.25
    name = f"{wanted:.2f} of the rate alone"
    ours, fair = 1 / runs.median, wanted / alone.median
    bar = None if is_peer else SHARE_BAR
    return [Result(f"{job}: {mode}", ours, fair, "runs/s", name, ours / fair, bar, str(runs))]


def _failed(job: str, mode: str, why: str) -> Result:
    return Result(f"{job}: {mode}", 0.0, None, "", "", 0.0, SHARE_BAR, why)


def _run_exchange(runs: int) -> None:
    """A producer and a consumer process, batches of 1,024 rows."""
    from benchmarks import exchange

    for _ in range(runs):
        seconds = exchange.measure(exchange._producer, exchange._consumer, 1_024, _EXCHANGE_BATCHES)
        print(json.dumps({"seconds": seconds}), flush=True)


def main() -> None:
    def names(text: str) -> tuple[str, ...]:
        return tuple(text.split(","))

    parser = argparse.ArgumentParser(prog="python -m benchmarks.contention", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--jobs", type=names, default=JOBS)
    parser.add_argument("--modes", type=names, default=MODES)
    parser.add_argument("--peer-runs", type=int, default=PEER_RUNS, help="runs of Flink; 0: it does not run")
    parser.add_argument("--exchange", type=int, metavar="RUNS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = {*options.jobs} - {*JOBS} | {*options.modes} - {*MODES}
    if unknown:
        parser.error(f"no {', '.join(sorted(unknown))}; jobs are {', '.join(JOBS)}, and modes {', '.join(MODES)}")
    if options.exchange:
        _run_exchange(options.exchange)
    else:
        print_results(compare(options.runs, options.jobs, options.modes, options.peer_runs))


if __name__ == "__main__":
    main()
