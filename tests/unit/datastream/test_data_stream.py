from __future__ import annotations

import pytest

from flinkpy.common import Configuration, Duration, Types, WatermarkStrategy
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.connectors.discard_sink import DiscardingSink
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.datastream import (
    DataStream,
    FilterFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from flinkpy.graph import operator_specs as specs

PAIR = Types.TUPLE([Types.INT(), Types.STRING()])


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration())


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_sequence(1, 10)


@pytest.fixture
def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([(1, "a")], PAIR)


def spec_of(stream: DataStream) -> specs.OperatorSpec:
    return stream.transformation.spec  # type: ignore[attr-defined]


class Double(MapFunction):
    def map(self, value: int) -> int:
        return value * 2


class Process(ProcessFunction):
    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        yield value


class KeyedProcess(KeyedProcessFunction):
    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        yield value


class Positive(FilterFunction):
    def filter(self, value: int) -> bool:
        return value > 0


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("map", "The input must be a MapFunction or a callable function"),
        ("flat_map", "The input must be a FlatMapFunction or a callable function"),
        ("filter", "The input must be a FilterFunction or a callable function"),
        ("key_by", "Parameter key_selector should be type of KeySelector or a callable function."),
        ("process", "The input must be a ProcessFunction"),
        ("sink_to", "The input must be a Sink"),
        ("assign_timestamps_and_watermarks", "The input must be a WatermarkStrategy"),
        ("get_side_output", "The input must be an OutputTag"),
        ("union", "is not a DataStream"),
    ],
)
def test_wrong_kind_of_argument_is_a_type_error(numbers: DataStream, method: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        getattr(numbers, method)(3.5)


def test_class_instead_of_an_instance_is_refused(numbers: DataStream) -> None:
    with pytest.raises(TypeError, match="parentheses missing"):
        numbers.map(Double)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="MapFunction"):
        numbers.map(Positive())  # type: ignore[arg-type]


def test_callables_are_wrapped_and_function_objects_kept(numbers: DataStream) -> None:
    double = Double()

    assert spec_of(numbers.map(double)).function is double  # type: ignore[attr-defined]
    assert spec_of(numbers.map(abs)).function.map is abs  # type: ignore[attr-defined]


def test_stream_without_a_declared_type_is_pickled(numbers: DataStream) -> None:
    assert numbers.get_type() == Types.LONG()
    untyped = numbers.map(str)
    assert untyped.get_type() == Types.PICKLED_BYTE_ARRAY()
    assert spec_of(untyped).output_type is None
    assert spec_of(numbers.map(str, Types.PICKLED_BYTE_ARRAY())).output_type is None
    assert spec_of(untyped.map(str)).input_types == (None,)


def test_list_of_types_is_a_row(numbers: DataStream) -> None:
    assert numbers.map(lambda x: x, [Types.INT()]).get_type() == Types.ROW([Types.INT()])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a TypeInformation"):
        numbers.map(str, str)  # type: ignore[arg-type]


def test_filter_union_and_partitioning_keep_the_type(pairs: DataStream) -> None:
    for stream in (pairs.filter(bool), pairs.union(pairs), pairs.rebalance(), pairs.key_by(0)):
        assert stream.get_type() == PAIR


def test_settings_go_to_the_operator(numbers: DataStream) -> None:
    stream = numbers.map(str).name("N").uid("u").set_parallelism(3).set_max_parallelism(9).set_description("d")
    operator = stream.transformation

    assert stream.get_name() == "N"
    assert (operator.uid, operator.parallelism, operator.max_parallelism, operator.description) == (  # type: ignore[attr-defined]
        "u",
        3,
        9,
        "d",
    )


def test_settings_need_an_operator(numbers: DataStream) -> None:
    with pytest.raises(UnsupportedOperationError, match="set_parallelism: this stream comes from a partitioning"):
        numbers.rebalance().set_parallelism(2)
    with pytest.raises(UnsupportedOperationError, match="name"):
        numbers.union(numbers).name("x")


def test_non_parallel_operator_keeps_parallelism_one(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    with pytest.raises(ValueError, match="non parallel operator must be 1"):
        env.from_collection([1]).set_parallelism(2)
    with pytest.raises(ValueError, match="non parallel operator must be 1"):
        numbers.map(str).force_non_parallel().set_parallelism(2)


@pytest.mark.parametrize("parallelism", [0, -1, 1 << 20])
def test_parallelism_out_of_range_is_refused(numbers: DataStream, parallelism: int) -> None:
    with pytest.raises(ValueError, match="must be from 1"):
        numbers.map(str).set_parallelism(parallelism)
    with pytest.raises(ValueError, match="must be from 1"):
        numbers.map(str).set_max_parallelism(parallelism)


def test_project_selects_positions_of_a_tuple(pairs: DataStream, numbers: DataStream) -> None:
    projected = pairs.project(1, 0)

    assert projected.get_type() == Types.TUPLE([Types.STRING(), Types.INT()])
    assert spec_of(projected).fields == (1, 0)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="Only Tuple DataStreams can be projected"):
        numbers.project(0)
    for wrong in ((), (2,), (-1,)):
        with pytest.raises(ValueError, match="field"):
            pairs.project(*wrong)


