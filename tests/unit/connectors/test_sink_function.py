from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_fakes import SinkLife

from flinkpy.common.errors import FunctionError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.common.watermark_strategy import Watermark
from flinkpy.datastream.functions import RichSinkFunction, SinkFunction
from flinkpy.datastream.state import ListStateDescriptor
from flinkpy.records import elements
from flinkpy.records.batch import Batch

written: list[Any] = []


@pytest.fixture(autouse=True)
def empty_log():
    written.clear()


class Logs(RichSinkFunction):
    def open(self, runtime_context):
        super().open(runtime_context)
        written.append(("open", self.get_runtime_context().get_index_of_this_subtask()))

    def invoke(self, value, context):
        written.append((value, context.timestamp(), context.current_watermark(), context.current_processing_time()))

    def write_watermark(self, watermark):
        written.append(watermark)

    def finish(self):
        written.append("finish")

    def close(self):
        written.append("close")


class Buffers(SinkFunction):
    """Writes two records at a time. A remaining record is part of the checkpoint."""

    def __init__(self):
        super().__init__()
        self.buffer = []

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("rest", Types.STRING()))
        self.buffer = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.buffer)

    def notify_checkpoint_complete(self, checkpoint_id):
        written.append(checkpoint_id)

    def invoke(self, value, context):
        self.buffer.append(value)
        if len(self.buffer) == 2:
            written.append(tuple(self.buffer))
            self.buffer = []


def test_sink_function_gets_records_times_and_watermarks_in_order():
    life = SinkLife(Logs().to_sink(), input_type=Types.LONG())
    life.operator.process_batch(Batch([1, 2], np.array([10, 20], dtype=np.int64)))
    life.operator.process_element(elements.Watermark(15))
    life.write(3)
    life.operator.finish()
    life.operator.close()

    assert written == [
        ("open", 0),
        (1, 10, elements.MIN_WATERMARK, 1_000),
        (2, 20, elements.MIN_WATERMARK, 1_000),
        Watermark(15),
        (3, None, 15, 1_000),
        "finish",
        "close",
    ]


def test_a_sink_function_has_state():
    life = SinkLife(Buffers().to_sink())
    life.write("a", "b", "c")
    state = life.checkpoint(4)
    life.operator.notify_checkpoint_complete(4)
    life = SinkLife(Buffers().to_sink(), state)
    life.write("d")

    assert written == [("a", "b"), 4, ("c", "d")]


def test_an_error_of_a_sink_function_names_its_operator():
    class Fails(SinkFunction):
        def invoke(self, value, context):
            raise OSError(value)

    with pytest.raises(FunctionError, match="operator operator: OSError: x"):
        SinkLife(Fails().to_sink()).write("x")


def test_a_sink_function_is_written_in_python_and_has_a_method():
    with pytest.raises(UnsupportedOperationError, match="no JVM and cannot run Java functions"):
        SinkFunction("org.example.MySink")

    class Empty(SinkFunction):
        pass

    with pytest.raises(UnsupportedOperationError, match=r"Empty has no method invoke\(value, context\)"):
        SinkLife(Empty().to_sink()).write("x")
