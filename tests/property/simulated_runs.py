"""The seeds of simulations, and the loop and directory of one run."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from simulated_processes import ProcessLoop

#: A directory in memory if possible, because syncing is free there.
SHARED_MEMORY = Path("/dev/shm")


def seeds_of_runs() -> range:
    """Returns the seeds that the environment names: 30 by default. `make chaos` runs ten thousand others."""
    if "FLINKPY_SIMULATION_SEED" in os.environ:
        seed = int(os.environ["FLINKPY_SIMULATION_SEED"])
        return range(seed, seed + 1)
    first = int(os.environ.get("FLINKPY_SIMULATION_FIRST_SEED", "0"))
    return range(first, first + int(os.environ.get("FLINKPY_SIMULATION_SEEDS", "30")))


@contextmanager
def simulation(seed: int) -> Iterator[tuple[asyncio.Runner, ProcessLoop, Random, Path]]:
    """Provides runner, loop, random numbers and directory of a run. An error of the run names the seed."""
    random = Random(seed)
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="flinkpy-simulation-", dir=parent))
    loop = ProcessLoop(random)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            yield runner, loop, random, directory
    except BaseException as error:
        error.add_note(f"FLINKPY_SIMULATION_SEED={seed} replays this")
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)