def test_union_needs_one_environment_and_one_type(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    with pytest.raises(ValueError, match="different types: Long and PickledByteArrayTypeInfo"):
        numbers.union(numbers.map(str))
    with pytest.raises(ValueError, match="different environments"):
        numbers.union(StreamExecutionEnvironment(Configuration()).from_sequence(1, 2))


def test_side_output_has_the_tags_type(numbers: DataStream) -> None:
    main = numbers.process(Process())

    assert main.get_side_output(OutputTag("t", Types.INT())).get_type() == Types.INT()
    assert main.get_side_output(OutputTag("t")).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert OutputTag("t", [Types.INT()]).type_info == Types.ROW([Types.INT()])
    with pytest.raises(ValueError, match="empty"):
        OutputTag("")


def test_keyed_function_on_an_unkeyed_stream_is_a_type_error(numbers: DataStream) -> None:
    with pytest.raises(TypeError, match="needs a keyed stream"):
        numbers.process(KeyedProcess())  # type: ignore[arg-type]


def test_batch_functions_need_columns(numbers: DataStream) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    mapped = numbers.map_batches(lambda batch: batch, pa.schema([("x", pa.int32())]))

    assert mapped.get_type() == Types.ROW_NAMED(["x"], [Types.INT()])
    assert numbers.map_batches(lambda batch: batch).get_type() == Types.LONG()
    filtered = numbers.filter_batches(pc.field("f0") > 3)
    assert filtered.get_type() == Types.LONG()
    assert spec_of(filtered).function(None).equals(pc.field("f0") > 3)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="no declared type"):
        numbers.map(str).map_batches(lambda batch: batch)
    with pytest.raises(TypeError, match=r"pyarrow\.Schema"):
        numbers.map_batches(lambda batch: batch, "x")
    with pytest.raises(TypeError, match=r"pyarrow\.compute\.Expression"):
        numbers.filter_batches(3)


def test_slot_sharing_group_is_a_name_or_an_object(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    group = SlotSharingGroup.builder("big").set_cpu_cores(1.0).set_task_heap_memory_mb(100).build()
    stream = numbers.map(str).slot_sharing_group(group)

    assert stream.transformation.slot_sharing_group == "big"  # type: ignore[attr-defined]
    assert group.get_task_heap_memory().get_mebi_bytes() == 100  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="slot sharing group"):
        numbers.map(str).slot_sharing_group(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cpu cores and task heap memory are required"):
        SlotSharingGroup.builder("x").set_managed_memory_mb(1).build()


def test_sink_has_a_name_and_settings(numbers: DataStream) -> None:
    sink = numbers.sink_to(DiscardingSink()).name("Out").uid("u").set_parallelism(2).set_description("d")

    assert sink.transformation.name == "Out: Writer"
    assert (sink.transformation.uid, sink.transformation.parallelism) == ("u", 2)
    assert sink.set_max_parallelism(64).transformation.max_parallelism == 64
    assert numbers.print().name("Shown").transformation.name == "Sink: Shown"


def test_unavailable_operation_raises(env: StreamExecutionEnvironment) -> None:
    calls = [
        lambda: env.create_input(None),
        lambda: env.set_python_executable("/no/such/python"),
    ]
    for call in calls:
        with pytest.raises(UnsupportedOperationError, match=r"flinkpy has no JVM|not available|TaskExecutor"):
            call()


def test_watermark_strategy_without_effect_adds_no_operator(env: StreamExecutionEnvironment) -> None:
    source = NumberSequenceSource(1, 2)
    plain = env.from_source(source, WatermarkStrategy.no_watermarks(), "a")
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1))

    assert spec_of(plain).watermark_strategy is None  # type: ignore[attr-defined]
    assert spec_of(env.from_source(source, bounded, "b")).watermark_strategy is bounded  # type: ignore[attr-defined]
    assert plain.get_type() == Types.LONG()
    with pytest.raises(TypeError, match="SourceBase"):
        env.from_source("x", bounded, "c")
    with pytest.raises(TypeError, match="WatermarkStrategy"):
        env.from_source(source, None, "c")  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, -1, True, "3"])
def test_limit_must_be_positive(numbers: DataStream, limit: object) -> None:
    with pytest.raises(ValueError, match="Limit must be greater than 0"):
        numbers.execute_and_collect(limit=limit)  # type: ignore[arg-type]
