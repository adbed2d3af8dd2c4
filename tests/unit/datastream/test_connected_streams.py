from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common import Configuration, Types
from flinkpy.common.errors import UserError
from flinkpy.datastream import (
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.state import MapStateDescriptor
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.validation import validate_job_graph

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
PAIR = Types.TUPLE([Types.INT(), Types.STRING()])


class CoMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class CoFlatMap(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield value

    def flat_map2(self, value: Any) -> Any:
        yield value


class CoProcess(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


class KeyedCoProcess(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


class Broadcast(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield value


class KeyedBroadcast(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield value


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration().set_integer("parallelism.default", 2))


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_sequence(1, 10).name("Numbers")


@pytest.fixture
def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_sequence(1, 10).map(lambda n: (n, "a"), PAIR).name("Pairs")


def spec_of(stream: DataStream) -> Any:
    return stream.transformation.spec  # type: ignore[attr-defined]


def test_co_functions_get_both_types_and_the_declared_result_type(numbers: DataStream, pairs: DataStream) -> None:
    connected = numbers.connect(pairs)
    assert isinstance(connected, ConnectedStreams)
    assert (connected.get_first_input(), connected.get_second_input()) == (numbers, pairs)

    mapped = connected.map(CoMap(), Types.STRING())
    flat_mapped = connected.flat_map(CoFlatMap())
    processed = connected.process(CoProcess(), [Types.INT(), Types.STRING()])

    assert [spec_of(one).kind for one in (mapped, flat_mapped, processed)] == ["MAP", "FLAT_MAP", "PROCESS"]
    assert spec_of(mapped).input_types == (Types.LONG(), PAIR)
    assert mapped.get_type() == Types.STRING()
    assert flat_mapped.get_type() == Types.PICKLED_BYTE_ARRAY()
    assert processed.get_type() == Types.ROW([Types.INT(), Types.STRING()])
    assert [one.get_name() for one in (mapped, flat_mapped, processed)] == ["Co-Map", "Co-Flat Map", "Co-Process"]


def test_keys_on_both_sides_make_a_keyed_operator(numbers: DataStream, pairs: DataStream) -> None:
    connected = numbers.connect(pairs).key_by(lambda n: n, lambda p: p[0], Types.INT())

    keyed = connected.process(KeyedCoProcess(), Types.INT())
    mapped = connected.map(CoMap())

    assert isinstance(spec_of(keyed), specs.KeyedCoProcessSpec)
    assert spec_of(keyed).key_type == Types.INT()
    assert [selector.get_key((7, "a")) for selector in spec_of(keyed).key_selectors] == [(7, "a"), 7]
    assert keyed.get_name() == "Keyed Co-Process"
    assert (spec_of(mapped).kind, type(spec_of(mapped))) == ("MAP", specs.KeyedCoProcessSpec)


def test_keying_again_starts_from_the_streams_before_key_by(numbers: DataStream, pairs: DataStream) -> None:
    connected = numbers.key_by(lambda n: 0).connect(pairs.key_by(lambda p: 0))
    again = connected.key_by(lambda n: n, lambda p: p[0])

    assert again.process(KeyedCoProcess()).transformation.inputs[0].inputs == (numbers.transformation,)


def test_co_process_function_accepts_keys_and_a_keyed_one_requires_them(numbers: DataStream, pairs: DataStream) -> None:
    keyed = numbers.key_by(lambda n: n)
    assert isinstance(
        spec_of(keyed.connect(pairs.key_by(lambda p: p[0])).process(CoProcess())), specs.KeyedCoProcessSpec
    )
    for connected in (numbers.connect(pairs), keyed.connect(pairs), numbers.connect(pairs.key_by(lambda p: p[0]))):
        with pytest.raises(TypeError, match="needs two keyed streams"):
            connected.process(KeyedCoProcess())
        assert isinstance(spec_of(connected.process(CoProcess())), specs.CoProcessSpec)


def test_wrong_functions_are_refused(numbers: DataStream, pairs: DataStream) -> None:
    connected = numbers.connect(pairs)

    with pytest.raises(TypeError, match="must be a CoMapFunction"):
        connected.map(lambda value: value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a CoFlatMapFunction"):
        connected.flat_map(CoMap())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="CoProcessFunction or KeyedCoProcessFunction"):
        connected.process(Broadcast())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a DataStream or a BroadcastStream"):
        numbers.connect([1])  # type: ignore[call-overload]


def test_streams_of_two_environments_cannot_be_connected(numbers: DataStream) -> None:
    other = StreamExecutionEnvironment(Configuration()).from_sequence(1, 2)

    with pytest.raises(UserError, match="same StreamExecutionEnvironment"):
        numbers.connect(other)
    with pytest.raises(UserError, match="same StreamExecutionEnvironment"):
        numbers.connect(other.broadcast(RULES))


def test_keys_of_different_types_are_refused(numbers: DataStream, pairs: DataStream) -> None:
    connected = numbers.key_by(lambda n: n, Types.INT()).connect(pairs.key_by(lambda p: p[1], Types.STRING()))

    with pytest.raises(TypeError, match="keys of one type"):
        connected.process(KeyedCoProcess())


def test_broadcast_with_descriptors_is_a_broadcast_stream(numbers: DataStream, pairs: DataStream) -> None:
    other = MapStateDescriptor("other", Types.STRING(), Types.INT())
    rules = pairs.broadcast(RULES, other)
    assert isinstance(rules, BroadcastStream)

    connected = numbers.connect(rules)
    assert isinstance(connected, BroadcastConnectedStream)
    result = connected.process(Broadcast(), Types.LONG())

    assert isinstance(spec_of(result), specs.BroadcastProcessSpec)
    assert spec_of(result).descriptors == (RULES, other)
    assert spec_of(result).input_types == (Types.LONG(), PAIR)
    assert result.get_name() == "Co-Process-Broadcast"


def test_keyed_stream_can_be_connected_with_a_broadcast_stream(numbers: DataStream, pairs: DataStream) -> None:
    connected = numbers.key_by(lambda n: n, Types.LONG()).connect(pairs.broadcast(RULES))

    result = connected.process(KeyedBroadcast())

    assert isinstance(spec_of(result), specs.KeyedBroadcastProcessSpec)
    assert spec_of(result).key_type == Types.LONG()
    with pytest.raises(TypeError, match="BroadcastProcessFunction should be applied to non-keyed DataStream"):
        connected.process(Broadcast())
    with pytest.raises(TypeError, match="KeyedBroadcastProcessFunction should be applied to keyed DataStream"):
        numbers.connect(pairs.broadcast(RULES)).process(KeyedBroadcast())


def test_wrong_descriptors_are_refused(pairs: DataStream) -> None:
    with pytest.raises(TypeError, match="must be MapStateDescriptor"):
        pairs.broadcast("rules")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="two broadcast states have the name 'rules'"):
        pairs.broadcast(RULES, RULES)


def test_operator_with_two_inputs_is_a_vertex_whose_inputs_are_numbered(
    env: StreamExecutionEnvironment, numbers: DataStream, pairs: DataStream
) -> None:
    numbers.connect(pairs).key_by(lambda n: n, lambda p: p[0]).process(KeyedCoProcess()).name("Joined").print()

    job_graph = env.generate_job_graph()
    validate_job_graph(job_graph)

    joined = next(vertex for vertex in job_graph.vertices if vertex.name.startswith("Joined"))
    producers = {result.id: (vertex.name, result) for vertex in job_graph.vertices for result in vertex.results}
    inputs = {edge.input_index: producers[edge.source_data_set_id] for edge in joined.inputs}
    assert joined.name == "Joined -> Sink: Print to Std. Out"
    assert [inputs[0][0], inputs[1][0]] == ["Source: Numbers", "Source: Sequence Source -> Pairs"]
    assert {result.partitioner_name for _, result in inputs.values()} == {"HASH"}


def test_broadcast_side_has_a_broadcast_edge_at_input_one(
    env: StreamExecutionEnvironment, numbers: DataStream, pairs: DataStream
) -> None:
    numbers.key_by(lambda n: n).connect(pairs.broadcast(RULES)).process(KeyedBroadcast()).name("Ruled")

    job_graph = env.generate_job_graph()

    ruled = next(vertex for vertex in job_graph.vertices if vertex.name == "Ruled")
    results = {result.id: result for vertex in job_graph.vertices for result in vertex.results}
    kinds = {edge.input_index: results[edge.source_data_set_id].partitioner_name for edge in ruled.inputs}
    assert kinds == {0: "HASH", 1: "BROADCAST"}


def test_nothing_is_chained_into_an_operator_with_two_inputs(
    env: StreamExecutionEnvironment, numbers: DataStream
) -> None:
    numbers.connect(numbers).map(CoMap()).name("Twice").map(str)

    job_graph = env.generate_job_graph()

    assert [vertex.name for vertex in job_graph.vertices] == ["Source: Numbers", "Twice -> Map"]
    twice = job_graph.vertices[1]
    assert sorted(edge.input_index for edge in twice.inputs) == [0, 1]
    assert len({edge.source_data_set_id for edge in twice.inputs}) == 2
