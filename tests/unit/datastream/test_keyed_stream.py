from __future__ import annotations

import pytest

from flinkpy.common import Configuration, Types
from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.aggregates import count, max_, mean, min_, sum_
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.operator_specs import FieldKeySelector, RollingKind

NAMED = Types.ROW_NAMED(["k", "v", "d"], [Types.STRING(), Types.INT(), Types.DOUBLE()])
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration())


@pytest.fixture
def named(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([("a", 1, 0.5)], NAMED)


@pytest.fixture
def keyed(named: DataStream) -> KeyedStream:
    return named.key_by(lambda row: row[0], Types.STRING())


def spec_of(stream: DataStream) -> specs.KeyedSpec:
    return stream.transformation.spec  # type: ignore[attr-defined]


class Process(KeyedProcessFunction):
    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        yield value


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("shuffle", (), "Cannot override partitioning for KeyedStream."),
        ("rebalance", (), "Cannot override partitioning for KeyedStream."),
        ("rescale", (), "Cannot override partitioning for KeyedStream."),
        ("forward", (), "Cannot override partitioning for KeyedStream."),
        ("broadcast", (), "Cannot override partitioning for KeyedStream."),
        ("set_parallelism", (1,), "Set parallelism for KeyedStream is not supported."),
        ("name", ("x",), "Set name for KeyedStream is not supported."),
        ("get_name", (), "Get name of KeyedStream is not supported."),
        ("uid", ("x",), "Set uid for KeyedStream is not supported."),
        ("set_uid_hash", ("x",), "Set uid hash for KeyedStream is not supported."),
        ("set_max_parallelism", (1,), "Set max parallelism for KeyedStream is not supported."),
        ("force_non_parallel", (), "Set force non-parallel for KeyedStream is not supported."),
        ("set_buffer_timeout", (1,), "Set buffer timeout for KeyedStream is not supported."),
        ("start_new_chain", (), "Start new chain for KeyedStream is not supported."),
        ("disable_chaining", (), "Disable chaining for KeyedStream is not supported."),
        ("slot_sharing_group", ("x",), "Setting slot sharing group for KeyedStream is not supported."),
        ("cache", (), "Cache for KeyedStream is not supported."),
    ],
)
def test_settings_and_partitioning_are_refused(
    keyed: KeyedStream, method: str, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(Exception, match=message.replace(".", r"\.")):
        getattr(keyed, method)(*arguments)


def test_operations_are_keyed(keyed: KeyedStream) -> None:
    streams = [
        keyed.map(str),
        keyed.flat_map(list),
        keyed.filter(bool),
        keyed.reduce(max),
        keyed.process(Process()),
        keyed.sum("v"),
    ]

    for stream in streams:
        spec = spec_of(stream)
        assert isinstance(spec, specs.KeyedSpec)
        assert spec.key_type == Types.STRING()
        assert spec.input_types == (NAMED,)
    assert [spec_of(s).kind for s in streams[:3]] == ["MAP", "FLAT_MAP", "FILTER"]  # type: ignore[attr-defined]
    assert [s.get_type() == NAMED for s in streams] == [False, False, True, True, False, True]


def test_process_needs_a_keyed_function(keyed: KeyedStream) -> None:
    with pytest.raises(TypeError, match="KeyedProcessFunction is required"):
        keyed.process(lambda value: value)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["sum", "min", "max", "min_by", "max_by"])
def test_rolling_aggregates_take_a_position_or_a_name(keyed: KeyedStream, method: str) -> None:
    aggregate = getattr(keyed, method)

    assert spec_of(aggregate()).position == 0  # type: ignore[attr-defined]
    assert spec_of(aggregate("v")).position == "v"  # type: ignore[attr-defined]
    assert spec_of(aggregate(1)).kind is RollingKind(method)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="int or str type to locate"):
        aggregate(1.5)
    with pytest.raises(ValueError, match="no field 'x'"):
        aggregate("x")
    with pytest.raises(ValueError, match="no field 7"):
        aggregate(7)


def test_plain_values_have_themselves_as_their_only_field(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_sequence(1, 2).key_by(lambda x: x)

    assert spec_of(keyed.sum()).position == 0  # type: ignore[attr-defined]
    for position in (1, "f0"):
        with pytest.raises(TypeError, match=f"The {position} field selected on a basic type"):
            keyed.max_by(position)


def test_name_of_a_tuples_field_is_its_position(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1)], PAIR)

    assert spec_of(stream.key_by("f0").sum("f1")).position == 1  # type: ignore[attr-defined]
    assert spec_of(stream.key_by("f0").sum("f1")).key_selector == FieldKeySelector((0,))


def test_key_by_columns_infers_the_key_type(named: DataStream) -> None:
    one, two = named.key_by("k").reduce(max), named.key_by(("k", 1)).reduce(max)

    assert spec_of(one).key_selector == FieldKeySelector(("k",))
    assert spec_of(one).key_type == Types.STRING()
    assert spec_of(two).key_type == Types.TUPLE([Types.STRING(), Types.INT()])
    assert spec_of(two).key_selector.get_key({"k": "a", 1: 2}) == ("a", 2)
    with pytest.raises(ValueError, match="key_by: the stream has no field 'z'"):
        named.key_by("z")
    with pytest.raises(TypeError, match="only a TUPLE or ROW"):
        named.get_execution_environment().from_sequence(1, 2).key_by(0)


