"""The choice of batch mode, and its changes to operators and options."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from flinkpy.common import Configuration, Duration, Time, Types, WatermarkStrategy
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count
from flinkpy.datastream.connectors.file_system import FileSource, StreamFormat
from flinkpy.datastream.window import TumblingProcessingTimeWindows
from flinkpy.graph import operator_specs as specs


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


def specs_of(env: StreamExecutionEnvironment) -> list[specs.OperatorSpec]:
    return [
        pickle.loads(operator.factory_pickle)
        for vertex in env.generate_job_graph().vertices
        for operator in vertex.chain
    ]


def build(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_idleness(
        Duration.of_seconds(5)
    )
    stream = env.from_collection([(1, 2)], Types.TUPLE([Types.INT(), Types.LONG()]))
    stamped = stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))
    stamped.key_by(lambda value: value[0]).sum(1).print()
    stamped.key_by(0).aggregate(n=count()).print()


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.BATCH, RuntimeExecutionMode.AUTOMATIC])
def test_bounded_program_runs_in_batch_mode(env: StreamExecutionEnvironment, mode: RuntimeExecutionMode) -> None:
    build(env)
    env.set_runtime_mode(mode)
    env.enable_checkpointing(1000)
    job_graph = env.generate_job_graph()

    assert job_graph.configuration.entries["execution.runtime-mode"] == "BATCH"
    assert job_graph.configuration.entries["execution.checkpointing.interval"] == "0 ms"
    assert job_graph.configuration.entries["state.backend.type"] == "hashmap"
    assert env.get_checkpoint_interval() == 1000, "the environment itself does not change"


def test_unknown_mode_is_rejected(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(TypeError, match=r"such as RuntimeExecutionMode\.BATCH, not 'batch'"):
        env.set_runtime_mode("batch")  # type: ignore[arg-type]


def test_operators_that_need_their_whole_input_wait_for_its_end(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    build(env)
    found = specs_of(env)

    waiting = [spec.operator for spec in found if isinstance(spec, specs.BatchSpec)]
    assert [type(spec) for spec in waiting] == [specs.RollingAggregateSpec]
    assert [spec.emit for spec in found if isinstance(spec, specs.ColumnAggregateSpec)] == ["FINAL"]


def test_event_time_does_not_advance_before_the_end(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    build(env)
    strategies = [
        spec.watermark_strategy for spec in specs_of(env) if isinstance(spec, specs.TimestampsAndWatermarksSpec)
    ]

    assert [strategy.out_of_orderness_ms for strategy in strategies] == [None]
    assert [strategy.idle_timeout_ms for strategy in strategies] == [None]
    assert isinstance(strategies[0].timestamp_assigner, SecondField)


def test_disabled_checkpoints_cause_a_warning(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.enable_checkpointing(1000)
    build(env)
    with caplog.at_level(logging.WARNING):
        env.generate_job_graph()

    assert "checkpoints are disabled" in caplog.text


def unbounded(env: StreamExecutionEnvironment, directory: str) -> None:
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), directory).monitor_continuously(
        Duration.of_seconds(1)
    )
    env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "files").print()


def test_unbounded_source_is_rejected_in_batch_mode_with_the_message_of_flink(
    env: StreamExecutionEnvironment, tmp_path: Any
) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    unbounded(env, str(tmp_path))

    expected = r"Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH'.*'Source: files'"
    with pytest.raises(UnsupportedOperationError, match=expected):
        env.generate_job_graph()


def test_processing_time_windows_over_columns_are_rejected(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = env.from_collection([(1, 2)], Types.TUPLE([Types.INT(), Types.LONG()]))
    stream.key_by(0).window(TumblingProcessingTimeWindows.of(Time.seconds(1))).aggregate(n=count()).print()

    with pytest.raises(UnsupportedOperationError, match="processing-time windows over columns"):
        env.generate_job_graph()


def test_unbounded_program_runs_in_streaming_mode_if_the_mode_is_automatic(
    env: StreamExecutionEnvironment, tmp_path: Any
) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    unbounded(env, str(tmp_path))

    assert env.generate_job_graph().configuration.entries["execution.runtime-mode"] == "AUTOMATIC"


def test_same_stream_can_be_executed_again_in_the_other_mode(env: StreamExecutionEnvironment) -> None:
    stream = env.from_sequence(1, 3).key_by(lambda value: value % 2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream.sum(0).print()
    assert any(isinstance(spec, specs.BatchSpec) for spec in specs_of(env))

    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    stream.sum(0).print()
    assert not any(isinstance(spec, specs.BatchSpec) for spec in specs_of(env))
