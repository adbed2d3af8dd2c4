"""The fixtures of the tests with real processes. They live in `clusters`, because a conftest is not safely imported."""

from __future__ import annotations

from clusters import cluster, start_cluster
from kafka_broker.broker import kafka, own_kafka

__all__ = ["cluster", "kafka", "own_kafka", "start_cluster"]
