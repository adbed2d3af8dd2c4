"""The fixtures of the tests with real processes. They live in `clusters`, because a conftest is not safely imported."""

from __future__ import annotations

from clusters import _cluster_of_the_file, cluster, shared_cluster, start_cluster
from kafka_broker.broker import kafka, own_kafka
from namespaces import network
from small_disks import small_disk
from zookeeper_server import zookeeper, zookeeper_ensemble

__all__ = [
    "_cluster_of_the_file",
    "cluster",
    "kafka",
    "network",
    "own_kafka",
    "shared_cluster",
    "small_disk",
    "start_cluster",
    "zookeeper",
    "zookeeper_ensemble",
]
