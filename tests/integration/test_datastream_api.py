"""Every operation of the DataStream API on a real cluster of two TaskExecutors, which all tests of this file share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from clusters import RunningCluster

from flinkpy.common import Configuration, JobStatus, Row, Types
from flinkpy.common.errors import JobCancelledError, JobExecutionError
from flinkpy.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.aggregates import count, max_, mean, sum_
from flinkpy.datastream.collected_results import CloseableIterator
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

MakeEnvironment = Callable[..., StreamExecutionEnvironment]


@pytest.fixture
def make_env(wide_cluster: RunningCluster) -> MakeEnvironment:
    def make(parallelism: int = 2, **properties: str) -> StreamExecutionEnvironment:
        entries = {
            **wide_cluster.properties,
            "restart-strategy.type": "none",
            **properties,
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(entries))
        env.set_parallelism(parallelism)
        return env

    return make


def results(stream: DataStream) -> list[Any]:
    collected = stream.execute_and_collect()
    assert isinstance(collected, CloseableIterator)
    with collected:
        return list(collected)


def test_untyped_records_arrive_unchanged(make_env: MakeEnvironment) -> None:
    env = make_env()
    stream = env.from_collection([{"a": 1}, None, (1, [2]), "x"]).rebalance().map(lambda x: x)

    assert sorted(map(repr, results(stream))) == ["'x'", "(1, [2])", "None", "{'a': 1}"]


def test_typed_records_are_converted_at_the_exchange(make_env: MakeEnvironment) -> None:
    env = make_env(1)
    stream = env.from_sequence(43878, 43878).map(lambda x: x, Types.SHORT()).rebalance().map(lambda x: x)

    assert results(stream) == [-21658]


def test_flat_map_takes_lists_and_generators(make_env: MakeEnvironment) -> None:
    def twice(value: int) -> Iterator[int]:
        yield value
        yield -value

    env = make_env(1)

    assert results(env.from_collection([1, 2]).flat_map(twice).flat_map(lambda x: [x])) == [1, -1, 2, -2]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_reduce_emits_every_intermediate_result(make_env: MakeEnvironment, parallelism: int) -> None:
    env = make_env(parallelism)
    stream = env.from_collection(range(1, 8)).key_by(lambda x: x % 2).reduce(lambda a, b: a + b)

    assert sorted(results(stream)) == sorted([1, 4, 9, 16, 2, 6, 12])


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sum", [(1, 5, "a"), (1, 8, "a"), (1, 15, "a")]),
        ("min", [(1, 5, "a"), (1, 3, "a"), (1, 3, "a")]),
        ("max", [(1, 5, "a"), (1, 5, "a"), (1, 7, "a")]),
        ("min_by", [(1, 5, "a"), (1, 3, "b"), (1, 3, "b")]),
        ("max_by", [(1, 5, "a"), (1, 5, "a"), (1, 7, "c")]),
    ],
)
def test_rolling_aggregates_emit_every_intermediate_result(
    make_env: MakeEnvironment, method: str, expected: list[tuple[Any, ...]]
) -> None:
    tuple_type = Types.TUPLE([Types.INT(), Types.INT(), Types.STRING()])
    stream = make_env().from_collection([(1, 5, "a"), (1, 3, "b"), (1, 7, "c")], tuple_type)

    assert results(getattr(stream.key_by(lambda t: t[0]), method)(1)) == expected


def test_rolling_aggregates_accept_a_named_field(make_env: MakeEnvironment) -> None:
    rows = make_env().from_collection(
        [Row(k="x", v=1), Row(k="x", v=2)], Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])
    )

    assert results(rows.key_by("k").sum("v")) == [Row(k="x", v=1), Row(k="x", v=3)]


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AllStates(KeyedProcessFunction):
    def open(self, runtime_context):  # type: ignore[no-untyped-def]
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), pair))

    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        seen = (self.value.value() or 0) + 1
        self.value.update(seen)
        self.list.add(value)
        self.map[f"last {value % 4}"] = value
        self.sum.add(value)
        self.mean.add(value)
        yield ctx.get_current_key(), seen, list(self.list), dict(self.map.items()), self.sum.get(), self.mean.get()


def test_states_belong_to_the_key(make_env: MakeEnvironment) -> None:
    found = results(make_env().from_collection([1, 2, 3, 4]).key_by(lambda x: x % 2).process(AllStates()))

    assert sorted(found, key=lambda r: (r[0], r[1])) == [
        (0, 1, [2], {"last 2": 2}, 2, 2.0),
        (0, 2, [2, 4], {"last 2": 2, "last 0": 4}, 6, 3.0),
        (1, 1, [1], {"last 1": 1}, 1, 1.0),
        (1, 2, [1, 3], {"last 1": 1, "last 3": 3}, 4, 2.0),
    ]


ODD = OutputTag("odd", Types.LONG())


class SplitOdd(ProcessFunction):
    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        if value % 2:
            yield ODD, value
        else:
            yield value


def test_side_output_is_its_own_stream(make_env: MakeEnvironment) -> None:
    env = make_env(1)
    main = env.from_sequence(1, 6).process(SplitOdd(), Types.LONG())
    both = main.map(lambda x: x * 10, Types.LONG()).union(main.get_side_output(ODD))

    assert sorted(results(both)) == [1, 3, 5, 20, 40, 60]


def test_union_takes_the_same_stream_twice(make_env: MakeEnvironment) -> None:
    env = make_env()
    first, second = env.from_sequence(1, 3), env.from_sequence(10, 11)

    assert sorted(results(first.union(second, first).map(lambda x: x))) == [1, 1, 2, 2, 3, 3, 10, 11]


@pytest.mark.parametrize(
    ("method", "copies"), [("shuffle", 1), ("rescale", 1), ("rebalance", 1), ("forward", 1), ("broadcast", 2)]
)
def test_every_partitioning_delivers_everything(make_env: MakeEnvironment, method: str, copies: int) -> None:
    stream = getattr(make_env(2).from_sequence(1, 200), method)().map(lambda x: x)

    assert sorted(results(stream)) == sorted(list(range(1, 201)) * copies)


class WithSubtask(MapFunction):
    def open(self, runtime_context):  # type: ignore[no-untyped-def]
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value):  # type: ignore[no-untyped-def]
        return self.subtask, value


def test_custom_partitioner_chooses_the_subtask(make_env: MakeEnvironment) -> None:
    stream = make_env(2).from_sequence(1, 50).partition_custom(lambda key, n: key % n, lambda value: value + 1)

    assert all(subtask == (value + 1) % 2 for subtask, value in results(stream.map(WithSubtask())))


def test_keyed_stream_collects_key_and_value(make_env: MakeEnvironment) -> None:
    stream = make_env(1).from_collection([1, 2]).key_by(lambda x: -x)

    assert results(stream) == [Row(-1, 1), Row(-2, 2)]


def test_project_reorders_a_tuple(make_env: MakeEnvironment) -> None:
    pairs = Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE()])

    assert results(make_env(1).from_collection([(1, "a", 2.5)], pairs).project(2, 0)) == [(2.5, 1)]


def test_columns_are_aggregated_by_column_keys(make_env: MakeEnvironment) -> None:
    pairs = [(name, number) for number in range(10) for name in ("x", "y")]
    stream = make_env(2).from_collection(pairs, Types.TUPLE([Types.STRING(), Types.INT()]))
    aggregated = stream.key_by(0).aggregate(count("n"), sum_("f1"), mean("f1"), max_("f1"), emit="FINAL")

    assert sorted(map(tuple, results(aggregated))) == [("x", 10, 45, 4.5, 9), ("y", 10, 45, 4.5, 9)]


def test_batches_are_mapped_and_filtered_in_columns(make_env: MakeEnvironment) -> None:
    def with_square(batch: pa.RecordBatch) -> pa.RecordBatch:
        number = batch.column(0)
        return pa.record_batch({"n": number, "square": pc.multiply(number, number)})

    schema = pa.schema([("n", pa.int64()), ("square", pa.int64())])
    stream = make_env(1).from_sequence(1, 5).map_batches(with_square, schema)
    filtered = stream.filter_batches(pc.field("square") > 4).filter_batches(lambda b: pc.less(b.column("n"), 5))

    assert results(filtered) == [Row(n=3, square=9), Row(n=4, square=16)]


class Person:
    """A class of a module that tasks import by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_objects_of_user_classes_travel_between_processes(make_env: MakeEnvironment) -> None:
    people = make_env().from_collection([Person("Ann"), Person("Bo")])
    stream = people.rebalance().map(lambda p: Person(p.name.upper())).key_by(lambda p: p.name).map(lambda p: p)

    assert sorted(person.name for person in results(stream)) == ["ANN", "BO"]


