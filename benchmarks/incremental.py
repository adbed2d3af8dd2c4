"""incremental: bytes that incremental checkpoints of RocksDB write per byte that has changed.

State of 1 GB; then some of its keys, chosen at random, get new values between two checkpoints, again and again, so that
compactions and the collection of garbage have their share in the mean. Values are random bytes: nothing is won by
compression. `python -m benchmarks.incremental --size-mb 100` measures a smaller state.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.result import Result, print_results
from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.storage.streams import CheckpointStreamFactory
from flinkpy.common.configuration import Configuration
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.state.backend import KeyContext, KeyedStateBackendParameters
from flinkpy.state.factory import create_keyed_state_backend

SIZE_BYTES = 1_000_000_000
VALUE_BYTES = 1_000
SMALL_VALUE_BYTES = 100
#: A key group, the number of the state, and the key.
KEY_BYTES = 13
#: (part of the keys that change, checkpoints).
CHANGES = ((0.01, 40), (0.1, 20))
BAR = 2.0
BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The amount that one checkpoint wrote."""

    written_bytes: int
    sync_s: float
    async_s: float


class _Job:
    """A state backend and the directory of its checkpoints, of which the last is kept."""

    def __init__(self, directory: Path, keys: int, value_bytes: int) -> None:
        self._configuration = Configuration.from_dict(
            {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
        )
        (directory / "task").mkdir()
        self._directory = directory
        self._random = random.Random(keys)
        self._value_bytes = value_bytes
        self.keys = keys
        self._backend: Any = create_keyed_state_backend(
            KeyedStateBackendParameters(
                configuration=self._configuration,
                key_context=KeyContext(),
                key_group_range=KeyGroupRange(0, 127),
                max_parallelism=128,
                key_type=Types.LONG(),
                operator_name="incremental",
                directory=directory / "task",
            )
        )
        self._state = self._backend.value_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))
        self._checkpoint_id = 0

    def change(self, keys: list[int]) -> int:
        """Writes new values for these keys. Returns their size in bytes."""
        for start in range(0, len(keys), BATCH):
            piece = keys[start : start + BATCH]
            self._state.put_many(piece, [self._random.randbytes(self._value_bytes) for _ in piece])
        return len(keys) * (self._value_bytes + KEY_BYTES)

    def change_at_random(self, part: float) -> int:
        return self.change(self._random.sample(range(self.keys), int(self.keys * part)))

    def checkpoint(self) -> Checkpoint:
        self._checkpoint_id += 1
        exclusive = self._directory / f"chk-{self._checkpoint_id}"
        shared = self._directory / "shared"
        exclusive.mkdir()
        shared.mkdir(exist_ok=True)
        location = checkpoint_pb2.CheckpointLocation(
            exclusive_directory=str(exclusive), shared_directory=str(shared), inline_threshold_bytes=20 << 10
        )
        options = checkpoint_pb2.CheckpointOptions(kind=checkpoint_pb2.CHECKPOINT, location=location)
        begin = time.perf_counter()
        snapshot = self._backend.snapshot(self._checkpoint_id, options)
        frozen = time.perf_counter()
        handle = snapshot.write(CheckpointStreamFactory(location, self._configuration))
        snapshot.release()
        end = time.perf_counter()
        self._backend.notify_checkpoint_complete(self._checkpoint_id)
        self._subsume(shared, exclusive, {file.handle.path for file in handle.incremental.shared})
        return Checkpoint(snapshot.bytes_persisted, frozen - begin, end - frozen)

    def _subsume(self, shared: Path, exclusive: Path, used: set[str]) -> None:
        """Deletes the files that only earlier checkpoints used. Checks that the files of the new one exist."""
        missing = [path for path in used if path and not Path(path).exists()]
        assert not missing, missing
        for path in shared.iterdir():
            if str(path) not in used:
                path.unlink()
        for directory in self._directory.glob("chk-*"):
            if directory != exclusive:
                for path in directory.iterdir():
                    path.unlink()
                directory.rmdir()

    def stored_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self._directory / "shared").iterdir())

    def close(self) -> None:
        self._backend.close()


def measure(size_bytes: int, value_bytes: int, bar: float | None, progress: Callable[[str], None]) -> list[Result]:
    """Measures one state, first with few changes per checkpoint and then with more."""
    results = []
    with tempfile.TemporaryDirectory(prefix="flinkpy-incremental-") as directory:
        job = _Job(Path(directory), size_bytes // (value_bytes + KEY_BYTES), value_bytes)
        try:
            order = list(range(job.keys))
            random.Random(0).shuffle(order)
            loaded = job.change(order)
            first = job.checkpoint()
            progress(f"first: {first.written_bytes / loaded:.2f} in {first.sync_s:.2f} s + {first.async_s:.2f} s")
            for part, checkpoints in CHANGES:
                ratios, syncs = [], []
                changed = 0
                for _ in range(checkpoints):
                    changed = job.change_at_random(part)
                    taken = job.checkpoint()
                    ratios.append(taken.written_bytes / changed)
                    syncs.append(taken.sync_s * 1e3)
                    progress(f"{part:.0%}: {ratios[-1]:.2f}, sync {syncs[-1]:.0f} ms, {job.stored_bytes() >> 20} MB")
                mean = statistics.mean(ratios)
                note = (
                    f"{checkpoints} checkpoints of {changed / 1e6:.1f} MB changes; "
                    f"median {statistics.median(ratios):.2f}, most {max(ratios):.2f}; "
                    f"sync p50 {statistics.median(syncs):.0f} ms; stored {job.stored_bytes() / loaded:.2f}x"
                )
                name = f"incremental {part:.0%} ({loaded / 1e9:.2g} GB, values of {value_bytes} B)"
                results.append(Result(name, mean, BAR, "bytes/byte", "the bar", BAR / mean, bar, note))
        finally:
            job.close()
    return results


def run(size_bytes: int = SIZE_BYTES, progress: Callable[[str], None] = lambda text: None) -> list[Result]:
    """1 GB of values of 1 kB, which has the bar; and a tenth of it in small values, reported."""
    return [
        *measure(size_bytes, VALUE_BYTES, 1.0, progress),
        *measure(size_bytes // 10, SMALL_VALUE_BYTES, None, progress),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.incremental", description=__doc__)
    parser.add_argument("--size-mb", type=int, default=SIZE_BYTES // 1_000_000)
    print_results(run(parser.parse_args().size_mb * 1_000_000, print))


if __name__ == "__main__":
    main()
