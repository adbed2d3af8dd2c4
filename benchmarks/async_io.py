"""async: a million asynchronous calls, 100 under way, beside a bare asyncio loop that makes the same calls."""

from __future__ import annotations

import sys

from benchmarks.peers import run_program, steady_rate
from benchmarks.result import Result, rate

#: A warm-up and two sizes: their difference is the steady rate, free of start-up.
ROWS = (20_000, 200_000, 1_000_000)
#: The sides take turns, and the best run of each counts, because the speed of the machine varies.
ROUNDS = 3
BAR = 0.3
MODES = ("unordered", "ordered", "ordered with retries")
PEERS = {"workers": "asyncio, 100 workers", "semaphore": "asyncio, semaphore of 100"}


def run() -> list[Result]:
    """number sequence -> AsyncFunction -> discard, parallelism 1: the loop and the task share one interpreter."""
    results = []
    for call in ("yielding", "immediate"):
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for side in (*PEERS, *MODES):
                best[side] = max(best.get(side, 0.0), _rate(side, call))
        for mode in MODES:
            for peer, name in PEERS.items():
                results.append(rate(f"async ({mode}, {call} call)", best[mode], best[peer], "M calls/s", name, BAR))
    return results


def _rate(side: str, call: str) -> float:
    measured = run_program(
        sys.executable, "async_job.py", "--side", side.replace(" ", "-"), "--call", call, "--rows", *ROWS
    )
    return steady_rate(measured) / 1e6
