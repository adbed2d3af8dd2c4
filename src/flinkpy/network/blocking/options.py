"""The limits of the blocking shuffle of one TaskExecutor process."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.network.options import MIB


@dataclass(frozen=True, slots=True)
class BlockingShuffleOptions:
    """What `taskmanager.network.sort-shuffle.*` and its neighbours say.

    Attributes:
        min_buffers: network buffers a partition gathers before it writes a region, at least; fewer where the network
            memory does not have them.
        read_memory_bytes: bound on what all readers of this process have read and their consumers not taken.
        compression: "lz4", "zstd" or None.
    """

    min_buffers: int = 512
    read_memory_bytes: int = 64 * MIB
    compression: str | None = "lz4"
