"""submission: what SQL adds to the submission of a job: parsing, planning, and a larger graph."""

from __future__ import annotations

import statistics
import sys

from benchmarks.peers import run_program
from benchmarks.result import Result

_BAR_S = 0.150


def run() -> list[Result]:
    """q5 of Nexmark beside a DataStream program on the same cluster: the median of what SQL takes longer."""
    rounds = run_program(sys.executable, "submission_job.py")
    sql_s = statistics.median(line["sql_s"] for line in rounds)
    stream_s = statistics.median(line["stream_s"] for line in rounds)
    beyond_s = max(sql_s - stream_s, 1e-4)
    note = f"SQL {sql_s * 1e3:.0f} ms, DataStream {stream_s * 1e3:.0f} ms, medians of {len(rounds)}"
    title = "submission of q5 beyond a DataStream's"
    return [Result(title, beyond_s, _BAR_S, "s", "the bar", _BAR_S / beyond_s, 1.0, note)]
