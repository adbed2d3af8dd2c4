"""KeyedOperator: what all operators on a keyed stream share: the key and the keyed state."""

from __future__ import annotations

from typing import Any

from flinkpy.common.key_groups import key_group_range
from flinkpy.graph.operator_specs import KeyedSpec
from flinkpy.state.backend import KeyContext, KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.streaming.operators.key_getter import key_getter
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    UserFunctionOperator,
    close_function,
    open_function,
)


class KeyedOperator(UserFunctionOperator):
    """Thread: task thread.

    Attributes:
        get_key: value -> key.
        key_context: holds the current key; set before user code runs.
        backend: this operator's keyed state.
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
        super().__init__(context, output, side_outputs, getattr(spec, "function", None))
        environment = context.environment
        self.spec = spec
        self.input_type = input_type
        self.get_key = key_getter(spec.key_selector)
        self.key_context = key_context or KeyContext()
        self.backend: KeyedStateBackend = create_keyed_state_backend(
            KeyedStateBackendParameters(
                configuration=environment.configuration,
                key_context=self.key_context,
                key_group_range=key_group_range(
                    environment.max_parallelism, environment.parallelism, environment.subtask_index
                ),
                max_parallelism=environment.max_parallelism,
                key_type=spec.key_type,
                operator_name=context.name,
            )
        )

    def create_runtime_context(self) -> StreamingRuntimeContext:
        return StreamingRuntimeContext(self.context, self.backend)

    def open(self) -> None:
        open_function(self.spec.key_selector, self.create_runtime_context(), self.context, self.context.name)
        super().open()

    def close(self) -> None:
        try:
            super().close()
        finally:
            try:
                close_function(self.spec.key_selector, self.context, self.context.name)
            finally:
                self.backend.close()
