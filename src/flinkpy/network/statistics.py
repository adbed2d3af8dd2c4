"""What a process's data plane looks like at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NetworkStatistics:
    """Sizes in bytes.

    Attributes:
        total_segments, used_segments: of the process's buffer pool; overdrafts show as used beyond total.
        in_flight_bytes: `used_segments` in bytes: queued by partitions and queued for, or promised by, gates.
        connections: open data connections, in either direction.
    """

    total_segments: int
    used_segments: int
    segment_size_bytes: int
    in_flight_bytes: int
    partitions: int
    gates: int
    connections: int
    bytes_sent: int
    bytes_received: int
