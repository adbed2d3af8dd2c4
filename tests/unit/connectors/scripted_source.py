"""A source whose reader follows a script of batches and splits, with time that the test controls."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from operator_fakes import SourceLife

from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connector_api.source import AddSplits, Boundedness, ReaderStatus, SourceBase, SourceReader
from flinkpy.records import elements
from flinkpy.records.batch import Batch
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus


class Split:
    def __init__(self, split_id: str) -> None:
        self.split_id = split_id


class ScriptedReader(SourceReader):
    """Follows `script`: (split id, timestamps) is a batch, a split id is the end of the split, a status is returned.

    Every record is its own timestamp.
    """

    names_splits = True

    def __init__(self, context: Any) -> None:
        self.context = context
        self.script: deque[Any] = deque()
        self.splits: list[str] = []
        self.paused: set[str] = set()

    def start(self) -> None:
        return

    def poll_batch(self) -> Batch | ReaderStatus:
        while self.script:
            item = self.script.popleft()
            if isinstance(item, ReaderStatus):
                return item
            if isinstance(item, str):
                self.context.split_finished(item)
                continue
            self.current_split_id, timestamps = item
            return Batch(list(timestamps), np.array(timestamps, dtype=np.int64))
        return ReaderStatus.NOTHING_AVAILABLE

    def add_splits(self, splits: list[Any]) -> None:
        self.splits.extend(split.split_id for split in splits)

    def notify_no_more_splits(self) -> None:
        self.script.append(ReaderStatus.END_OF_INPUT)

    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        self.paused.update(splits_to_pause)
        self.paused.difference_update(splits_to_resume)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [Split(split_id) for split_id in self.splits]


class UnpausableReader(ScriptedReader):
    pause_or_resume_splits = SourceReader.pause_or_resume_splits


class ScriptedSource(SourceBase):
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def __init__(self, reader_class=ScriptedReader) -> None:
        self.reader_class = reader_class

    def create_enumerator(self, context):
        raise AssertionError("a task never makes the enumerator")

    def create_reader(self, context):
        return self.reader_class(context)


class Life(SourceLife):
    """A source operator with a watermark strategy. `advance` lets time pass."""

    def __init__(self, strategy: WatermarkStrategy, restored=None, reader_class=ScriptedReader, **settings) -> None:
        super().__init__(ScriptedSource(reader_class), restored, strategy=strategy, **settings)
        self.reader = self.operator.reader

    def add(self, *split_ids: str) -> None:
        self.operator.handle_operator_event(AddSplits(tuple(Split(split_id) for split_id in split_ids)))

    def read(self, *script: Any) -> None:
        self.reader.script.extend(script)
        while self.operator.emit_next() is ActionStatus.MORE:
            pass

    def advance(self, by_ms: int = 201, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(by_ms)
            self.context.processing_time_service.fire_due(self.clock.monotonic_ns())

    @property
    def elements(self) -> list[Any]:
        return [item.timestamp if isinstance(item, elements.Watermark) else item for item in self.output.elements]


def monotonous() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps()
