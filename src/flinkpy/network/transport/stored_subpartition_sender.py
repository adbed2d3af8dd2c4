"""StoredSubpartitionSender: the remote consumer's end of subpartitions that lie in a file.

What was read goes out as it is: neither decoded nor decompressed in this process.
"""

from __future__ import annotations

from typing import Any

from flinkpy.network.blocking.stored_batch import StoredBatch
from flinkpy.network.subpartition import BufferedBatch
from flinkpy.network.transport import frames
from flinkpy.network.transport.subpartition_sender import SubpartitionSender


class StoredSubpartitionSender(SubpartitionSender):
    """Thread: as SubpartitionSender."""

    #: Number of the schema that was sent last.
    _sent_schema = -1
    #: A frame that is larger than the credit window, and how much of it has been sent.
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
