"""StreamInputProcessor: takes batches and elements from the input gates and feeds the head operator.

Gates are read in turn, one batch each, so that no input starves. Of a batch that would keep the task from its mailbox
for too long, a part is taken, and the rest goes back into its channel. Small batches that have accumulated in a gate
become one, so that a task that falls behind catches up: the fixed cost of a batch is paid once. Watermarks are combined
over all channels of one input (edges that share an input are a union), then over the inputs. Barriers, and what they
block, are the business of `flinkpy.streaming.io.checkpointing`.

Source: org.apache.flink.streaming.runtime.io.{StreamOneInputProcessor,StreamMultipleInputProcessor}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.common.clock import Clock
from flinkpy.common.errors import InternalError
from flinkpy.network.batch_size import batch_bytes
from flinkpy.network.record_writer import can_follow, concat_batches
from flinkpy.records.batch import Batch
from flinkpy.records.elements import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfPartition,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from flinkpy.streaming.io.checkpointing.checkpointed_inputs import CheckpointedInputs
from flinkpy.streaming.io.combined_watermark import CombinedInputs
from flinkpy.streaming.io.watermark_valve import StatusWatermarkValve
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.operators.batch_size import AdaptiveBatchSize
from flinkpy.streaming.operators.stream_operator import StreamOperator

#: Batches below this are merged with what follows them in the gate. Beyond some thousand rows the cost per batch is
#: lost in that per row, and a copy costs more than it saves.
_MERGED_BELOW_ROWS = 4_096
#: Bytes of a merged batch beyond which nothing is added to it. They are outside the memory of the network meanwhile.
_MERGED_BYTES = 1 << 20


class _GateInput:
    """One gate: which input of the operator it belongs to, and where its channels start.

    Attributes:
        channel_offset: among the channels of its input.
        first_channel: among those of all gates.
    """

    __slots__ = ("channel_offset", "first_channel", "gate", "input_index", "poll", "unfinished")

    def __init__(self, gate: Any, input_index: int, channel_offset: int, first_channel: int) -> None:
        self.gate = gate
        self.poll = gate.poll
        self.input_index = input_index
        self.channel_offset = channel_offset
        self.first_channel = first_channel
        #: Channels that have not sent EndOfPartition.
        self.unfinished = set(range(gate.num_channels))


class StreamInputProcessor:
    """Thread: task thread; the counters are read by any.

    Args:
        gates: (input index, edge index, gate).
        on_available: called from any thread when a gate that had nothing has something.
        checkpointed: makes what handles barriers, given (edge index, gate) in the order in which channels are numbered.

    Attributes:
        is_drained: False where a producer ended without drain: it was stopped with a savepoint.
    """

    def __init__(
        self,
        gates: list[tuple[int, int, Any]],
        head: StreamOperator,
        on_available: Callable[[], None],
        checkpointed: Callable[[list[tuple[int, Any]]], CheckpointedInputs],
        clock: Clock,
        max_batch_rows: int | None = None,
    ) -> None:
        if not gates:
            raise InternalError(f"operator {head.context.name} has inputs but no input gate")
        self.is_drained = True
        self.num_records = 0
        self.num_batches = 0
        self._head = head
        self._inputs: list[_GateInput] = []
        channels: dict[int, int] = {}
        ordered = sorted(gates, key=lambda entry: entry[:2])
        self.checkpointed = checkpointed([(edge_index, gate) for _, edge_index, gate in ordered])
        for index, (input_index, _, gate) in enumerate(ordered):
            offset = channels.get(input_index, 0)
            self._inputs.append(_GateInput(gate, input_index, offset, self.checkpointed.offset_of(index)))
            channels[input_index] = offset + gate.num_channels
        self._valves = {index: StatusWatermarkValve(count) for index, count in channels.items()}
        #: Over the inputs of the operator.
        self._input_positions = {index: position for position, index in enumerate(sorted(channels))}
        self._combined = CombinedInputs(len(channels)) if len(channels) > 1 else None
        #: Channels per input that have not sent EndOfData.
        self._open_channels = {index: set(range(count)) for index, count in channels.items()}
        self._next = 0
        self._batch_size = AdaptiveBatchSize(clock)
        if max_batch_rows is not None:
            self._batch_size.limit(max_batch_rows)
        for entry in self._inputs:
            entry.gate.set_availability_listener(on_available)

    @property
    def num_bytes(self) -> int:
        return sum(entry.gate.bytes_in for entry in self._inputs)

    def process_next(self) -> ActionStatus:
        """Feed the head operator one batch, or handle one control element."""
        inputs = self._inputs
        count = len(inputs)
        for step in range(count):
            position = (self._next + step) % count
            entry = inputs[position]
            item = entry.poll()
            if item is None:
                continue
            self._next = (position + 1) % count
            channel, content = item
            if isinstance(content, Batch):
                self._process_batch(entry, channel, content)
                return ActionStatus.MORE
            self._process_element(entry, channel, content)
            return ActionStatus.MORE if self._open_channels else ActionStatus.END
        return ActionStatus.NOTHING_AVAILABLE

    def _process_batch(self, entry: _GateInput, channel: int, batch: Batch) -> None:
        size = self._batch_size
        rows = batch.num_rows
        if rows < size.rows and rows < _MERGED_BELOW_ROWS:
            batch, channel = self._merge_following(entry, channel, batch)
            rows = batch.num_rows
        if rows > size.rows and not entry.gate.is_capturing:
            entry.gate.put_back(channel, batch.slice(size.rows, rows - size.rows))
            batch = batch.slice(0, size.rows)
            rows = size.rows
        self.num_records += rows
        self.num_batches += 1
        # Every batch is measured, the smallest too: a size that has become small must be able to grow again.
        size.begin()
        self._head.process_batch(batch, entry.input_index)
        size.end(rows)
        self._head.after_batch(rows)

    def _merge_following(self, entry: _GateInput, channel: int, batch: Batch) -> tuple[Batch, int]:
        """One batch of this one and of those that have come behind it, and the channel of the last one.

        The first element ends it, and so does a batch that is of another lane or schema. What is beyond the batch size
        is of the last one.
        """
        poll_batch = entry.gate.poll_batch
        item = poll_batch()
        if item is None:
            return batch, channel
        batches = [batch]
        rows = batch.num_rows
        size_bytes = batch_bytes(batch)
        while item is not None:
            if not can_follow(batches[-1], item[1]):
                entry.gate.put_back(*item)
                break
            channel, batch = item
            batches.append(batch)
            rows += batch.num_rows
            size_bytes += batch_bytes(batch)
            if rows >= self._batch_size.rows or size_bytes >= _MERGED_BYTES:
                break
            item = poll_batch()
        return (concat_batches(batches) if len(batches) > 1 else batch), channel

    def process_priority(self) -> bool:
        """Handle a barrier that overtakes, where one is: also when the outputs take no records. True where one was."""
        for entry in self._inputs:
            if entry.gate.has_priority and (item := entry.gate.poll_priority()) is not None:
                channel, content = item
                self._process_element(entry, channel, content)
                return True
        return False

    def drain_ends(self) -> bool:
        """After END: take the barriers that still come, and the EndOfPartition of every channel; True when all have."""
        for entry in self._inputs:
            while entry.unfinished and (item := entry.poll()) is not None:
                channel, content = item
                if isinstance(content, Batch | Watermark | EndOfData):
                    raise InternalError(f"operator {self._head.context.name}: {content!r} after the end of its input")
                if isinstance(content, EndOfPartition | CheckpointBarrier | CancelCheckpointMarker):
                    self._process_element(entry, channel, content)
        return not any(entry.unfinished for entry in self._inputs)

    def discard_rest(self) -> bool:
        """After a stop with savepoint: take what still comes of control elements; True when every channel has ended.

        There are no records: whoever produces them was stopped by the same savepoint.
        """
        for entry in self._inputs:
            while entry.unfinished and (item := entry.poll()) is not None:
                channel, content = item
                if isinstance(content, Batch):
                    raise InternalError(f"operator {self._head.context.name}: {content!r} after the savepoint")
                if isinstance(content, EndOfPartition):
                    entry.unfinished.discard(channel)
        return not any(entry.unfinished for entry in self._inputs)

    def _process_element(self, entry: _GateInput, channel: int, element: Element) -> None:
        index = entry.input_index
        position = entry.channel_offset + channel
        if isinstance(element, Watermark):
            self._forward(index, self._valves[index].input_watermark(position, element))
        elif isinstance(element, WatermarkStatus):
            self._forward(index, self._valves[index].input_status(position, element))
        elif isinstance(element, LatencyMarker):
            self._head.process_element(element)
        elif isinstance(element, EndOfData):
            self.is_drained = self.is_drained and element.drain
            self._end_of_data(index, position)
        elif isinstance(element, EndOfPartition):
            self._end_of_partition(entry, channel, position)
        elif isinstance(element, CheckpointBarrier):
            self.checkpointed.on_barrier(entry.first_channel + channel, element)
        elif isinstance(element, CancelCheckpointMarker):
            self.checkpointed.on_cancel_marker(entry.first_channel + channel, element.checkpoint_id)
        else:
            raise InternalError(f"operator {self._head.context.name}: unknown element {element!r}")

    def _forward(self, index: int, elements: list[Watermark | WatermarkStatus]) -> None:
        for element in elements:
            if self._combined is None:
                self._head.process_element(element)
                continue
            position = self._input_positions[index]
            if isinstance(element, Watermark):
                combined = self._combined.input_watermark(position, element)
            else:
                combined = self._combined.input_status(position, element)
            for out in combined:
                self._head.process_element(out)

    def _end_of_data(self, index: int, position: int) -> None:
        waiting = self._open_channels.get(index)
        if waiting is None or position not in waiting:
            raise InternalError(f"operator {self._head.context.name}: second end of data on input {index}")
        waiting.discard(position)
        if not waiting:
            del self._open_channels[index]
            self._head.end_input(index)

    def _end_of_partition(self, entry: _GateInput, channel: int, position: int) -> None:
        if position in self._open_channels.get(entry.input_index, ()):
            raise InternalError(
                f"operator {self._head.context.name}: channel {channel} of input {entry.input_index} ended without "
                "end of data"
            )
        entry.unfinished.discard(channel)
        self.checkpointed.on_end_of_partition(entry.first_channel + channel)

    def close(self) -> None:
        """Close the gates. Idempotent."""
        for entry in self._inputs:
            entry.gate.close()
