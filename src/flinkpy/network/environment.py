"""NetworkEnvironment: the data plane of one TaskExecutor process.

It owns the buffer pool and the connections, knows the partitions of the process, and creates the partitions and gates
of tasks.

Source: org.apache.flink.runtime.io.network.NettyShuffleEnvironment.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flinkpy.common.errors import InsufficientNetworkBuffersError
from flinkpy.network.blocking.blocking_shuffle import BlockingShuffle
from flinkpy.network.buffer_pool import LocalBufferPool, NetworkBufferPool, PauseLevel
from flinkpy.network.credit import MAX_WINDOW_SEGMENTS, CreditManager
from flinkpy.network.input_channel import InputChannel, LocalInputChannel, RequestBackoff
from flinkpy.network.input_gate import InputGate
from flinkpy.network.options import BlockingShuffleOptions, NetworkOptions
from flinkpy.network.partition_manager import ResultPartitionManager
from flinkpy.network.remote_input_channel import RemoteInputChannel
from flinkpy.network.result_partition import ResultPartition
from flinkpy.network.transport.authenticator import DataPlaneAuthenticator, LoopbackAuthenticator
from flinkpy.network.transport.connection_manager import ConnectionManager
from flinkpy.network.transport.io_loop import IoLoop
from flinkpy.network.transport.socket_transport import TlsTransports
from flinkpy.security import TlsMaterial

# A partition queues at most 8 MiB and a little per consumer (at the default segment size): five batches of the maximum
# size of a record writer. A longer queue would only fall out of the CPU caches and delay barriers.
_PARTITION_SEGMENTS = 256
# The segments of small batches at which a producer pauses. This bridges the time until a suspended task runs again. A
# longer queue of small batches falls out of the cache before it is sent, which costs a sixth of the work on such a
# batch.
_PAUSE_SEGMENTS = 40
# The number of maximum-size batches per consumer at which a producer pauses, if they take more segments.
_PAUSE_BUFFERS = 4


@dataclass(frozen=True, slots=True)
class NetworkStatistics:
    """A snapshot of the data plane of a process. Sizes are in bytes.

    Attributes:
        total_segments, used_segments: the segments of the process's buffer pool. Overdrafts can use more than the
            total.
        in_flight_bytes: `used_segments` in bytes: queued by partitions, and queued by gates or granted by them as
            credit.
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