def test_limit_ends_an_endless_job(make_env: MakeEnvironment) -> None:
    stream = make_env(1).from_sequence(1, 1 << 50).map(lambda x: x * 2)

    assert stream.execute_and_collect(limit=3) == [2, 4, 6]


def test_results_may_remain_unread(make_env: MakeEnvironment) -> None:
    collected = make_env(1).from_sequence(1, 1 << 50).map(lambda x: x).execute_and_collect()
    assert isinstance(collected, CloseableIterator)
    assert collected.next() == 1
    collected.close()

    with pytest.raises(StopIteration):
        collected.next()


def fail(value: object) -> object:
    raise ValueError(f"flat_map_func error of {value}")


@pytest.mark.parametrize("collect", [True, False])
def test_users_exception_reaches_the_program_with_its_own_frames(make_env: MakeEnvironment, collect: bool) -> None:
    env = make_env(1)
    stream = env.from_collection(["it"]).flat_map(fail)

    with pytest.raises(JobExecutionError) as caught:
        if collect:
            results(stream)
        else:
            stream.print()
            env.execute()

    text = str(caught.value)
    assert "ValueError: flat_map_func error of it" in text
    assert "test_datastream_api.py" in text
    assert "operator Flat Map" in text


def test_result_of_another_type_than_declared_names_task_and_value(make_env: MakeEnvironment) -> None:
    stream = make_env(1).from_sequence(1, 3).map(str, Types.LONG()).rebalance().map(lambda x: x)

    with pytest.raises(JobExecutionError, match=r"Map.*record 0: '1' \(str\) is not a Long"):
        results(stream)


