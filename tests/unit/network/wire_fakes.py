"""A data connection without sockets and threads: the test moves the frames."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pyarrow as pa

from flinkpy.network.codec import PRIORITY_BARRIER, decode_element, decode_schema
from flinkpy.network.credit import CreditManager, Grant, SenderCredit
from flinkpy.network.input_channel import RequestBackoff
from flinkpy.network.input_gate import InputGate
from flinkpy.network.remote_input_channel import RemoteInputChannel
from flinkpy.network.result_partition import ResultPartition
from flinkpy.network.transport import frames
from flinkpy.network.transport.subpartition_sender import SubpartitionSender


class Wire:
    """The connection of one channel: `gather` hands frames to the socket, `deliver` delivers one.

    `connect` is given to the channel; the partition is attached by `attach`.
    """

    verifies_membership = True

    def __init__(self, unit: int) -> None:
        self.write_lock = threading.Lock()
        self.sender: SubpartitionSender | None = None
        self.channel: RemoteInputChannel | None = None
        self._unit = unit
        self._control: deque[bytes] = deque()
        self._source: SubpartitionSender | None = None
        self._socket: deque[bytes] = deque()
        self._credits: deque[Grant] = deque()
        self._credit: SenderCredit | None = None

    # the interface for SubpartitionSender

    def send(self, frame: bytes) -> None:
        self._control.append(frame)

    add_control = send

    def flush(self) -> None:
        return None

    def add_source(self, source: SubpartitionSender) -> None:
        source.is_queued = True
        self._source = source

    def producer_failed(self, channel_id: int, cause: Exception) -> None:
        raise AssertionError(cause)

    # the interface for RemoteInputChannel

    def connect(self, channel: RemoteInputChannel, subpartition: int, initial: Grant) -> tuple[Any, int]:
        self.channel = channel
        self._credit = SenderCredit(initial.credits, initial.window)
        return self, 1

    def send_grant(self, channel_id: int, grant: Grant) -> None:
        self._credits.append(grant)

    def send_reclaim(self, channel_id: int, keep: int) -> None:
        assert self.sender is not None
        credits = self.sender.reclaim(keep)
        if credits:
            self.send(frames.frame(frames.RETURNED, 1, credits))

    def close_channel(self, channel_id: int) -> None:
        return None

    # the interface for tests

    def attach(self, partition: ResultPartition, subpartition: int) -> None:
        assert self._credit is not None
        target = partition.subpartitions[subpartition]
        self.sender = SubpartitionSender(self, 1, target, self._credit, self._unit)  # type: ignore[arg-type]
        assert target.attach(self.sender)

    def gather(self) -> bool:
        """Hands the control frames and the source's next frames to the socket."""
        parts: list[Any] = list(self._control)
        self._control.clear()
        source = self._source
        if source is not None:
            source.is_queued = False
            self._source = None
            sent: list[Any] = []
            own: list[Any] = []
            source.next_frames(own, sent)
            if own:
                parts.append(b"".join(bytes(part) for part in own))
            for item in sent:
                item.recycle()
            if source.is_ready:
                self.add_source(source)
        for part in parts:
            self._socket.extend(_cut(part))
        return bool(parts)

    def deliver(self) -> bool:
        """Delivers the oldest frame."""
        if not self._socket:
            return False
        data = self._socket.popleft()
        size, kind, flags, _, _, a, b, c, d, e = frames.HEADER.unpack_from(data)
        body = data[frames.HEADER_BYTES : frames.HEADER_BYTES + size]
        channel = self.channel
        assert channel is not None
        if kind == frames.DATA:
            received = pa.py_buffer(body) if body else None
            channel.on_data(bool(flags & frames.PICKLED), bool(flags & frames.MORE), received, a, b, c, d, e)
        elif kind == frames.ELEMENT:
            element = decode_element(flags, body[:a])
            channel.on_priority(element) if flags == PRIORITY_BARRIER else channel.on_element(element)
        elif kind == frames.SCHEMA:
            channel.on_schema(decode_schema(body[:a]))
        elif kind == frames.BACKLOG:
            channel.on_backlog(a, b)
        else:
            assert kind == frames.RETURNED
            channel.on_returned(a)
        return True

    def credit(self) -> bool:
        """Delivers one grant."""
        if not self._credits or self.sender is None:
            return False
        grant = self._credits.popleft()
        self.sender.grant(grant.credits, grant.window, grant.is_final)
        return True


def _cut(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = frames.HEADER_BYTES + frames.HEADER.unpack_from(data)[0]
        found.append(data[:size])
        data = data[size:]
    return found


def remote_channel(gate: InputGate, index: int, credits: CreditManager, wire: Wire, timers: Any) -> RemoteInputChannel:
    return RemoteInputChannel(
        gate,
        index,
        f"p{index}",
        RequestBackoff(100, 400),
        timers,
        subpartition_index=0,
        credits=credits,
        connect=wire.connect,
    )
