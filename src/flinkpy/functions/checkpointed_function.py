"""CheckpointedFunction and CheckpointListener: interfaces of user functions that take part in checkpoints.

PyFlink has neither; the names are those of Flink's Java API. Any function object (a MapFunction, a key selector, a
process function, ...) may implement them too, by inheritance or just by having the methods.

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
    from flinkpy.functions.function import KeyedStateStore
    from flinkpy.functions.state import OperatorStateStore


class FunctionInitializationContext(ABC):
    """The context of `initialize_state`. Thread: task thread."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Returns True if the job starts from a checkpoint. The state of a new operator is empty even then."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Returns the id of that checkpoint; None if the job does not start from one."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Returns the store of this subtask's state: lists, union lists and broadcast states."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Returns the store of keyed state.

        Raises:
            UnsupportedOperationError: the stream has no keys.
        """


class FunctionSnapshotContext(ABC):
    """The context of `snapshot_state`."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Returns the id of the checkpoint."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Returns the time at which the checkpoint was triggered, in milliseconds since the epoch."""


class CheckpointedFunction(ABC):
    """A function with operator state, which belongs to the subtask."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Writes the content of the function's fields to its states.

        It is called between two records, for every checkpoint. An error fails the task.
        """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Asks for the states, and restores the function's fields from them. It is called once, before `open`."""


class CheckpointListener:
    """A function that is notified when a checkpoint it took part in has completed or was aborted.

    A notification may be lost when a task fails. The next one then covers all earlier ones.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handles a completed checkpoint: after a failure the job restarts from this or a later one.

        An error fails the task.
        """
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handles an aborted checkpoint. The changes that it covered become part of a later one."""
        return
