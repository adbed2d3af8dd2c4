"""Runs all subtasks of one keyed operator in one thread. Records are partitioned as an exchange would do it, in batches
of any size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from memory_checkpoints import MemoryStreams
from streaming_fakes import FakeTaskStateManager, OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.key_groups import operator_index
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.key_hash import hash_keys, key_groups
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import write_states

MAX_PARALLELISM = 128

#: ("record", value, timestamp) or ("watermark", timestamp).
Event = tuple[Any, ...]


class KeyedSubtasks:
    """The subtasks of a keyed operator.

    Attributes:
        outputs: the emitted values by tag ("" is the main output). The values of one key are in order.
    """

    def __init__(
        self,
        spec: Any,
        parallelism: int,
        *,
        side_tags: tuple[str, ...] = (),
        configuration: dict[str, str] | None = None,
    ) -> None:
        # Each subtask has its own copies of the functions, as if they had been sent to it.
        self._spec = cloudpickle.dumps(spec)
        self._side_tags = side_tags
        self._configuration = configuration
        self._files = MemoryStreams()
        self._resources = ExitStack()
        self._get_key = spec.key_selector.get_key
        self.outputs: dict[str, list[tuple[Any, int | None]]] = {tag: [] for tag in ("", *side_tags)}
        self._subtasks: list[OperatorHarness] = []
        self._start(parallelism, None)

    def __enter__(self) -> KeyedSubtasks:
        return self

    def __exit__(self, *_: object) -> None:
        for subtask in self._subtasks:
            subtask.operator.close()
        self._resources.close()

    def run(self, events: Sequence[Event], cuts: set[int]) -> None:
        """Feeds the events. Consecutive records form one batch unless the position of the second is in `cuts`."""
        batch: list[Event] = []
        for position, event in enumerate(events):
            if batch and (event[0] != "record" or position in cuts):
                self._process(batch)
                batch = []
            if event[0] == "record":
                batch.append(event)
            else:
                for subtask in self._subtasks:
                    subtask.operator.process_element(Watermark(event[1]))
                self._take_outputs()
        if batch:
            self._process(batch)

    def restart(self, parallelism: int) -> None:
        """Takes a checkpoint and restores it in `parallelism` new subtasks."""
        merged: dict[str, checkpoint_pb2.OperatorSubtaskState] = {}
        for subtask in self._subtasks:
            snapshots = subtask.operator.snapshots(1, checkpoint_pb2.CheckpointOptions())
            for operator_id, state in write_states(snapshots, self._files).items():
                whole = merged.setdefault(operator_id, checkpoint_pb2.OperatorSubtaskState())
                whole.keyed.extend(state.keyed)
            subtask.operator.close()
        restored = checkpoint_pb2.TaskStateSnapshot()
        for operator_id, state in merged.items():
            restored.operators[operator_id].CopyFrom(state)
        self._subtasks = []
        self._start(parallelism, restored)

    def _start(self, parallelism: int, restored: checkpoint_pb2.TaskStateSnapshot | None) -> None:
        for index in range(parallelism):
            manager = FakeTaskStateManager(restored, files=self._files)
            manager.directory = Path(self._resources.enter_context(tempfile.TemporaryDirectory()))
            subtask = OperatorHarness(
                cloudpickle.loads(self._spec),
                side_tags=self._side_tags,
                configuration=self._configuration,
                state=manager,
                subtask=(index, parallelism),
            )
            self._subtasks.append(subtask)

    def _process(self, batch: list[Event]) -> None:
        keys = [self._get_key(value) for _, value, _ in batch]
        groups = key_groups(hash_keys(keys), MAX_PARALLELISM).tolist()
        owners = [operator_index(MAX_PARALLELISM, len(self._subtasks), group) for group in groups]
        for index, subtask in enumerate(self._subtasks):
            own = [event for event, owner in zip(batch, owners, strict=True) if owner == index]
            if own:
                times = np.array([timestamp for _, _, timestamp in own], dtype=np.int64)
                subtask.operator.process_batch(Batch([value for _, value, _ in own], times))
        self._take_outputs()

    def _take_outputs(self) -> None:
        for subtask in self._subtasks:
            for tag, output in (("", subtask.output), *subtask.side.items()):
                self.outputs[tag] += zip(output.rows, output.timestamps, strict=True)
                output.items.clear()


def spec_of(stream: Any) -> specs.OperatorSpec:
    """Returns the spec of the operator that the user's call created."""
    return stream.transformation.spec