def test_job_client_follows_a_job_to_its_end(make_env: MakeEnvironment) -> None:
    env = make_env(1)
    env.from_sequence(1, 10).print()
    client = env.execute_async("followed")

    result = client.get_job_execution_result().result()

    assert str(result.get_job_id()) == str(client.get_job_id())
    assert result.get_net_runtime() >= 0
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_job_client_cancels_a_job(make_env: MakeEnvironment) -> None:
    env = make_env(1)
    env.from_sequence(1, 1 << 50).filter(lambda x: False).print()
    client = env.execute_async("endless")
    client.cancel().result()

    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.CANCELED


class ReadParameter(MapFunction):
    def open(self, runtime_context):  # type: ignore[no-untyped-def]
        self.answer = runtime_context.get_job_parameter("answer", "none")

    def map(self, value):  # type: ignore[no-untyped-def]
        return self.answer


def test_functions_read_global_job_parameters(make_env: MakeEnvironment) -> None:
    env = make_env(1)
    env.get_config().set_global_job_parameters({"answer": "42"})

    assert results(env.from_collection([1]).map(ReadParameter())) == ["42"]


def test_python_file_of_the_program_is_importable_in_tasks(make_env: MakeEnvironment, tmp_path: Path) -> None:
    module = tmp_path / "sent_along_module.py"
    module.write_text(f"import os\ndef where(value):\n    return value, os.getpid() != {os.getpid()}\n")

    def use(value: int) -> object:
        import sent_along_module  # type: ignore[import-not-found]

        return sent_along_module.where(value)

    env = make_env(1)
    env.add_python_file(str(module))

    assert "sent_along_module" not in sys.modules
    assert results(env.from_collection([7]).map(use)) == [(7, True)]
