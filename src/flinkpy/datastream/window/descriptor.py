"""WindowOperationDescriptor: the parts of a window operation. Source: pyflink.datastream.window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.common.serializer import TypeSerializer
    from flinkpy.datastream.output_tag import OutputTag
    from flinkpy.datastream.state import StateDescriptor
    from flinkpy.datastream.window.assigner import WindowAssigner
    from flinkpy.datastream.window.trigger import Trigger


class WindowOperationDescriptor:
    """The assigner, the trigger, the function and the settings of a window operation."""

    def __init__(
        self,
        assigner: WindowAssigner,
        trigger: Trigger,
        allowed_lateness: int,
        late_data_output_tag: OutputTag | None,
        window_state_descriptor: StateDescriptor,
        window_serializer: TypeSerializer,
        internal_window_function: Any,
    ) -> None:
        self.assigner = assigner
        self.trigger = trigger
        self.allowed_lateness = allowed_lateness
        self.late_data_output_tag = late_data_output_tag
        self.window_state_descriptor = window_state_descriptor
        self.internal_window_function = internal_window_function
        self.window_serializer = window_serializer

    def generate_op_name(self) -> str:
        return type(self.assigner).__name__

    def generate_op_desc(self, windowed_stream_type: str, func_desc: str) -> str:
        return f"{windowed_stream_type}({self.assigner}, {type(self.trigger).__name__}, {func_desc})"
