"""rescale: how long a keyed job that is rescaled 2 -> 3 -> 2 is silent, and a pipeline that is not rescaled."""

from __future__ import annotations

import sys

from benchmarks.peers import run_program
from benchmarks.result import Result

#: name -> (arguments of the program, bar in seconds)
SIZES: dict[str, tuple[tuple[object, ...], float]] = {
    "no state": ((), 0.5),
    "1 GB in RocksDB": (("--state", "--keys", 1_000_000), 2.0),
}
#: A pause of the other pipeline that is no longer than this is the jitter of its own batches.
JITTER_S = 0.1


def run() -> list[Result]:
    """Measures the longest time without output after each request, of the rescaled job and of the other pipeline."""
    results = []
    for name, (arguments, bar_s) in SIZES.items():
        for one in run_program(sys.executable, "rescale_job.py", *arguments):
            gap_s, other_s = one["gap_s"], one["other_gap_s"]
            label = f"rescale to {one['parallelism']} ({name})"
            note = f"asked {one['waited_s']:.1f} s before; {one['restored_bytes'] / 1e6:,.0f} MB restored"
            results.append(Result(label, gap_s, bar_s, "s", "the bar", bar_s / gap_s, 1.0, note))
            ratio = JITTER_S / max(other_s, JITTER_S)
            results.append(Result(f"{label}, others", other_s, JITTER_S, "s", "the bar", ratio, 1.0))
    return results
