"""Sources and sinks that methods of the environment and of streams create: names, types, placement and errors."""

from __future__ import annotations

import pytest

from flinkpy.common import SimpleStringSchema, Types, WatermarkStrategy
from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.functions import ParallelSourceFunction, SinkFunction, SourceFunction

PAIR = Types.ROW_NAMED(["id", "at"], [Types.STRING(), Types.LONG()])


class Ticks(SourceFunction):
    pass


class ParallelTicks(ParallelSourceFunction):
    pass


class Native(SourceFunction):
    """A connector that replaces the function by its own source."""

    def to_source(self):
        return NumberSequenceSource(1, 5)


class Ignores(SinkFunction):
    pass


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(3)
    return env


def parallelism_of(stream) -> int:
    return stream.transformation.parallelism


def test_a_source_function_runs_in_one_subtask_unless_it_is_parallel(env):
    stream = env.add_source(Ticks(), type_info=Types.STRING())
    assert (parallelism_of(stream), stream.get_type(), stream.get_name()) == (1, Types.STRING(), "Custom Source")
    assert parallelism_of(env.add_source(ParallelTicks(), "ticks")) == 3
    strategy = WatermarkStrategy.no_watermarks()
    assert parallelism_of(env.from_source(Ticks().to_source(), strategy, "ticks")) == 1
    assert not stream.transformation.is_bounded


def test_a_connector_may_replace_a_function_by_its_own_source(env):
    stream = env.add_source(Native())

    assert (parallelism_of(stream), stream.get_type()) == (3, Types.LONG())
    assert stream.transformation.spec.source.boundedness is Boundedness.BOUNDED


def test_java_functions_and_other_objects_are_refused(env):
    stream = env.from_collection([1])
    with pytest.raises(UnsupportedOperationError, match="no JVM and cannot run Java functions; give add_source a sub"):
        env.add_source("org.example.MySource")
    with pytest.raises(UnsupportedOperationError, match="no JVM and cannot run Java functions; give add_sink a sub"):
        stream.add_sink("org.example.MySink")
    with pytest.raises(TypeError, match="not NumberSequenceSource; pass other sources to from_source"):
        env.add_source(NumberSequenceSource(1, 2))
    with pytest.raises(TypeError, match=r"add_sink needs a .*SinkFunction, not int"):
        stream.add_sink(5)
    with pytest.raises(
        UnsupportedOperationError, match="create_input: flinkpy has no JVM and cannot run a Java InputFormat"
    ):
        env.create_input(None)


def test_elements_can_be_given_one_by_one_or_as_a_list(env):
    assert parallelism_of(env.from_elements(1, 2, type_info=Types.LONG())) == 1
    assert len(env.from_data([1, 2, 3]).transformation.spec.source) == 3
    assert len(env.from_data(1, 2).transformation.spec.source) == 2
    assert len(env.from_data("text").transformation.spec.source) == 1
    assert parallelism_of(env.from_parallel_collection([1, 2], Types.LONG())) == 3
    with pytest.raises(ValueError, match="at least one element"):
        env.from_elements()
    with pytest.raises(TypeMismatchError, match="record 1"):
        env.from_elements(1, "two", type_info=Types.LONG())
    with pytest.raises(TypeError, match="from_parallel_collection needs a list of elements, not a str"):
        env.from_parallel_collection("ab")


def test_a_single_subtask_reads_text_from_a_socket(env):
    stream = env.socket_text_stream("localhost", 9_999)
    assert (parallelism_of(stream), stream.get_type(), stream.get_name()) == (1, Types.STRING(), "Socket Stream")
    with pytest.raises(ValueError, match="port is out of range"):
        env.socket_text_stream("localhost", -1)
    with pytest.raises(ValueError, match="max_retry must be zero or larger"):
        env.socket_text_stream("localhost", 9_999, "\n", -5)


def test_sinks_have_the_names_of_flink_and_a_socket_sink_has_one_connection(env):
    stream = env.from_collection(["a"], Types.STRING())
    assert stream.print_to_err("id").transformation.name == "Sink: Print to Std. Err"
    assert stream.add_sink(Ignores()).transformation.name == "Sink: Unnamed"
    for written in (stream, stream.key_by(lambda value: value)):
        sink = written.write_to_socket("localhost", 9_999, SimpleStringSchema())
        assert (sink.transformation.name, sink.transformation.parallelism) == ("Sink: Socket", 1)


def test_a_timestamp_column_is_checked_when_the_program_is_built(env):
    stream = env.from_collection([("a", 1)], PAIR)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    for known in ("at", 1):
        stream.assign_timestamps_and_watermarks(strategy.with_timestamp_column(known))
    env.from_collection([{"at": 1}]).assign_timestamps_and_watermarks(strategy.with_timestamp_column("at"))
    env.from_source(NumberSequenceSource(1, 2), strategy.with_timestamp_column(0), "numbers")
    with pytest.raises(
        ValueError, match=r"with_timestamp_column\('when'\): the records have only the fields \['id', 'at'\]"
    ):
        stream.assign_timestamps_and_watermarks(strategy.with_timestamp_column("when"))
    with pytest.raises(TypeError, match=r"with_timestamp_column\('id'\): the field is string"):
        stream.assign_timestamps_and_watermarks(strategy.with_timestamp_column("id"))
    with pytest.raises(ValueError, match="only the fields"):
        env.from_source(NumberSequenceSource(1, 2), strategy.with_timestamp_column(1), "numbers")
