"""The source and the sink of Apache Pulsar: PyFlink's `pyflink.datastream.connectors.pulsar`.

It needs `pip install 'flinkpy[pulsar]'`. Properties have Flink's keys: `pulsar.client...`, `pulsar.consumer...`,
`pulsar.producer...`, `pulsar.source...`, `pulsar.sink...`.
"""

from __future__ import annotations

from flinkpy.connectors.pulsar.cursors import RangeGenerator, StartCursor, StopCursor
from flinkpy.connectors.pulsar.sink import MessageDelayer, PulsarSink, PulsarSinkBuilder, TopicRoutingMode
from flinkpy.connectors.pulsar.source import PulsarSource, PulsarSourceBuilder

__all__ = [
    "MessageDelayer",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "TopicRoutingMode",
]
