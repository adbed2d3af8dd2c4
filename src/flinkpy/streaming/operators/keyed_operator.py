"""KeyedStateOperator and KeyedOperator: the base classes of operators with keyed state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.key_groups import KeyGroupRange, key_group_range
from flinkpy.common.safe_paths import safe_join
from flinkpy.configuration import read_option
from flinkpy.configuration.execution_options import RUNTIME_MODE
from flinkpy.state.backend import KeyContext, KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.streaming.operators.key_reader import KeyReader
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    OperatorSnapshot,
    UserFunctionOperator,
    close_function,
    open_function,
    snapshot_functions,
)

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.graph.operator_specs import KeyedSpec
    from flinkpy.streaming.tasks.environment import TaskEnvironment


def create_backend(
    context: OperatorContext,
    key_context: KeyContext,
    key_type: Any,
    restored: checkpoint_pb2.OperatorSubtaskState | None,
) -> KeyedStateBackend:
    """Returns the keyed state of one operator, with its restored state."""
    environment = context.environment
    directory = safe_join(environment.state.directory, f"op-{context.operator_id}")
    directory.mkdir(parents=True, exist_ok=True)
    return create_keyed_state_backend(
        KeyedStateBackendParameters(
            configuration=environment.configuration,
            key_context=key_context,
            key_group_range=_own_key_groups(environment),
            max_parallelism=environment.max_parallelism,
            key_type=key_type,
            operator_name=context.name,
            restored=() if restored is None else tuple(restored.keyed),
            files=environment.state.files,
            directory=directory,
            clock=environment.clock,
            metrics=context.metrics,
        )
    )


def _own_key_groups(environment: TaskEnvironment) -> KeyGroupRange:
    if read_option(environment.configuration, RUNTIME_MODE) == "BATCH":
        # In batch mode the key groups of a subtask are chosen when its data has arrived. There is no state to restore.
        return KeyGroupRange(0, environment.max_parallelism - 1)
    return key_group_range(environment.max_parallelism, environment.parallelism, environment.subtask_index)


class KeyedStateOperator(UserFunctionOperator):
    """An operator with keyed state and any number of inputs. Thread: task thread.

    Attributes:
        key_context: holds the current key, which is set before user code runs.
        backend: the keyed state of this operator. Set by `initialize_state`.
        key_selectors: the key selectors of the keyed inputs.
    """

    backend: KeyedStateBackend

    def __init__(
        self,
        function: Any,
        key_selectors: tuple[Any, ...],
        key_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
        key_context: KeyContext | None = None,
    ) -> None:
        super().__init__(context, output, side_outputs, function)
        self.key_selectors = key_selectors
        self.key_type = key_type
        self.key_context = key_context or KeyContext()
        self._has_backend = False

    def create_runtime_context(self) -> StreamingRuntimeContext:
        return StreamingRuntimeContext(self.context, self.backend)

    def checkpointed_functions(self) -> list[Any]:
        return [self.function, *self.key_selectors]

    def keyed_state_store(self) -> Any:
        return self.create_runtime_context()

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        self.backend = create_backend(self.context, self.key_context, self.key_type, restored)
        self._has_backend = True
        super().initialize_state(restored)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        snapshot_functions(self, self.checkpointed_functions(), checkpoint_id)
        operator = self.snapshot_operator_state(checkpoint_id, options)
        try:
            return OperatorSnapshot(self.backend.snapshot(checkpoint_id, options), operator)
        except BaseException:
            if operator is not None:
                operator.release()
            raise

    @property
    def reported_bytes(self) -> int:
        return self.backend.reported_bytes if self._has_backend else 0

    def release_memory(self) -> None:
        self.backend.release_memory()

    def after_batch(self, num_records: int) -> None:
        # A keyed operator is always the head of its chain, because the exchange before it partitions by key.
        self.backend.clean_up_expired(num_records)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.backend.notify_checkpoint_complete(checkpoint_id)
        super().notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.backend.notify_checkpoint_aborted(checkpoint_id)
        super().notify_checkpoint_aborted(checkpoint_id)

    def open(self) -> None:
        for selector in self.key_selectors:
            open_function(selector, self.create_runtime_context(), self.context, self.context.name)
        super().open()

    def close(self) -> None:
        failure: BaseException | None = None
        for function in (self.function, *self.key_selectors):
            try:
                close_function(function, self.context, self.context.name)
            except BaseException as error:  # noqa: BLE001 - every function is closed; the first failure is raised after
                failure = failure or error
        if self._has_backend:
            self._has_backend = False
            self.backend.close()
        if failure is not None:
            raise failure


class KeyedOperator(KeyedStateOperator):
    """An operator with one keyed input.

    Attributes:
        read_keys: returns the state key of each record.
    """

    def __init__(
        self,
        spec: KeyedSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
        key_context: KeyContext | None = None,
    ) -> None:
        function = getattr(spec, "function", None)
        super().__init__(function, (spec.key_selector,), spec.key_type, context, output, side_outputs, key_context)
        self.spec = spec
        self.input_type = input_type
        self.read_keys: Callable[[list[Any]], list[Any]] = KeyReader(spec.key_selector, spec.key_type)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.spec.key_selector, self.key_type, self.input_type
