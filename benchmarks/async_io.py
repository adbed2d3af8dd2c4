"""async: a million asynchronous calls, 100 under way, beside a bare asyncio loop that makes the same calls."""

from __future__ import annotations

import sys

from benchmarks.peers import run_program, steady_rate
from benchmarks.result import Result, rate

#: A warm-up and two sizes: their difference is the steady rate, free of start-up.
ROWS = (20_000, 200_000, 1_200_000)
BAR = 0.3
PEERS = {"workers": "asyncio, 100 workers", "semaphore": "asyncio, semaphore of 100"}


def run() -> list[Result]:
    """number sequence -> AsyncFunction -> discard, parallelism 1: the loop and the task share one interpreter."""
    results = []
    for call in ("yielding", "immediate"):
        peers = {peer: _rate(peer, call) for peer in PEERS}
        for mode in ("unordered", "ordered", "ordered with retries"):
            ours = _rate(mode, call)
            for peer, name in PEERS.items():
                results.append(rate(f"async ({mode}, {call} call)", ours, peers[peer], "M calls/s", name, BAR))
    return results


def _rate(side: str, call: str) -> float:
    measured = run_program(
        sys.executable, "async_job.py", "--side", side.replace(" ", "-"), "--call", call, "--rows", *ROWS
    )
    return steady_rate(measured) / 1e6
