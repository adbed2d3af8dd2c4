"""Heartbeats between the services. Source: org.apache.flink.configuration.HeartbeatManagerOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, int_option

HEARTBEAT_INTERVAL = duration_option("heartbeat.interval", "10 s", "Time between two heartbeats.", minimum_ms=1)
HEARTBEAT_TIMEOUT = duration_option(
    "heartbeat.timeout", "50 s", "Silence after which the other side is taken for dead.", minimum_ms=1
)
HEARTBEAT_RPC_FAILURE_THRESHOLD = int_option(
    "heartbeat.rpc-failure-threshold",
    2,
    "Heartbeats in a row that may fail to be delivered before the other side is taken for dead; -1 for no limit.",
    minimum=-1,
)
