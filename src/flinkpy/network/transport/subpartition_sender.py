"""Senders: the consumer's end of subpartitions on the producer's side of a connection.

Source: org.apache.flink.runtime.io.network.netty.CreditBasedSequenceNumberingViewReader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.network.codec import (
    ColumnEncoder,
    EncodedBatch,
    encode_element,
    encode_priority_barrier,
    encode_rows,
)
from flinkpy.network.credit import SenderCredit, is_undercharged
from flinkpy.network.in_flight import InFlightBatch, freeze
from flinkpy.network.priority import PriorityMarker, items_before, position_of
from flinkpy.network.subpartition import BufferedBatch, Subpartition, freeze_all
from flinkpy.network.transport import frames
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier

if TYPE_CHECKING:
    from flinkpy.network.transport.producer_connection import ProducerConnection
from flinkpy.network.blocking.range_reader import StoredBatch


class SubpartitionSender:
    """Sends a pipelined subpartition.

    Thread: `next_frames`, `reclaim` under the connection's write lock; the others see `SubpartitionView`.
    """

    def __init__(
        self,
        connection: ProducerConnection,
        channel_id: int,
        subpartition: Subpartition,
        credit: SenderCredit,
        segment_size_bytes: int,
    ) -> None:
        self.channel_id = channel_id
        #: True while it is in the connection's queue of sources. Changed by the connection only.
        self.is_queued = False
        self._connection = connection
        self._subpartition = subpartition
        self._credit = credit
        self._segment_size_bytes = segment_size_bytes
        self._encoder = ColumnEncoder()
        #: The cost of the next buffer while it exceeds the credit; else 0. The consumer has been told and will grant
        #: more.
        self._starved_for = 0
        #: The unsent rest of a record that is larger than the credit can ever be.
        self._rest: _Fragments | None = None

    @property
    def is_remote(self) -> bool:
        return True

    @property
    def is_ready(self) -> bool:
        return (self._rest is not None or self._subpartition.has_data) and not self._starved_for

    def notify_data_available(self) -> None:
        if not (self._starved_for or self.is_queued):
            self._connection.add_source(self)

    def notify_failed(self, cause: Exception) -> None:
        self._connection.producer_failed(self.channel_id, cause)

    def notify_barrier(self, barrier: CheckpointBarrier) -> None:
        return None  # the consumer sees it when it arrives

    def notify_priority(self, marker: PriorityMarker) -> None:
        """Sends the barrier. No queued data is sent before this sender is attached, so the barrier is ahead of it."""
        self._connection.send(self._priority_frame(marker))

    def overtake(self, marker: PriorityMarker, *, append: bool) -> list[InFlightBatch] | None:
        """Sends the barrier. Data that the connection already has stays ahead of it; the consumer captures it."""
        queue = self._subpartition.queue
        # No thread takes items from the queue while the lock is held. Others hold it for one send call at most.
        with self._connection.write_lock:
            if append:
                position = len(queue)
                queue.append(marker)
            else:
                barrier_position = position_of(queue, marker)
                if barrier_position is None:
                    return None
                position = barrier_position
                queue[position] = marker
            waiting = items_before(queue, position)
            rest = self._rest
            self._connection.add_control(self._priority_frame(marker))
        self._connection.flush()
        # If only a part of a record was sent, the consumer gets its end behind the barrier.
        begun = [] if rest is None else [freeze(rest.batch, rest.encoded)]
        return begun + freeze_all(waiting)

    def _priority_frame(self, marker: PriorityMarker) -> bytes:
        marker.is_delivered = True
        kind, body = encode_priority_barrier(marker.barrier)
        return frames.frame(frames.ELEMENT, self.channel_id, len(body), flags=kind, body=body)

    def grant(self, credits: int, window: int, is_final: bool) -> None:
        """Adds credit. Thread: I/O."""
        self._credit.grant(credits, window, is_final)
        # If the credit is still too small, the consumer knows it and will grant more.
        if is_final or self._credit.available >= self._starved_for:
            self._starved_for = 0
            if self.is_ready:
                self._connection.add_source(self)

    def reclaim(self, keep: int) -> int:
        """Gives up the credits beyond `keep`. Returns their number.

        Gives up nothing while the next buffer waits for more credit.
        """
        return 0 if self._starved_for else self._credit.give_back(keep)

    def close(self) -> None:
        """Releases the subpartition: the consumer has gone, or has all data."""
        self._subpartition.release()

    def next_frames(self, parts: list[Any], on_sent: list[BufferedBatch]) -> int:
        """Adds one batch (with its schema, if that has changed), or all elements up to the next batch."""
        if self._starved_for:
            return 0
        if self._rest is not None:
            return self._next_fragment(parts)
        size = 0
        while True:
            item = self._subpartition.poll()
            if item is None:
                return size
            if isinstance(item, BufferedBatch):
                return size + self._send_batch(item, parts, on_sent)
            if isinstance(item, PriorityMarker):
                continue  # it was sent before
            kind, body = encode_element(item)
            element = frames.frame(frames.ELEMENT, self.channel_id, len(body), flags=kind, body=body)
            parts.append(element)
            size += len(element)

    def _send_batch(self, item: BufferedBatch, parts: list[Any], on_sent: list[BufferedBatch]) -> int:
        credit = self._credit
        cost = item.segments
        encoded = item.encoded
        if encoded is not None and encoded.size_bytes <= cost * self._segment_size_bytes and credit.try_spend(cost):
            # The usual case for small batches.
            on_sent.append(item)
            size = 0 if encoded.is_pickled else self._open_schema(item.batch.values, parts)
            return size + self._append_whole(encoded, cost, parts)
        limit = credit.largest_buffer
        available = credit.available
        if credit.is_final:
            limit = min(limit, max(1, available))
        if cost > limit and item.batch.num_rows > 1:
            item = self._cut(item, limit)
            cost = item.segments
        if cost > available and not (credit.is_final and available):
            self._subpartition.unpoll(item)
            return self._starve(cost, parts)
        encoded, size = self._encode(item, parts)
        if encoded is None:
            return 0
        actual = -(-encoded.size_bytes // self._segment_size_bytes) or 1
        if actual > cost and (encoded.is_pickled or is_undercharged(cost, actual)):
            # The estimated size was too low: rows differ in size, and dictionaries are sent decoded.
            item.charge(actual - cost)
            item.encoded = encoded
            cost = actual
            if cost > available and item.batch.num_rows > 1:
                self._subpartition.unpoll(item)
                return self._starve(cost, parts)
        on_sent.append(item)
        if cost > available:
            self._rest = _Fragments(item.batch, encoded)
            return size + self._next_fragment(parts)
        credit.spend(cost)
        return size + self._append_whole(encoded, cost, parts)

    def _append_whole(self, encoded: EncodedBatch, cost: int, parts: list[Any]) -> int:
        """Adds the frame of a whole batch. Returns its bytes."""
        flags = frames.PICKLED if encoded.is_pickled else 0
        backlog = self._subpartition.backlog_segments
        parts.append(frames.data_header(flags, self.channel_id, backlog, cost, encoded, encoded.size_bytes))
        parts += encoded.parts
        return frames.HEADER_BYTES + encoded.size_bytes

    def _encode(self, item: BufferedBatch, parts: list[Any]) -> tuple[EncodedBatch | None, int]:
        """Returns the wire form, and the bytes of the schema, which is added to `parts` if it has changed."""
        batch = item.batch
        if isinstance(batch.values, list):
            return item.encoded or self._encode_rows(item), 0
        size = self._open_schema(batch.values, parts)
        if item.encoded is not None:
            return item.encoded, size
        if item.shared is not None:
            return item.shared.get(lambda: self._encoder.encode(batch)), size
        return self._encoder.encode(batch), size

    def _open_schema(self, values: Any, parts: list[Any]) -> int:
        """Adds the schema of columns to `parts` if it has changed. Returns its bytes."""
        schema = self._encoder.open_schema(values)
        if schema is None:
            return 0
        message = frames.frame(frames.SCHEMA, self.channel_id, len(schema), body=schema)
        parts.append(message)
        return len(message)

    def _encode_rows(self, item: BufferedBatch) -> EncodedBatch | None:
        """Encodes rows that were queued before this consumer attached.

        If a row cannot be pickled, the producer's task fails and the result is None.
        """
        try:
            if item.shared is not None:
                return item.shared.get(lambda: encode_rows(item.batch))
            return encode_rows(item.batch)
        except Exception as error:  # noqa: BLE001 - the producer's task fails with it
            item.recycle()
            self._subpartition.parent.release(error)
            return None

    def _cut(self, item: BufferedBatch, limit: int) -> BufferedBatch:
        """Returns the front of `item`, which costs about `limit`, and puts the rest back to the queue."""
        rows = item.batch.num_rows
        front_rows = max(1, min(rows - 1, rows * limit // item.segments))
        front, rest = item.split(front_rows, self._segment_size_bytes)
        self._subpartition.unpoll(rest)
        return front

    def _starve(self, cost: int, parts: list[Any]) -> int:
        self._starved_for = cost
        self._credit.is_final = False
        backlog = self._subpartition.backlog_segments
        parts.append(frames.frame(frames.BACKLOG, self.channel_id, backlog, cost))
        return frames.HEADER_BYTES

    def _next_fragment(self, parts: list[Any]) -> int:
        rest = self._rest
        assert rest is not None
        credits = self._credit.available
        if credits <= 0:
            return self._starve(1, parts)
        piece, is_last = rest.next_piece(credits * self._segment_size_bytes)
        cost = -(-len(piece) // self._segment_size_bytes) or 1
        self._credit.spend(cost)
        flags = (frames.PICKLED if rest.encoded.is_pickled else 0) | (0 if is_last else frames.MORE)
        backlog = self._subpartition.backlog_segments
        parts.append(frames.data_header(flags, self.channel_id, backlog, cost, rest.encoded, len(piece)))
        parts.append(piece)
        if is_last:
            self._rest = None
        return frames.HEADER_BYTES + len(piece)


class _Fragments:
    """The body of one encoded batch, which is sent in pieces."""

    def __init__(self, batch: Batch, encoded: EncodedBatch) -> None:
        self.batch = batch
        self.encoded = encoded
        self._body = memoryview(b"".join(encoded.parts))
        self._offset = 0

    def next_piece(self, size_bytes: int) -> tuple[memoryview, bool]:
        """Returns at most that many bytes (a multiple of eight), and True if they are the last ones."""
        piece = self._body[self._offset : self._offset + size_bytes]
        self._offset += len(piece)
        return piece, self._offset == len(self._body)


class StoredSubpartitionSender(SubpartitionSender):
    """Sends subpartitions that are stored in a file.

    The stored data is sent as it is: this process neither decodes nor decompresses it. Thread: see SubpartitionSender.
    """

    #: The number of the schema that was sent last.
    _sent_schema = -1
    #: A frame that is larger than the credit window, and the number of bytes sent of it.
    _partial: tuple[StoredBatch, int] | None = None

    @property
    def is_ready(self) -> bool:
        return (self._partial is not None or self._subpartition.has_data) and not self._starved_for

    def close(self) -> None:
        super().close()
        partial, self._partial = self._partial, None
        if partial is not None:
            partial[0].recycle()

    def next_frames(self, parts: list[Any], on_sent: list[BufferedBatch]) -> int:
        if self._partial is not None and not self._starved_for:
            return self._send_piece(parts, on_sent)
        return super().next_frames(parts, on_sent)

    def _send_batch(self, item: BufferedBatch, parts: list[Any], on_sent: list[BufferedBatch]) -> int:
        assert isinstance(item, StoredBatch)
        credit = self._credit
        cost, available = item.segments, credit.available
        if cost > available and cost <= credit.largest_buffer and not (credit.is_final and available):
            self._subpartition.unpoll(item)
            return self._starve(cost, parts)
        size = 0
        if not item.is_pickled and item.schema_number != self._sent_schema:
            self._sent_schema = item.schema_number
            message = item.schema_message
            schema = frames.frame(frames.SCHEMA, self.channel_id, len(message), body=message)
            parts.append(schema)
            size = len(schema)
        if cost > available:
            self._partial = (item, 0)
            return size + self._send_piece(parts, on_sent)
        credit.spend(cost)
        self._append(item, item.body, 0, cost, parts)
        on_sent.append(item)
        return size + frames.HEADER_BYTES + item.size_bytes

    def _send_piece(self, parts: list[Any], on_sent: list[BufferedBatch]) -> int:
        assert self._partial is not None
        item, offset = self._partial
        available = self._credit.available
        if available <= 0:
            return self._starve(1, parts)
        length = min(item.size_bytes - offset, available * self._segment_size_bytes)
        is_last = offset + length == item.size_bytes
        cost = -(-length // self._segment_size_bytes) or 1
        self._credit.spend(cost)
        self._append(item, item.body.slice(offset, length), 0 if is_last else frames.MORE, cost, parts)
        if is_last:
            self._partial = None
            on_sent.append(item)
        else:
            self._partial = (item, offset + length)
        return frames.HEADER_BYTES + length

    def _append(self, item: StoredBatch, body: Any, flags: int, cost: int, parts: list[Any]) -> None:
        flags |= frames.PICKLED if item.is_pickled else 0
        backlog = self._subpartition.backlog_segments
        parts.append(frames.data_header(flags, self.channel_id, backlog, cost, item, len(body)))
        parts.append(body)
