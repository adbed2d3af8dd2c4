"""NetworkEnvironment: the data plane of one TaskExecutor process.

It owns the buffer pool, knows the process's partitions, and makes the partitions and gates of tasks.

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
from flinkpy.network.buffer_pool import Ample, LocalBufferPool, NetworkBufferPool
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

# A partition queues at most 8 MiB and a little per consumer (at the default segment size): room for five of the largest
# batches a record writer makes. A longer queue would only fall out of the caches and lengthen what a barrier waits for.
_PARTITION_SEGMENTS = 256
# Of small batches fewer are enough to bridge the time until a suspended task goes on: a longer queue of them falls out
# of the cache before it is sent, which costs a sixth of the work on such a batch.
_AMPLE_SEGMENTS = 40
# Of the largest batches for each consumer, where those take more.
_AMPLE_BUFFERS = 4


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


class NetworkEnvironment:
    """Thread: any.

    Args:
        bind_address, port: where to listen for consumers; port 0 takes a free one.
        advertised_host: the host under which consumers reach this process.
        authenticator: who may connect; peers on this host where none is given.
        tls: the key and certificates for TLS on all connections; plaintext where there are none.
        blocking: limits of blocking partitions.
        directories: of their files, which the caller empties and removes; a temporary one where none is given.
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
        """Listen; returns the data address `host:port` that consumers connect to.

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
        """A registered partition, to which consumers can attach at once; those of a BLOCKING one wait for its end.

        Raises:
            InsufficientNetworkBuffersError: the network memory does not hold what all partitions and gates require.
            PartitionWriteError: the file of a BLOCKING partition cannot be made.
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
            Ample(_AMPLE_SEGMENTS + 8 * num_subpartitions, _AMPLE_BUFFERS * num_subpartitions),
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
        """A gate over one subpartition of each of `partitions` (partition id, data address), in that order.

        Args:
            num_subpartitions: how many of each, from `subpartition_index` on; more than one of blocking partitions
                only.
            is_blocking: the partitions are finished: one that is not there will not come.
            on_failure: called once, on any thread, when a channel fails; `poll` raises the same error.

        Raises:
            InsufficientNetworkBuffersError: the network memory does not hold what all partitions and gates require.
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
            gate.on_quota_change(credits)  # the quota may have changed before anybody listened
        with self._lock:
            self._gates.add(gate)
        return gate

    def release_partition(self, partition_id: str, cause: Exception | None = None) -> None:
        """Drop a partition: its producer failed or was cancelled. Unknown ids are ignored."""
        partition = self.partition_manager.find(partition_id)
        if partition is not None:
            partition.release(cause)

    def statistics(self) -> NetworkStatistics:
        """A snapshot, for metrics and tests."""
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
        """Close every gate, release every partition, end every socket and the thread. Idempotent."""
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
        """The gate's pool, and how many exclusive buffers each channel gets: fewer where memory is short."""
        exclusive = self.options.exclusive_buffers_per_channel
        maximum = 2 * MAX_WINDOW_SEGMENTS * num_remote  # half is granted ahead of demand
        name = f"input gate of {owner}"
        if exclusive > 1:
            with contextlib.suppress(InsufficientNetworkBuffersError):  # with one each it is slower, and works
                return self.buffer_pool.create_local_pool(name, exclusive * num_remote, maximum), exclusive
        return self.buffer_pool.create_local_pool(name, num_remote, maximum), 1

    def _forget_gate(self, gate: InputGate) -> None:
        with self._lock:
            self._gates.discard(gate)
