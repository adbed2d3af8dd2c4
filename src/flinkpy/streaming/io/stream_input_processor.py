"""StreamInputProcessor: reads batches and elements from the input gates and feeds the head operator.

It reads the gates in turn, one batch each, so that no input starves. A batch that would keep the task from its mailbox
for too long is cut: the rest goes back into its channel. Small batches that have accumulated in a gate are merged,
which saves the fixed cost per batch, so that a task that lags behind catches up. Watermarks are combined over all
channels of an input (edges that share an input form a union), then over the inputs.
`flinkpy.streaming.io.checkpointing` handles barriers and blocks channels.

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
from flinkpy.streaming.io.combined_watermark import CombinedInputs, StatusWatermarkValve
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.operators.batch_size import AdaptiveBatchSize
from flinkpy.streaming.operators.stream_operator import StreamOperator

#: Smaller batches are merged with the next ones in the gate. Beyond some thousand rows the cost per batch is small
#: compared with the cost per row, and the copy costs more than it saves.
_MERGED_BELOW_ROWS = 4_096
#: A merged batch of this size gets no further batches. Meanwhile its bytes are not counted as network memory.
_MERGED_BYTES = 1 << 20


class _GateInput:
    """One gate, with the input of the operator to which it belongs.

    Attributes:
        channel_offset: the number of its first channel among the channels of its input.
        first_channel: the number of its first channel among the channels of all gates.
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
    """Feeds the head operator. Thread: task thread; any thread may read the counters.

    Args:
        gates: tuples of (input index, edge index, gate).
        on_available: called on any thread when a gate that was empty has data.
        checkpointed: creates the CheckpointedInputs, given (edge index, gate) in the order of channel numbers.

    Attributes:
        is_drained: False if a producer ended without drain, because it was stopped with a savepoint.
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
        #: Input of the operator -> its position among the combined inputs.
        self._input_positions = {index: position for position, index in enumerate(sorted(channels))}
        ignored = [self._input_positions[index] for index in head.inputs_without_watermarks]
        self._combined = CombinedInputs(len(channels), ignored) if len(channels) > 1 else None
        #: Input -> its channels that have not sent EndOfData.
        self._open_channels = {index: set(range(count)) for index, count in channels.items()}
        self._next = 0
        self._batch_size = AdaptiveBatchSize(clock)
        if max_batch_rows is not None:
            self._batch_size.limit(max_batch_rows)
        for entry in self._inputs:
            entry.gate.set_availability_listener(on_available)

    @property
    def num_inputs(self) -> int:
        """The number of inputs of the head operator."""
        return len(self._input_positions)

    def input_watermark(self, position: int) -> int:
        """Returns the last watermark of an input, counted from 0. Any thread."""
        return self._head.current_watermark if self._combined is None else self._combined.watermark_of(position)

    @property
    def num_bytes(self) -> int:
        return sum(entry.gate.bytes_in for entry in self._inputs)

    def process_next(self) -> ActionStatus:
        """Feeds one batch to the head operator, or handles one control element."""
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
        # Small batches are measured too, so that a batch size that has become small can grow again.
        size.begin()
        self._head.process_batch(batch, entry.input_index)
        size.end(rows)
        self._head.after_batch(rows)

    def _merge_following(self, entry: _GateInput, channel: int, batch: Batch) -> tuple[Batch, int]:
        """Merges the batch with the next ones. Returns the merged batch and the channel of the last one.

        Stops at a control element and at a batch of another lane or schema. All rows beyond the batch size are rows of
        the last batch, so the caller can put them back into its channel.
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
        """Handles a barrier that overtakes records, even if the outputs are full. Returns True if there was one."""
        for entry in self._inputs:
            if entry.gate.has_priority and (item := entry.gate.poll_priority()) is not None:
                channel, content = item
                self._process_element(entry, channel, content)
                return True
        return False

    def drain_ends(self) -> bool:
        """Handles barriers and EndOfPartition elements after END. Returns True when every channel has ended."""
        for entry in self._inputs:
            while entry.unfinished and (item := entry.poll()) is not None:
                channel, content = item
                if isinstance(content, Batch | Watermark | EndOfData):
                    raise InternalError(f"operator {self._head.context.name} received {content!r} after end of data")
                if isinstance(content, EndOfPartition | CheckpointBarrier | CancelCheckpointMarker):
                    self._process_element(entry, channel, content)
        return not any(entry.unfinished for entry in self._inputs)

    def discard_rest(self) -> bool:
        """Drops control elements after a stop with savepoint. Returns True when every channel has ended.

        No records arrive, because the same savepoint stopped the producers.
        """
        for entry in self._inputs:
            while entry.unfinished and (item := entry.poll()) is not None:
                channel, content = item
                if isinstance(content, Batch):
                    raise InternalError(f"operator {self._head.context.name} received {content!r} after the savepoint")
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
            raise InternalError(f"operator {self._head.context.name} received an unknown element: {element!r}")

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
            raise InternalError(f"operator {self._head.context.name} received a second end of data on input {index}")
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
        """Closes the gates. Idempotent."""
        for entry in self._inputs:
            entry.gate.close()
