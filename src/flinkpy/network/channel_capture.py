"""ChannelCapture: what the channels of a gate hold before their barriers of one unaligned checkpoint.

The task takes its snapshot at the first barrier. For every other channel, what comes before that channel's barrier is
processed after the snapshot, so it is remembered as it is processed; when the barrier comes, having overtaken what is
queued, that is remembered too, and the channel is done.

Pure. Source: org.apache.flink.runtime.io.network.partition.consumer.ChannelStatePersister.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flinkpy.network.in_flight import InFlightBatch

#: (channel, its batches in order), by channel.
Captured = list[tuple[int, list[InFlightBatch]]]


class ChannelCapture:
    """Thread: task thread.

    Args:
        open_channels: those whose barrier has not come.
        overtaken: what the barriers that have come had overtaken.
    """

    def __init__(
        self, checkpoint_id: int, open_channels: Iterable[int], overtaken: Mapping[int, list[InFlightBatch]]
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.open_channels = set(open_channels)
        self._captured: dict[int, list[InFlightBatch]] = {
            channel: list(batches) for channel, batches in overtaken.items()
        }

    def on_batch(self, channel: int, batch: InFlightBatch) -> None:
        """A batch of an open channel is about to be processed."""
        self._captured.setdefault(channel, []).append(batch)

    def on_barrier(self, channel: int, checkpoint_id: int, overtaken: Iterable[InFlightBatch] = ()) -> None:
        """A later checkpoint's barrier says as well that this one's will not come any more."""
        if checkpoint_id < self.checkpoint_id or channel not in self.open_channels:
            return
        self.open_channels.discard(channel)
        if checkpoint_id == self.checkpoint_id:
            self._captured.setdefault(channel, []).extend(overtaken)

    def on_channel_end(self, channel: int) -> None:
        self.open_channels.discard(channel)

    def result(self) -> Captured:
        return [(channel, batches) for channel, batches in sorted(self._captured.items()) if batches]
