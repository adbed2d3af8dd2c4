"""A keyed operator with two inputs at some parallelism. Records are routed by key group, as the exchanges do.

It can be stopped at any moment, and resumes from its snapshot with another parallelism or backend."""

from __future__ import annotations

from typing import Any

import numpy as np
from memory_checkpoints import OPTIONS, MemoryStreams
from streaming_fakes import CollectingOutput, FakeTaskEnvironment, FakeTaskStateManager, make_vertex

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.key_groups import key_group_range
from flinkpy.graph.operator_specs import OperatorSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.key_hash import hash_key
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.factory import create_operator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

BACKENDS = ("hashmap", "rocksdb")


class JoinedSubtasks:
    """Records are pairs (key, anything)."""

    def __init__(
        self,
        spec: OperatorSpec,
        backend: str = "hashmap",
        parallelism: int = 1,
        side_tags: tuple[str, ...] = (),
        restored: list[checkpoint_pb2.KeyedStateHandle] | None = None,
        files: MemoryStreams | None = None,
    ) -> None:
        self._spec = spec
        self._side_tags = side_tags
        self._files = files or MemoryStreams()
        self._ranges = [key_group_range(128, parallelism, index) for index in range(parallelism)]
        snapshot = None
        if restored is not None:
            snapshot = checkpoint_pb2.TaskStateSnapshot()
            snapshot.operators["op0"].keyed.extend(restored)
        self.outputs: list[CollectingOutput] = []
        self.side_outputs: list[dict[str, CollectingOutput]] = []
        self.operators: list[Any] = []
        for index in range(parallelism):
            self._add(backend, index, parallelism, snapshot)

    def _add(self, backend: str, index: int, parallelism: int, snapshot: Any) -> None:
        state = FakeTaskStateManager(snapshot, files=self._files)
        state.directory = state.directory / f"joined-{id(self)}-{index}"
        clock = ManualClock(1_000)
        environment = FakeTaskEnvironment(
            make_vertex([self._spec]), clock=clock, state=state, subtask_index=index, parallelism=parallelism
        )
        environment.configuration = Configuration.from_dict({"state.backend.type": backend})
        context = OperatorContext(
            "op0", "join", environment, TaskMailbox(), ProcessingTimeService(clock), OperatorMetricGroup()
        )
        output = CollectingOutput()
        side = {tag: CollectingOutput() for tag in self._side_tags}
        operator = create_operator(self._spec, context, output, dict(side))
        operator.restore(state.restored_state)
        operator.open()
        self.operators.append(operator)
        self.outputs.append(output)
        self.side_outputs.append(side)

    def process(self, input_index: int, rows: list[Any], timestamps: list[int] | None) -> None:
        """Processes one batch. Every subtask gets the records of its keys."""
        owners = [self._owner(row[0]) for row in rows]
        for index, operator in enumerate(self.operators):
            mine = [at for at, owner in enumerate(owners) if owner == index]
            if mine:
                times = None if timestamps is None else np.array([timestamps[at] for at in mine], dtype=np.int64)
                operator.process_batch(Batch([rows[at] for at in mine], times), input_index)

    def _owner(self, key: Any) -> int:
        group = hash_key(key) % 128
        return next(index for index, owned in enumerate(self._ranges) if owned.start <= group <= owned.end)

    def watermark(self, timestamp: int) -> None:
        for operator in self.operators:
            operator.process_element(Watermark(timestamp))

    @property
    def results(self) -> list[tuple[Any, Any]]:
        """(record, timestamp) of all subtasks."""
        return [pair for output in self.outputs for pair in zip(output.rows, output.timestamps)]

    def side_results(self, tag: str) -> list[tuple[Any, Any]]:
        return [pair for side in self.side_outputs for pair in zip(side[tag].rows, side[tag].timestamps)]

    def restored(self, parallelism: int = 1, backend: str = "hashmap") -> JoinedSubtasks:
        """Takes a snapshot now and returns the operator restored from it, without earlier results."""
        handles = []
        for operator in self.operators:
            snapshot = operator.snapshots(1, OPTIONS)["op0"]
            handle = snapshot.keyed.write(self._files)
            snapshot.release()
            if handle is not None:
                handles.append(handle)
        self.close()
        return JoinedSubtasks(self._spec, backend, parallelism, self._side_tags, handles, self._files)

    def close(self) -> None:
        for operator in self.operators:
            operator.close()
