"""The limits of the data plane of one TaskExecutor process."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """The options `taskmanager.memory.*` and `taskmanager.network.*`; sizes in bytes, times in ms.

    Attributes:
        memory_bytes: the limit for the bytes in flight of this process: the queues of its partitions and gates.
        segment_size_bytes: the unit of accounting; a buffer of S bytes costs ceil(S / segment) segments and credits.
        exclusive_buffers_per_channel: the credits that a remote channel always has.
        request_backoff_initial_ms, request_backoff_max_ms: the pauses between requests for a partition that does not
            exist yet.
        partition_request_timeout_ms: how long a producer's process waits for a requested partition to be registered.
        connect_timeout_ms: the time to reach the producer's process and get its answer to the greeting.
        handshake_timeout_ms: the time that a connected consumer has to identify and authenticate itself.
        max_unauthenticated_connections: the number of connections that may be unauthenticated at the same time.
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
    """The options `taskmanager.network.sort-shuffle.*` and related ones.

    Attributes:
        min_buffers: the network buffers that a partition gathers at least before it writes a region; fewer if the
            network memory does not have them.
        read_memory_bytes: the limit for data that the readers of this process have read and their consumers have not
            taken.
        compression: "lz4", "zstd" or None.
    """

    min_buffers: int = 512
    read_memory_bytes: int = 64 * MIB
    compression: str | None = "lz4"
