"""The metrics of a task's inputs and outputs in the network, under Flink's names.

All are gauges that read queues and counters when somebody asks. Nothing is counted for them but one addition per batch
of a channel.

Source: org.apache.flink.runtime.io.network.metrics.NettyShuffleMetricFactory, InputChannelMetrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flinkpy.configuration import read_option
from flinkpy.configuration.taskmanager_options import NETWORK_DETAILED_METRICS

if TYPE_CHECKING:
    from flinkpy.metrics.metric_registry import NamedMetricGroup
    from flinkpy.network.input_channel import InputChannel
    from flinkpy.network.input_gate import InputGate
    from flinkpy.streaming.tasks.stream_task import StreamTask


def register_shuffle_metrics(task: StreamTask) -> None:
    """Registers `Shuffle.Netty.Input.*` and `Shuffle.Netty.Output.*` of the task."""
    environment = task.environment
    gates = [gate for _, _, gate in environment.input_gates]
    netty = environment.metric_group.add_group("Shuffle").add_group("Netty")
    inputs, outputs = netty.add_group("Input"), netty.add_group("Output")
    if gates:
        _register_channels(inputs, gates)
        buffers = inputs.add_group("Buffers")
        buffers.gauge("inputQueueLength", lambda: sum(channel.num_queued for channel in _channels(gates)))
        buffers.gauge("inputQueueSize", lambda: sum(channel.queued_bytes for channel in _channels(gates)))
        buffers.gauge("inPoolUsage", lambda: _usage(gate.pool for gate in gates))
    if task.partitions:
        partitions = task.partitions
        buffers = outputs.add_group("Buffers")
        buffers.gauge("outputQueueLength", lambda: sum(partition.num_queued for partition in partitions))
        buffers.gauge("outputQueueSize", lambda: sum(partition.queued_bytes for partition in partitions))
        buffers.gauge("outPoolUsage", lambda: _usage(partition.pool for partition in partitions))
    if read_option(environment.configuration, NETWORK_DETAILED_METRICS):
        for index, gate in enumerate(gates):
            _register_queues(inputs.add_group(str(index)), _lengths_of_gate(gate))
        for index, partition in enumerate(task.partitions):
            _register_queues(outputs.add_group(str(index)), _lengths_of_partition(partition))


def _channels(gates: Iterable[InputGate]) -> list[InputChannel]:
    return [channel for gate in gates for channel in gate.channels]


def _register_channels(group: NamedMetricGroup, gates: list[InputGate]) -> None:
    """Registers what arrived from tasks of this process and of others."""

    def total(field: str, is_remote: bool) -> Callable[[], int]:
        return lambda: sum(getattr(one, field) for one in _channels(gates) if one.is_remote == is_remote)

    for place, is_remote in (("Local", False), ("Remote", True)):
        group.count_of(f"numBytesIn{place}", total("bytes_in", is_remote))
        group.count_of(f"numBuffersIn{place}", total("batches_in", is_remote))


def _usage(pools: Iterable[Any]) -> float:
    """Returns the share of the segments of several pools that is in use; 0 without a pool. Overdrafts count as 1."""
    known = [pool for pool in pools if pool is not None]
    quota = sum(pool.quota for pool in known)
    return min(1.0, sum(pool.used for pool in known) / quota) if quota else 0.0


def _lengths_of_gate(gate: InputGate) -> Callable[[], list[int]]:
    return lambda: [channel.num_queued for channel in gate.channels]


def _lengths_of_partition(partition: Any) -> Callable[[], list[int]]:
    return lambda: [len(subpartition.queue) for subpartition in partition.subpartitions]


def _register_queues(group: NamedMetricGroup, lengths: Callable[[], list[int]]) -> None:
    group.gauge("totalQueueLen", lambda: sum(lengths()))
    group.gauge("minQueueLen", lambda: min(lengths(), default=0))
    group.gauge("maxQueueLen", lambda: max(lengths(), default=0))
    group.gauge("avgQueueLen", lambda: sum(found) / len(found) if (found := lengths()) else 0.0)
