"""CheckpointedFunction and CheckpointListener: user functions that take part in checkpoints.

PyFlink has neither; the names are those of Flink's Java API. Any function object may implement them beside its own
interface (a MapFunction, a key selector, a process function, ...), by inheriting or just by having the methods.

```python
class Buffering(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("rows", Types.STRING()))
        self.rows = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.rows)
```

Source: org.apache.flink.streaming.api.checkpoint.CheckpointedFunction,
org.apache.flink.api.common.state.CheckpointListener.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkpy.datastream.base_functions import KeyedStateStore
    from flinkpy.datastream.state import OperatorStateStore

__all__ = ["CheckpointListener", "CheckpointedFunction", "FunctionInitializationContext", "FunctionSnapshotContext"]


class FunctionInitializationContext(ABC):
    """What `initialize_state` is given. Thread: task thread."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether the job starts from a checkpoint; the state is empty all the same where the operator is new in it."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The id of that checkpoint; None where it starts from the beginning."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """State of this subtask: lists, union lists and broadcast states."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """State by key. Raises: UnsupportedOperationError where the stream has no keys."""


class FunctionSnapshotContext(ABC):
    """What `snapshot_state` is given."""

    @abstractmethod
    def get_checkpoint_id(self) -> int: ...

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """When the checkpoint was triggered, in ms since the epoch."""


class CheckpointedFunction(ABC):
    """A function with state of its subtask."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put what is to be kept into the states. Called between two records; an error here fails the task."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the states, and take over what was restored. Called once, before `open`."""


class CheckpointListener:
    """A function that is told of the end of checkpoints it was part of.

    A notification may be lost when a task fails; the next one then stands for all before it.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint will be restored from if a failure comes now. An error here fails the task."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never be completed; what belongs to it must wait for a later one."""
        return
