"""Heartbeats between the services. Source: org.apache.flink.configuration.HeartbeatManagerOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, int_option

HEARTBEAT_INTERVAL = duration_option("heartbeat.interval", "10 s", "Interval between two heartbeats.", minimum_ms=1)
HEARTBEAT_TIMEOUT = duration_option(
    "heartbeat.timeout", "50 s", "Time without a heartbeat after which a process considers its peer dead.", minimum_ms=1
)
HEARTBEAT_RPC_FAILURE_THRESHOLD = int_option(
    "heartbeat.rpc-failure-threshold",
    2,
    "Number of consecutive heartbeats that may fail to be delivered before the peer is considered dead. -1 means no "
    "limit.",
    minimum=-1,
)
