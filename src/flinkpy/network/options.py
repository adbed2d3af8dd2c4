"""The limits of the data plane of one TaskExecutor process."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """What `taskmanager.memory.*` and `taskmanager.network.*` say; sizes in bytes, times in ms.

    Attributes:
        memory_bytes: bound on the bytes in flight of this process: queues of its partitions and of its gates.
        segment_size_bytes: the unit of accounting; a buffer of S bytes costs ceil(S / segment) segments and credits.
        exclusive_buffers_per_channel: credits a remote channel always has.
        request_backoff_initial_ms, request_backoff_max_ms: pauses between requests of a partition that is not there.
        partition_request_timeout_ms: how long a producer's process waits for a partition asked of it to appear.
        connect_timeout_ms: for reaching the producer's process and its answer to the greeting.
        handshake_timeout_ms: for a consumer that has connected to say and prove who it is.
        max_unauthenticated_connections: of those that have connected and not proved who they are.
    """

    memory_bytes: int = 64 * MIB
    segment_size_bytes: int = 32 * KIB
    exclusive_buffers_per_channel: int = 2
    request_backoff_initial_ms: int = 100
    request_backoff_max_ms: int = 10_000
    partition_request_timeout_ms: int = 10_000
    connect_timeout_ms: int = 10_000
    handshake_timeout_ms: int = 10_000
    max_unauthenticated_connections: int = 256


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