class NetworkEnvironment:
    """The data plane of a process. Thread: any.

    Args:
        bind_address, port: the address to listen on for consumers; port 0 takes a free one.
        advertised_host: the host at which consumers reach this process.
        authenticator: decides who may connect; by default only peers on this host.
        tls: the key and certificates for TLS on all connections; None: plaintext.
        blocking: the limits of blocking partitions.
        directories: the directories for their files, which the caller empties and removes; by default a temporary one.
    """

    def __init__(
        self,
        options: NetworkOptions | None = None,
        *,
        resource_id: str = "local",
        bind_address: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str = "127.0.0.1",
        authenticator: DataPlaneAuthenticator | None = None,
        tls: TlsMaterial | None = None,
        blocking: BlockingShuffleOptions | None = None,
        directories: Sequence[Path] = (),
    ) -> None:
        self.options = options or NetworkOptions()
        self.resource_id = resource_id
        self.address = ""
        self._bind_address = bind_address
        self._port = port
        self._advertised_host = advertised_host
        self.buffer_pool = NetworkBufferPool(self.options.memory_bytes, self.options.segment_size_bytes)
        self.blocking = BlockingShuffle(blocking or BlockingShuffleOptions(), self.buffer_pool, directories)
        self._loop = IoLoop()
        self.partition_manager = ResultPartitionManager(self._loop.call_later)
        self._connections = ConnectionManager(
            self._loop,
            self.options,
            self.partition_manager,
            authenticator or LoopbackAuthenticator(),
            resource_id,
            None if tls is None else TlsTransports(tls),
        )
        self._lock = threading.Lock()
        self._gates: set[InputGate] = set()
        self._is_started = False
        self._is_closed = False

    def start(self) -> str:
        """Listens for consumers. Returns the data address `host:port` that they connect to.

        Raises:
            AddressInUseError: names the address.
        """
        port = self._connections.listen(self._bind_address, self._port)
        host = f"[{self._advertised_host}]" if ":" in self._advertised_host else self._advertised_host
        self.address = self._connections.address = f"{host}:{port}"
        self._loop.start()
        self._is_started = True
        return self.address

    def create_result_partition(
        self, *, partition_id: str, num_subpartitions: int, partition_type: str = "PIPELINED_BOUNDED", owner: str = ""
    ) -> ResultPartition:
        """Creates and registers a partition.

        Consumers can attach immediately. Consumers of a BLOCKING partition get data when it is finished.

        Raises:
            InsufficientNetworkBuffersError: the network memory is too small for the requirements of all partitions and
                gates.
            PartitionWriteError: the file of a BLOCKING partition cannot be created.
        """
        if partition_type == "BLOCKING":
            blocking = self.blocking.create_partition(
                partition_id, num_subpartitions, owner, self.partition_manager.unregister
            )
            self._register(blocking)
            return blocking
        # One segment per consumer and one to fill meanwhile, as in Flink.
        pool = self.buffer_pool.create_local_pool(
            f"partition {partition_id}",
            num_subpartitions + 1,
            _PARTITION_SEGMENTS + 8 * num_subpartitions,
            PauseLevel(_PAUSE_SEGMENTS + 8 * num_subpartitions, _PAUSE_BUFFERS * num_subpartitions),
        )
        partition = ResultPartition(
            partition_id,
            num_subpartitions,
            pool,
            self.options.segment_size_bytes,
            partition_type=partition_type,
            owner=owner,
            on_released=self.partition_manager.unregister,
        )
        self._register(partition)
        return partition

    def _register(self, partition: ResultPartition) -> None:
        try:
            self.partition_manager.register(partition)
        except ValueError as error:
            partition.release(error)
            raise

    def create_input_gate(
        self,
        *,
        owner: str,
        subpartition_index: int,
        partitions: Sequence[tuple[str, str]],
        on_failure: Callable[[Exception], None],
        num_subpartitions: int = 1,
        is_blocking: bool = False,
    ) -> InputGate:
        """Creates a gate with one channel for each of `partitions` (partition id, data address), in that order.

        Args:
            subpartition_index: the subpartition to read of each partition.
            num_subpartitions: how many to read of each, from `subpartition_index` on; more than one only of blocking
                partitions.
            is_blocking: True if the partitions are finished. A partition that does not exist now never will.
            on_failure: called once, on any thread, when a channel fails; `poll` raises the same error.

        Raises:
            InsufficientNetworkBuffersError: the network memory is too small for the requirements of all partitions and
                gates.
        """
        options = self.options
        num_remote = sum(not self._is_local(address) for _, address in partitions)
        pool, exclusive = self._gate_pool(owner, num_remote) if num_remote else (None, 0)
        gate = InputGate(owner, on_failure, pool, self._forget_gate)
        credits = None if pool is None else CreditManager(pool, num_remote, exclusive)
        channels: list[InputChannel] = []
        for index, (partition_id, address) in enumerate(partitions):
            backoff = RequestBackoff(options.request_backoff_initial_ms, options.request_backoff_max_ms)
            if self._is_local(address) or credits is None:
                channels.append(
                    LocalInputChannel(
                        gate,
                        index,
                        partition_id,
                        backoff,
                        self._loop.call_later,
                        subpartition_index=subpartition_index,
                        manager=self.partition_manager,
                        request_timeout_ms=options.partition_request_timeout_ms,
                        num_subpartitions=num_subpartitions,
                        is_blocking=is_blocking,
                    )
                )
            else:
                channels.append(
                    RemoteInputChannel(
                        gate,
                        index,
                        partition_id,
                        backoff,
                        self._loop.call_later,
                        subpartition_index=subpartition_index,
                        credits=credits,
                        connect=partial(self._connections.request_partition, address),
                        num_subpartitions=num_subpartitions,
                        is_blocking=is_blocking,
                    )
                )
        gate.set_channels(channels)
        if pool is not None and credits is not None:
            pool.on_quota_change = partial(gate.on_quota_change, credits)
            gate.on_quota_change(credits)  # the quota may have changed before the listener was set
        with self._lock:
            self._gates.add(gate)
        return gate

    def release_partition(self, partition_id: str, cause: Exception | None = None) -> None:
        """Drops a partition whose producer failed or was cancelled. Unknown ids are ignored."""
        partition = self.partition_manager.find(partition_id)
        if partition is not None:
            partition.release(cause)

    def statistics(self) -> NetworkStatistics:
        """Returns a snapshot, for metrics and tests."""
        connections = self._connections.connections
        pool = self.buffer_pool
        used = pool.used
        return NetworkStatistics(
            total_segments=pool.total,
            used_segments=used,
            segment_size_bytes=pool.segment_size_bytes,
            in_flight_bytes=used * pool.segment_size_bytes,
            partitions=len(self.partition_manager.partitions),
            gates=len(self._gates),
            connections=len(connections),
            bytes_sent=sum(connection.bytes_sent for connection in connections),
            bytes_received=sum(connection.bytes_received for connection in connections),
        )

    def close(self) -> None:
        """Closes all gates and sockets, releases all partitions and ends the I/O thread. Idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            gates = list(self._gates)
        for gate in gates:
            gate.close()
        for partition in self.partition_manager.partitions:
            partition.release()
        self.blocking.close()
        self._connections.close()
        self._loop.close()

    def _is_local(self, address: str) -> bool:
        return not address or address == self.address

    def _gate_pool(self, owner: str, num_remote: int) -> tuple[LocalBufferPool, int]:
        """Returns the gate's pool and the exclusive buffers per channel, which are fewer if memory is short."""
        exclusive = self.options.exclusive_buffers_per_channel
        maximum = 2 * MAX_WINDOW_SEGMENTS * num_remote  # half is granted ahead of demand
        name = f"input gate of {owner}"
        if exclusive > 1:
            with contextlib.suppress(InsufficientNetworkBuffersError):  # one per channel also works, but slower
                return self.buffer_pool.create_local_pool(name, exclusive * num_remote, maximum), exclusive
        return self.buffer_pool.create_local_pool(name, num_remote, maximum), 1

    def _forget_gate(self, gate: InputGate) -> None:
        with self._lock:
            self._gates.discard(gate)