def test_key_of_untyped_records_may_be_a_field(env: StreamExecutionEnvironment) -> None:
    assert spec_of(env.from_collection([{"k": 1}]).key_by("k").reduce(max)).key_type is None


def test_plain_operations_read_the_partitioned_stream(keyed: KeyedStream) -> None:
    assert not isinstance(keyed.union(keyed), KeyedStream)
    assert keyed.key_by("v").get_type() == NAMED
    assert keyed.print().transformation.inputs == (keyed.transformation,)
    assert keyed.partition_custom(lambda key, n: 0, lambda row: row).get_type() == NAMED


def test_aggregate_has_the_key_columns_and_one_column_per_aggregate(named: DataStream) -> None:
    stream = named.key_by("k").aggregate(
        count(), sum_("v"), sum_("d"), min_("k", "first"), max_("d"), emit="FINAL", average=mean("v")
    )

    assert stream.get_type() == Types.ROW_NAMED(
        ["k", "count", "sum_v", "sum_d", "first", "max_d", "average"],
        [
            Types.STRING(),
            Types.LONG(),
            Types.LONG(),
            Types.DOUBLE(),
            Types.STRING(),
            Types.DOUBLE(),
            Types.DOUBLE(),
        ],
    )
    assert spec_of(stream).emit == "FINAL"  # type: ignore[attr-defined]


def test_aggregate_of_a_tuple_names_its_columns_by_position(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1)], PAIR).key_by(0).aggregate(sum_("f1"))

    assert stream.get_type() == Types.ROW_NAMED(["f0", "sum_f1"], [Types.STRING(), Types.LONG()])


def test_invalid_aggregates_are_refused(named: DataStream) -> None:
    keyed = named.key_by("k")

    with pytest.raises(UserError, match="no column 'z'"):
        keyed.aggregate(sum_("z"))
    with pytest.raises(UserError, match="column 'k' is a String, not a number"):
        keyed.aggregate(mean("k"))
    with pytest.raises(UserError, match="the key must be columns"):
        named.key_by(lambda row: row[0]).aggregate(count())
    with pytest.raises(UserError, match="declared TUPLE or ROW type"):
        named.map(str).key_by(0).aggregate(count())
    with pytest.raises(ValueError, match="two aggregates have the name 'count'"):
        keyed.aggregate(count(), count())
    with pytest.raises(ValueError, match="at least one"):
        keyed.aggregate()
    with pytest.raises(ValueError, match="emit"):
        keyed.aggregate(count(), emit="SOMETIMES")
    with pytest.raises(TypeError, match="is not an aggregate"):
        keyed.aggregate("count")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["reduce", "sum", "min", "max", "min_by", "window", "count_window"])
def test_the_error_of_a_keyed_operation_on_an_unkeyed_stream_suggests_key_by(name: str) -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(AttributeError, match=rf"stream\.key_by\(lambda value: \.\.\.\)\.{name}\("):
        getattr(stream, name)
    for other in ("no_such_thing", "__no_such_dunder__"):
        for each in (stream, stream.key_by(lambda value: value)):
            with pytest.raises(AttributeError, match=f"has no attribute '{other}'$"):
                getattr(each, other)


@pytest.mark.parametrize(
    "key_type",
    [
        Types.LIST(Types.INT()),
        Types.MAP(Types.STRING(), Types.INT()),
        Types.SET(Types.INT()),
        Types.BASIC_ARRAY(Types.INT()),
        Types.PRIMITIVE_ARRAY(Types.INT()),
        Types.EITHER(Types.INT(), Types.STRING()),
        Types.TUPLE([Types.INT(), Types.ROW([Types.LIST(Types.INT())])]),
    ],
    ids=repr,
)
def test_a_key_type_whose_values_can_change_is_refused_when_the_program_is_built(
    named: DataStream, key_type: TypeInformation
) -> None:
    with pytest.raises(TypeError, match="cannot be the type of a key"):
        named.key_by(lambda row: row, key_type)


def test_bytes_and_rows_of_plain_values_are_key_types(named: DataStream) -> None:
    for key_type in (Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.ROW([Types.INT(), Types.STRING()])):
        assert named.key_by(lambda row: row, key_type).key_type == key_type


def test_a_declared_key_type_must_be_that_of_the_fields(named: DataStream) -> None:
    assert named.key_by("v", Types.INT()).key_type == Types.INT()
    with pytest.raises(TypeError, match=r"the fields \['v'\] of the stream"):
        named.key_by("v", Types.DOUBLE())


def test_object_keys_are_compared_as_objects_and_not_as_pickles(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([((1, 2), 1)], Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), Types.INT()]))

    assert stream.key_by(1).key_selector == FieldKeySelector((1,))
    for fields, key in ((0, "x"), ((0, 1), ("x", 5))):
        selector = stream.key_by(fields).key_selector
        assert not isinstance(selector, FieldKeySelector)
        assert selector.get_key(("x", 5)) == key


def test_a_key_type_declared_by_one_of_two_streams_applies_to_both(named: DataStream) -> None:
    declared = named.key_by(lambda row: row[1], Types.DOUBLE())
    plain = named.key_by(lambda row: row[1])

    class Both(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):  # type: ignore[no-untyped-def]
            yield value

        process_element2 = process_element1

    for first, second in ((declared, plain), (plain, declared)):
        result = first.connect(second).process(Both())
        assert spec_of(result).key_type == Types.DOUBLE()
        types = [one.partitioning.key_type for one in result.transformation.inputs]  # type: ignore[attr-defined]
        assert types == [Types.DOUBLE()] * 2
