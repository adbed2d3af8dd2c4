"""KeyedStateBackend: the interface between keyed operators and whatever holds their state.

Per-key face: an operator sets `key_context.key` before each record, which is one attribute store; the state objects it
was given read it. A backend is owned by one operator of one subtask, and holds the keys of that subtask's key groups.
The key group of a key is not looked at per record: the exchange has already brought each key to its owner, and a
snapshot computes the groups of all keys in one vectorised pass.

Source: org.apache.flink.runtime.state.KeyedStateBackend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.state.checkpoint_streams import StateFiles


class KeyContext:
    """The key of the record being processed."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = None


@dataclass(frozen=True, slots=True)
class KeyedStateBackendParameters:
    """What a backend is made from.

    Attributes:
        configuration: of the job, with the cluster's beneath.
        key_type: TypeInformation of the keys, or None: any Python objects.
        operator_name: for messages.
        restored: of earlier subtasks of this operator; only key groups in `key_group_range` are taken from them.
        files: reads them. directory: for files of the backend's own; exists and is empty.
    """

    configuration: Any
    key_context: KeyContext
    key_group_range: KeyGroupRange
    max_parallelism: int
    key_type: Any = None
    operator_name: str = ""
    restored: tuple[checkpoint_pb2.KeyedStateHandle, ...] = ()
    files: StateFiles | None = None
    directory: Path | None = None
    clock: Clock = field(default_factory=SystemClock)


class KeyedStateBackend(ABC):
    """Thread: task thread. Asking twice for the same name gives the same state; for another kind of it is an error.

    Attributes:
        key_context: shared with the operator, which sets the key.
        key_group_range: the key groups whose keys may appear.
    """

    def __init__(self, key_context: KeyContext, key_group_range: KeyGroupRange, max_parallelism: int) -> None:
        self.key_context = key_context
        self.key_group_range = key_group_range
        self.max_parallelism = max_parallelism
        self._states: dict[str, tuple[str, Any]] = {}

    def value_state(self, descriptor: Any) -> Any:
        return self._state("value", descriptor)

    def list_state(self, descriptor: Any) -> Any:
        return self._state("list", descriptor)

    def map_state(self, descriptor: Any) -> Any:
        return self._state("map", descriptor)

    def reducing_state(self, descriptor: Any) -> Any:
        return self._state("reducing", descriptor)

    def aggregating_state(self, descriptor: Any) -> Any:
        return self._state("aggregating", descriptor)

    @property
    def state_names(self) -> list[str]:
        return list(self._states)

    def _state(self, kind: str, descriptor: Any) -> Any:
        name = descriptor.get_name()
        known = self._states.get(name)
        if known is None:
            if descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled():
                raise UnsupportedOperationError(f"state {name!r}: this release has no time-to-live for state")
            known = self._states[name] = (kind, self.create_state(kind, descriptor))
        if known[0] != kind:
            raise UnsupportedOperationError(f"state {name!r} is a {known[0]} state already, not a {kind} state")
        return known[1]

    @abstractmethod
    def create_state(self, kind: str, descriptor: Any) -> Any:
        """A new state object. `kind`: value, list, map, reducing or aggregating."""

    @abstractmethod
    def keys(self, state_name: str) -> Iterable[Any]:
        """The keys that have something in that state, in no particular order."""

    @abstractmethod
    def num_entries(self) -> int:
        """Keys over all states."""

    def close(self) -> None:
        """Release everything; called once."""
        return
